package roofline

import "math"

// A Constant names one constant of the laws: what hardware, kernels and host do in
// practice. Its zero value stands for no constant.
type Constant uint8

// None is no constant.
const None Constant = 0

// NumConstants is one more than the most constants that there can be.
const NumConstants = 224

// table has the entries of the constants.
var table []Info

// define enters a constant. Its many calls, compiled in place, would be a hundredth of the page's program.
//
//go:noinline
func define(i Info) Constant {
	if len(table) == 0 {
		table = append(table, Info{}) // entry of None
	}
	c := Constant(len(table))
	if i.Base != None {
		if i.Leader == None {
			i.Leader = c
		}
		table[i.Base].variants = append(table[i.Base].variants, c)
	}
	table = append(table, i)
	return c
}

// Constants has a value for each constant.
type Constants [NumConstants]float64

// A Quantity is what a constant is measured in.
type Quantity uint8

// The quantities.
const (
	Share    Quantity = iota // share of a peak of the data sheet: a term is divided by it, and multiplied by constants of other quantities
	Time                     // time above 0
	Delay                    // time that may be 0
	Tokens                   // number of tokens, which may be 0
	Growth                   // what each row adds, as a share of a time
	Repeats                  // how often something is done
	Often                    // how often something is done that may be left out
	Exposure                 // how much of the lesser of two times shows
	Shown                    // share of a time that shows
	Power                    // share of the power between waiting and the limit, or of that limit
	Burst                    // share of the power between waiting and the limit that may exceed 1, for kernels that ask for more
)

// MaxBurst is the most power that kernels can ask for, in shares of what lies
// between the waiting power and the limit.
const MaxBurst = 3

// An Info says what a constant is.
type Info struct {
	Key      string // section and name of a calibration file: "gemm.compute"
	Help     string
	Quantity Quantity
	Ideal    float64    // value of ideal hardware and an ideal engine
	Optional bool       // a calibration file may leave it out
	Engine   bool       // The constant belongs to an engine on its host, not to a GPU.
	Unfiled  bool       // no calibration file has it: nothing here measures it
	Base     Constant   // constant in its place where Leader is 0; None for nothing
	Leader   Constant   // first constant of its section: without it, a calibration has none of the section
	variants []Constant // constants whose Base it is
}

// The constants, in the order of a calibration file.
var (
	GEMMCompute   = define(Info{Key: "gemm.compute", Help: "share of the matrix peak in short bursts", Ideal: 1})
	GEMMSustained = define(Info{Key: "gemm.sustained", Help: "share of the matrix peak after seconds at the power limit", Ideal: 1,
		Optional: true})
	GEMMMemory = define(Info{Key: "gemm.memory", Help: "share of the memory bandwidth", Ideal: 1})
	GEMMFixed  = define(Info{Key: "gemm.fixed", Help: "time of a launch that no size takes away", Quantity: Time})
	GEMMDepth  = define(Info{Key: "gemm.depth", Help: "time of an input: a tile adds its products up one after the other", Quantity: Delay,
		Optional: true})
	GEMMQuantize = define(Info{Key: "gemm.quantize", Help: "how often activations are moved that a separate kernel quantizes", Quantity: Often,
		Optional: true})
	GEMMRow     = define(Info{Key: "gemm.row", Help: "time of a row that a separate kernel quantizes", Quantity: Delay, Optional: true})
	GEMMExposed = define(Info{Key: "gemm.exposed", Help: "how much of the lesser of arithmetic and memory traffic shows: 0 where they hide " +
		"each other wholly, 1 for the root of the sum of squares", Quantity: Exposure, Optional: true})
	GEMMIdle = define(Info{Key: "gemm.tile_idle", Help: "share of the time of SMs without a tile that shows, of kernels for mma: Ampere's, " +
		"Ada's and those of Blackwell's graphics cards", Quantity: Shown, Optional: true})

	SkinnyGEMMMemory = define(Info{Key: "skinny_gemm.memory", Help: "share of the memory bandwidth", Ideal: 1, Optional: true})
	SkinnyGEMMRow    = define(Info{Key: "skinny_gemm.row", Help: "what each row adds, of the time that the weights take at the bandwidth",
		Quantity: Growth, Optional: true})
	SkinnyGEMMFixed = define(Info{Key: "skinny_gemm.fixed", Help: "time of a launch that no size takes away", Quantity: Time, Optional: true})

	WGMMAMemory = define(Info{Key: "wgmma_gemm.memory", Help: "share of the memory bandwidth", Ideal: 1, Optional: true})
	WGMMAReload = define(Info{Key: "wgmma_gemm.reload", Help: "how often inputs and results are moved", Quantity: Repeats, Optional: true})
	WGMMAFixed  = define(Info{Key: "wgmma_gemm.fixed", Help: "time of a launch that no size takes away", Quantity: Time, Optional: true})

	VectorGEMMCompute = define(Info{Key: "vector_gemm.compute", Help: "share of the FP32 vector peak that products in FP32 sustain", Ideal: 1,
		Optional: true, Engine: true, Unfiled: true, Base: GEMMCompute})

	MoEDecodeMemory = define(Info{Key: "moe_decode.memory", Help: "share of the memory bandwidth", Ideal: 1, Optional: true})
	MoEDecodeReload = define(Info{Key: "moe_decode.reload", Help: "time of weights that are read again, of what they take at the bandwidth",
		Quantity: Repeats, Optional: true})
	MoEDecodeFixed = define(Info{Key: "moe_decode.fixed", Help: "time of router, top-k and experts that no size takes away, of one sequence",
		Quantity: Time, Optional: true})
	MoEDecodeBatched = define(Info{Key: "moe_decode.batched",
		Help: "time of router, top-k and experts that no size takes away, of several sequences, whose pairs are sorted by expert", Quantity: Time,
		Optional: true})

	MoEPrefillCompute = define(Info{Key: "moe_prefill.compute", Help: "share of the matrix peak", Ideal: 1, Optional: true})
	MoEPrefillMemory  = define(Info{Key: "moe_prefill.memory", Help: "share of the memory bandwidth", Ideal: 1, Optional: true})
	MoEPrefillPermute = define(Info{Key: "moe_prefill.permute", Help: "how often the pairs' inputs are moved", Quantity: Repeats,
		Optional: true})
	MoEPrefillUnpermute = define(Info{Key: "moe_prefill.unpermute", Help: "how often the pairs' results are moved", Quantity: Repeats,
		Optional: true})

	RoutingPair   = define(Info{Key: "moe_routing.pair", Help: "time of a pair of a token and an expert", Quantity: Time, Optional: true})
	RoutingExpert = define(Info{Key: "moe_routing.expert", Help: "time of an expert", Quantity: Time, Optional: true})
	RoutingFixed  = define(Info{Key: "moe_routing.fixed", Help: "time that no number of pairs or experts takes away", Quantity: Time,
		Optional: true})

	AttentionCompute = define(Info{Key: "attention.compute", Help: "share of the matrix peak, prefill", Ideal: 1})
	AttentionMemory  = define(Info{Key: "attention.memory", Help: "share of the memory bandwidth, decode", Ideal: 1})
	AttentionFixed   = define(Info{Key: "attention.fixed", Help: "time of a launch that no size takes away", Quantity: Time})
	AttentionRamp    = define(Info{Key: "attention.ramp", Help: "tokens of a prefill at which it reaches half of its rate", Quantity: Tokens})
	AttentionCopies  = define(Info{Key: "attention.copies",
		Help: "share of the memory bandwidth at which copies of the KV cache for every query head are read", Ideal: 1, Engine: true,
		Unfiled: true})

	AttentionMMACompute = define(Info{Key: "attention.mma", Help: "share of the matrix peak, prefill by mma where wgmma is the faster",
		Ideal: 1, Optional: true, Engine: true, Unfiled: true, Base: AttentionCompute})

	AttentionTile = define(Info{Key: "attention.tile", Help: "time of a tile of queries, of which there is one at least for each sequence " +
		"and KV head, spread over the SMs", Quantity: Delay, Optional: true})

	ScanCompute = define(Info{Key: "scan.compute", Help: "share of the matrix peak", Ideal: 1, Optional: true, Base: AttentionCompute})
	ScanMemory  = define(Info{Key: "scan.memory", Help: "share of the memory bandwidth", Ideal: 1, Optional: true, Base: AttentionMemory,
		Leader: ScanCompute})
	ScanFixed = define(Info{Key: "scan.fixed", Help: "time of a launch that no size takes away", Quantity: Time, Optional: true,
		Base: AttentionFixed, Leader: ScanCompute})
	ScanChunk = define(Info{Key: "scan.chunk", Help: "time of a chunk of a sequence, each of which waits for the state behind the one " +
		"before it", Quantity: Delay, Optional: true})

	GroupedCompute = define(Info{Key: "grouped_gemm.compute", Help: "share of the matrix peak", Ideal: 1, Optional: true, Base: GEMMCompute})
	GroupedMemory  = define(Info{Key: "grouped_gemm.memory", Help: "share of the memory bandwidth", Ideal: 1, Optional: true, Base: GEMMMemory,
		Leader: GroupedCompute})
	GroupedPermute = define(Info{Key: "grouped_gemm.permute", Help: "how often inputs of all pairs of a token and an expert are moved",
		Quantity: Often, Optional: true})
	GroupedExpert = define(Info{Key: "grouped_gemm.expert",
		Help: "time of a tile of an expert, or of an expert that tokens are sent to where tiles are not known", Quantity: Delay, Optional: true})
	GroupedFixed = define(Info{Key: "grouped_gemm.fixed", Help: "time of a product of the experts that no size takes away", Quantity: Time,
		Optional: true, Base: GEMMFixed, Leader: GroupedCompute})

	ElementwiseCompute = define(Info{Key: "element.compute", Help: "share of the FP32 vector peak", Ideal: 1})
	ElementwiseMemory  = define(Info{Key: "element.memory", Help: "share of the memory bandwidth", Ideal: 1})
	ElementwiseFixed   = define(Info{Key: "element.fixed", Help: "time of a launch that no size takes away", Quantity: Time})
	ElementwiseUnfused = define(Info{Key: "element.unfused", Help: "share of the memory bandwidth, of an engine that does not fuse", Ideal: 1,
		Optional: true, Engine: true, Unfiled: true, Base: ElementwiseMemory})

	ScanStepMemory = define(Info{Key: "scan_step.memory", Help: "share of the memory bandwidth", Ideal: 1, Optional: true,
		Base: ElementwiseMemory})
	ScanStepFixed = define(Info{Key: "scan_step.fixed", Help: "time of a launch that no size takes away", Quantity: Time, Optional: true,
		Base: ElementwiseFixed, Leader: ScanStepMemory})
	ConvMemory = define(Info{Key: "conv.memory", Help: "share of the memory bandwidth", Ideal: 1, Optional: true, Base: ElementwiseMemory})
	ConvFixed  = define(Info{Key: "conv.fixed", Help: "time of a launch that no size takes away", Quantity: Time, Optional: true,
		Base: ElementwiseFixed, Leader: ConvMemory})
	ConvStepMemory = define(Info{Key: "conv_step.memory", Help: "share of the memory bandwidth", Ideal: 1, Optional: true,
		Base: ElementwiseMemory})
	ConvStepFixed = define(Info{Key: "conv_step.fixed", Help: "time of a launch that no size takes away", Quantity: Time, Optional: true,
		Base: ElementwiseFixed, Leader: ConvStepMemory})

	GraphNode  = define(Info{Key: "graph.node", Help: "time of a kernel of a CUDA graph, from the end of the one before it", Quantity: Time})
	StreamNode = define(Info{Key: "stream.node", Help: "by how much longer a kernel takes outside a CUDA graph", Quantity: Time,
		Optional: true, Engine: true})

	LinkShare    = define(Info{Key: "link.share", Help: "share of the link that a large all-reduce reaches", Ideal: 1})
	LinkBase     = define(Info{Key: "link.base", Help: "latency of an all-reduce over n GPUs: base + n × per_gpu", Quantity: Time})
	LinkPerGPU   = define(Info{Key: "link.per_gpu", Help: "latency that each GPU adds to an all-reduce", Quantity: Time})
	OneShotShare = define(Info{Key: "one_shot.share", Help: "share of the link that a small all-reduce over peer memory reaches",
		Ideal: 1, Optional: true, Base: LinkShare})
	OneShotSlicedShare = define(Info{Key: "one_shot.sliced_share",
		Help: "share of the link that an all-reduce over peer memory reaches in two exchanges", Ideal: 1, Optional: true, Base: OneShotShare})
	OneShotBase = define(Info{Key: "one_shot.base", Help: "latency of a small all-reduce over peer memory: base + n × per_gpu",
		Quantity: Time})
	OneShotPerGPU = define(Info{Key: "one_shot.per_gpu", Help: "latency that each GPU adds to a small all-reduce over peer memory",
		Quantity: Time})
	OneShotSecond = define(Info{Key: "one_shot.second",
		Help: "latency that a second exchange adds to a small all-reduce over peer memory, of which each rank then sums a slice", Quantity: Delay,
		Optional: true})
	FusedAllReduceBase = define(Info{Key: "fused_all_reduce.base",
		Help: "latency of an all-reduce that GEMMs do themselves: base + n × per_gpu", Quantity: Time, Optional: true})
	FusedAllReducePerGPU = define(Info{Key: "fused_all_reduce.per_gpu",
		Help: "latency that each GPU adds to an all-reduce that GEMMs do themselves", Quantity: Delay, Optional: true})
	PCIeShare = define(Info{Key: "pcie.share", Help: "share of PCIe that a large all-reduce reaches", Ideal: 1, Unfiled: true})
	PCIeBase  = define(Info{Key: "pcie.base", Help: "latency of an all-reduce over PCIe: base + n × per_gpu", Quantity: Time,
		Unfiled: true})
	PCIePerGPU = define(Info{Key: "pcie.per_gpu", Help: "latency that each GPU adds to an all-reduce over PCIe", Quantity: Time,
		Unfiled: true})
	HostCopyShare = define(Info{Key: "host_copy.share", Help: "share of PCIe that a copy between GPU and host reaches", Ideal: 1,
		Unfiled: true})
	InterNodeShare = define(Info{Key: "inter_node.share", Help: "share of the network between nodes that a large collective reaches", Ideal: 1,
		Unfiled: true})
	InterNodeBase = define(Info{Key: "inter_node.base", Help: "latency between nodes", Quantity: Time, Unfiled: true})

	PowerWaiting = define(Info{Key: "power.waiting", Help: "power at full clocks with nothing to do, as a share of what lies between " +
		"idle power and limit", Quantity: Power, Optional: true})
	PowerMatrix = define(Info{Key: "power.matrix", Help: "power of arithmetic at the matrix peak and full clocks", Quantity: Burst,
		Optional: true, Unfiled: true})
	PowerMemory = define(Info{Key: "power.memory", Help: "power while GEMMs of a library read their weights", Quantity: Power,
		Optional: true})
	PowerSkinnyGEMM = define(Info{Key: "power.skinny_gemm", Help: "power while skinny GEMMs read their weights", Quantity: Burst,
		Optional: true})
	PowerWGMMA = define(Info{Key: "power.wgmma_gemm", Help: "power while GEMMs of a decode step of many sequences by wgmma read their " +
		"weights", Quantity: Burst, Optional: true, Base: PowerMemory})
	PowerMoEDecode = define(Info{Key: "power.moe_decode", Help: "power while the MoE kernel of a decode step reads its weights",
		Quantity: Burst, Optional: true, Base: PowerSkinnyGEMM})
	PowerAttention = define(Info{Key: "power.attention", Help: "power while decode attention reads the KV cache", Quantity: Burst,
		Optional: true})
	PowerUnpack = define(Info{Key: "power.unpack", Help: "power of the vector units while they unpack weights beside that of their bytes",
		Quantity: Burst, Optional: true, Unfiled: true})
	PowerNetwork = define(Info{Key: "power.network", Help: "power while links are busy", Quantity: Power, Optional: true})
	PowerFixed   = define(Info{Key: "power.fixed", Help: "power while a kernel starts and ends", Quantity: Power, Optional: true})
	PowerIdle    = define(Info{Key: "power.idle", Help: "power of an idle GPU whose idle power no source gives, as a share of the limit",
		Quantity: Power, Unfiled: true})

	HostStep = define(Info{Key: "host.step", Help: "host time of every step that the GPU does not hide", Quantity: Time, Optional: true,
		Engine: true})
	HostAsync = define(Info{Key: "host.async_step", Help: "host time of every step with asynchronous scheduling, which shows where " +
		"it exceeds the time of the kernels", Quantity: Time, Optional: true, Engine: true})
	HostSequence = define(Info{Key: "host.async_sequence", Help: "host time of every step that each sequence adds", Quantity: Time,
		Optional: true, Engine: true})
	HostRequest = define(Info{Key: "host.request", Help: "host time from a request's arrival to its first step, and from the first " +
		"token to the client", Quantity: Time, Optional: true, Engine: true})
	HostIntake = define(Info{Key: "host.intake", Help: "part of host.request: the time of the server's thread for a request",
		Quantity: Time, Optional: true, Engine: true})
	HostToken = define(Info{Key: "host.token", Help: "time of the server's thread for a token that it sends", Quantity: Time,
		Optional: true, Engine: true})
	HostFinish = define(Info{Key: "host.finish", Help: "time of the server's thread to end the stream of a request", Quantity: Time,
		Optional: true, Engine: true})
	HostLaunch = define(Info{Key: "host.launch", Help: "host time of each kernel that is launched eagerly", Quantity: Time,
		Optional: true, Engine: true})
	HostDispatch = define(Info{Key: "host.dispatch", Help: "host time of each operator or compiled piece that Python calls in an eager " +
		"step, beyond its launches", Quantity: Time, Optional: true, Engine: true})
	HostSmallKernel = define(Info{Key: "host.small_kernel", Help: "least time of an element-wise kernel that is not fused", Quantity: Time,
		Optional: true, Engine: true})
)

// The constants of tiles, of GEMMs whose tiles are known.
var (
	TileEmpty = define(Info{Key: "gemm_fp8.tile_empty", Help: "how many rows a row of a tile takes that lies beyond the last row",
		Quantity: Often, Optional: true})
	TileIdle = define(Info{Key: "gemm_fp8.tile_idle", Help: "share of the time of SMs without a tile, while the last tiles run, that shows",
		Quantity: Shown, Optional: true})
)

// The constants of quantization schemes: gemm_fp8.compute, attention_fp8.memory and so on.
var (
	gemmOf      = defineBySchemes(Untuned, GEMMCompute, GEMMMemory, GEMMFixed, GEMMDepth, GEMMQuantize, GEMMRow, GEMMExposed)
	groupedOf   = defineBySchemes(NumSchemes, GroupedCompute, GroupedMemory, GroupedFixed, GroupedPermute, GroupedExpert)
	attentionOf = defineBySchemes(FP8+1, AttentionCompute, AttentionMemory, AttentionFixed, AttentionRamp, AttentionTile)
	latentOf    = [NumSchemes][]Constant{Unquantized: defineLike("latent_attention", attentionOf[Unquantized]),
		FP8: defineLike("latent_attention_fp8", attentionOf[FP8])}
)

// All lists the constants.
func All() []Constant {
	all := make([]Constant, 0, len(table))
	for c := 1; c < len(table); c++ {
		all = append(all, Constant(c))
	}
	return all
}

// ConstantOf finds a constant by its key; None where there is no such constant.
func ConstantOf(key string) Constant {
	for _, c := range All() {
		if table[c].Key == key {
			return c
		}
	}
	return None
}

// Info says what the constant is.
func (c Constant) Info() *Info { return &table[c] }

// String is the key of the constant.
func (c Constant) String() string { return table[c].Key }

// Relative reports whether the constant is a share.
func (c Constant) Relative() bool { return table[c].Quantity == Share || c.IsPower() }

// IsPower reports whether the constant says what the GPU draws. Times depend on such
// a constant through the power limit alone.
func (c Constant) IsPower() bool {
	return table[c].Quantity == Power || table[c].Quantity == Burst
}

// Valid reports whether v can be the constant. NaN cannot.
func (c Constant) Valid(v float64) bool {
	q := &quantities[table[c].Quantity]
	return v > q.above && v <= q.most
}

// Slower is the value v of the constant moved by the share x to where everything
// takes longer.
func (c Constant) Slower(v, x float64) float64 {
	if table[c].Quantity == Share {
		return v * math.Max(1-x, 0.05)
	}
	return v * (1 + x)
}

// LeastShare is below any share of a peak that a kernel reaches; with a smaller one a time may be infinite.
const LeastShare = 1e-6

// quantities has what a constant of each quantity can be: above the first figure and up to
// the second, and the same in words.
var quantities = [...]struct {
	above, most float64
	want        string
}{
	Share:    {LeastShare, 1, "a share of the data-sheet peak, above 1e-6 and at most 1"},
	Time:     {0, 0.1, "a time above 0 and at most 100 ms, with its unit, as \"3.8 µs\""},
	Delay:    {belowZero, 0.1, "a time from 0 to 100 ms, with its unit, as \"90 ns\""},
	Tokens:   {belowZero, 1e5, "a number of tokens, from 0 to 100000"},
	Growth:   {0, 1, "what each row adds to the time of the weights, above 0 and at most 1"},
	Repeats:  {0, 1000, "how often something is done, above 0 and at most 1000"},
	Often:    {belowZero, 1000, "how often something is done, from 0 to 1000"},
	Exposure: {belowZero, 3, "how much of the lesser of two times shows, from 0 to 3"},
	Shown:    {belowZero, 1, "a share of a time that shows, from 0 to 1"},
	Power:    {belowZero, 0.99, "a share of the power limit, from 0 to 0.99"},
	Burst:    {0, MaxBurst, "a share of the power limit, above 0 and at most 3"},
}

// belowZero is above any negative number that a file may have, and lets 0 be one.
const belowZero = -math.SmallestNonzeroFloat64

// Want says in words what a constant of the quantity can be.
func (q Quantity) Want() string { return quantities[q].want }

// Timed reports whether the quantity has a unit of time.
func (q Quantity) Timed() bool { return q == Time || q == Delay }
