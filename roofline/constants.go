package roofline

import (
	"cmp"
	"math"
	"strings"
)

// A Constant names one constant of the laws: what hardware, kernels and host do in
// practice. Its zero value stands for no constant.
type Constant uint16

// None is no constant.
const None Constant = 0

// NumConstants is one more than the most constants that there can be.
const NumConstants = 280

// table has the entries of the constants.
var table []Info

// How a constant comes to its value.
const (
	filed    = 0         // every calibration file has it
	optional = 1 << iota // a calibration file may leave it out
	engine               // it belongs to an engine on its host, not to a GPU: only files of that engine have it
	unfiled              // no calibration file has it: nothing here measures it
)

// define enters a constant. Its many calls, compiled in place, would be a hundredth of the page's program.
//
//go:noinline
func define(key string, q Quantity, how int, help string) Constant {
	i := Info{Key: key, Help: help, Quantity: q, Optional: how&(optional|engine) != 0, Engine: how&engine != 0, Unfiled: how&unfiled != 0}
	if q == Share {
		i.Ideal = 1
	}
	return enter(i)
}

// enter adds an entry to the table.
func enter(i Info) Constant {
	if len(table) == 0 {
		table = append(table, Info{}) // entry of None
	}
	table = append(table, i)
	return Constant(len(table) - 1)
}

// insteadOf lets base stand in for the constant where a calibration does not have the leader of its section; None for the constant itself.
func (c Constant) insteadOf(base, leader Constant) Constant {
	table[c].Base, table[c].Leader = base, cmp.Or(leader, c)
	return c
}

// Constants has a value for each constant.
type Constants [NumConstants]float64

// Effective is the constant whose value serves for one: that itself, or else the constant that stands in for it.
func (c *Constants) Effective(k Constant) Constant {
	for table[k].Base != None && c[table[k].Leader] == 0 {
		k = table[k].Base
	}
	return k
}

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
	Ideal    float64  // value of ideal hardware and an ideal engine
	Optional bool     // a calibration file may leave it out
	Engine   bool     // The constant belongs to an engine on its host, not to a GPU.
	Unfiled  bool     // no calibration file has it: nothing here measures it
	Base     Constant // constant in its place where Leader is 0; None for nothing
	Leader   Constant // first constant of its section: without it, a calibration has none of the section
}

// The constants, in the order of a calibration file.
var (
	GEMMCompute   = define("gemm.compute", Share, filed, "share of the matrix peak in short bursts")
	GEMMSustained = define("gemm.sustained", Share, optional, "share of the matrix peak after seconds at the power limit")
	GEMMMemory    = define("gemm.memory", Share, filed, "share of the memory bandwidth")
	GEMMFixed     = define("gemm.fixed", Time, filed, "time of a launch that no size takes away")
	GEMMDepth     = define("gemm.depth", Delay, optional, "time of an input: a tile adds its products up one after the other")
	GEMMQuantize  = define("gemm.quantize", Often, optional, "how often activations are moved that a separate kernel quantizes")
	GEMMRow       = define("gemm.row", Delay, optional, "time of a row that a separate kernel quantizes")
	GEMMExposed   = define("gemm.exposed", Exposure, optional,
		"how much of the lesser of arithmetic and memory traffic shows: 0 where they hide each other, 1 for the root of their squares' sum")
	GEMMIdle = define("gemm.tile_idle", Shown, optional,
		"share of the time of SMs without a tile that shows, of kernels for mma: Ampere's, Ada's and those of Blackwell's graphics cards")

	SkinnyGEMMMemory = define("skinny_gemm.memory", Share, optional, "share of the memory bandwidth").insteadOf(GEMMMemory, None)
	SkinnyGEMMRow    = define("skinny_gemm.row", Growth, optional, "what each row adds, of the time that the weights take at the bandwidth")
	SkinnyGEMMFixed  = define("skinny_gemm.fixed", Time, optional,
		"time of a launch that no size takes away").insteadOf(GEMMFixed, SkinnyGEMMMemory)

	WGMMAMemory = define("wgmma_gemm.memory", Share, optional, "share of the memory bandwidth")
	WGMMAReload = define("wgmma_gemm.reload", Repeats, optional, "how often inputs and results are moved")
	WGMMAFixed  = define("wgmma_gemm.fixed", Time, optional, "time of a launch that no size takes away")

	VectorGEMMCompute = define("vector_gemm.compute", Share, engine|unfiled,
		"share of the FP32 vector peak that products in FP32 sustain").insteadOf(GEMMCompute, None)

	MoEDecodeMemory = define("moe_decode.memory", Share, optional, "share of the memory bandwidth")
	MoEDecodeReload = define("moe_decode.reload", Repeats, optional,
		"time of weights that are read again, of what they take at the bandwidth")
	MoEDecodeFixed   = define("moe_decode.fixed", Time, optional, "time of router, top-k and experts that no size takes away, of one sequence")
	MoEDecodeBatched = define("moe_decode.batched", Time, optional,
		"time of router, top-k and experts that no size takes away, of several sequences, whose pairs are sorted by expert")

	MoEPrefillCompute   = define("moe_prefill.compute", Share, optional, "share of the matrix peak")
	MoEPrefillMemory    = define("moe_prefill.memory", Share, optional, "share of the memory bandwidth")
	MoEPrefillPermute   = define("moe_prefill.permute", Repeats, optional, "how often the pairs' inputs are moved")
	MoEPrefillUnpermute = define("moe_prefill.unpermute", Repeats, optional, "how often the pairs' results are moved")

	RoutingPair   = define("moe_routing.pair", Time, optional, "time of a pair of a token and an expert")
	RoutingExpert = define("moe_routing.expert", Time, optional, "time of an expert")
	RoutingFixed  = define("moe_routing.fixed", Time, optional, "time that no number of pairs or experts takes away")

	AttentionCompute = define("attention.compute", Share, filed, "share of the matrix peak, prefill")
	AttentionMemory  = define("attention.memory", Share, filed, "share of the memory bandwidth, decode")
	AttentionFixed   = define("attention.fixed", Time, filed, "time of a launch that no size takes away")
	AttentionRamp    = define("attention.ramp", Tokens, filed, "tokens of a prefill at which it reaches half of its rate")
	AttentionCopies  = define("attention.copies", Share, engine|unfiled,
		"share of the memory bandwidth at which copies of the KV cache for every query head are read")

	AttentionMMACompute = define("attention.mma", Share, engine|unfiled,
		"share of the matrix peak, prefill by mma where wgmma is the faster").insteadOf(AttentionCompute, None)

	AttentionTile = define("attention.tile", Delay, optional,
		"time of a tile of queries, of which there is one at least for each sequence and KV head, spread over the SMs")

	ScanCompute = define("scan.compute", Share, optional, "share of the matrix peak").insteadOf(AttentionCompute, None)
	ScanMemory  = define("scan.memory", Share, optional, "share of the memory bandwidth").insteadOf(AttentionMemory, ScanCompute)
	ScanFixed   = define("scan.fixed", Time, optional, "time of a launch that no size takes away").insteadOf(AttentionFixed, ScanCompute)
	ScanChunk   = define("scan.chunk", Delay, optional,
		"time of a chunk of a sequence, each of which waits for the state behind the one before it")

	GroupedCompute = define("grouped_gemm.compute", Share, optional, "share of the matrix peak").insteadOf(GEMMCompute, None)
	GroupedMemory  = define("grouped_gemm.memory", Share, optional, "share of the memory bandwidth").insteadOf(GEMMMemory, GroupedCompute)
	GroupedPermute = define("grouped_gemm.permute", Often, optional, "how often inputs of all pairs of a token and an expert are moved")
	GroupedExpert  = define("grouped_gemm.expert", Delay, optional,
		"time of a tile of an expert, or of an expert that tokens are sent to where tiles are not known")
	GroupedFixed = define("grouped_gemm.fixed", Time, optional,
		"time of a product of the experts that no size takes away").insteadOf(GEMMFixed, GroupedCompute)

	ElementwiseCompute = define("element.compute", Share, filed, "share of the FP32 vector peak")
	ElementwiseMemory  = define("element.memory", Share, filed, "share of the memory bandwidth")
	ElementwiseFixed   = define("element.fixed", Time, filed, "time of a launch that no size takes away")
	ElementwiseUnfused = define("element.unfused", Share, engine|unfiled,
		"share of the memory bandwidth, of an engine that does not fuse").insteadOf(ElementwiseMemory, None)

	ScanStepMemory = define("scan_step.memory", Share, optional, "share of the memory bandwidth").insteadOf(ElementwiseMemory, None)
	ScanStepFixed  = define("scan_step.fixed", Time, optional,
		"time of a launch that no size takes away").insteadOf(ElementwiseFixed, ScanStepMemory)
	ConvMemory     = define("conv.memory", Share, optional, "share of the memory bandwidth").insteadOf(ElementwiseMemory, None)
	ConvFixed      = define("conv.fixed", Time, optional, "time of a launch that no size takes away").insteadOf(ElementwiseFixed, ConvMemory)
	ConvStepMemory = define("conv_step.memory", Share, optional, "share of the memory bandwidth").insteadOf(ElementwiseMemory, None)
	ConvStepFixed  = define("conv_step.fixed", Time, optional,
		"time of a launch that no size takes away").insteadOf(ElementwiseFixed, ConvStepMemory)

	GraphNode  = define("graph.node", Time, filed, "time of a kernel of a CUDA graph, from the end of the one before it")
	StreamNode = define("stream.node", Time, engine, "by how much longer a kernel takes outside a CUDA graph")

	LinkShare    = define("link.share", Share, filed, "share of the link that a large all-reduce reaches")
	LinkBase     = define("link.base", Time, filed, "latency of an all-reduce over n GPUs: base + n × per_gpu")
	LinkPerGPU   = define("link.per_gpu", Time, filed, "latency that each GPU adds to an all-reduce")
	OneShotShare = define("one_shot.share", Share, optional,
		"share of the link that a small all-reduce over peer memory reaches").insteadOf(LinkShare, None)
	OneShotSlicedShare = define("one_shot.sliced_share", Share, optional,
		"share of the link that an all-reduce over peer memory reaches in two exchanges").insteadOf(OneShotShare, None)
	OneShotBase   = define("one_shot.base", Time, filed, "latency of a small all-reduce over peer memory: base + n × per_gpu")
	OneShotPerGPU = define("one_shot.per_gpu", Time, filed, "latency that each GPU adds to a small all-reduce over peer memory")
	OneShotSecond = define("one_shot.second", Delay, optional,
		"latency that a second exchange adds to a small all-reduce over peer memory, of which each rank then sums a slice")
	FusedAllReduceBase = define("fused_all_reduce.base", Time, optional,
		"latency of an all-reduce that GEMMs do themselves: base + n × per_gpu").insteadOf(OneShotBase, None)
	FusedAllReducePerGPU = define("fused_all_reduce.per_gpu", Delay, optional,
		"latency that each GPU adds to an all-reduce that GEMMs do themselves").insteadOf(OneShotPerGPU, FusedAllReduceBase)
	PCIeShare     = define("pcie.share", Share, unfiled, "share of PCIe that a large all-reduce reaches")
	PCIeBase      = define("pcie.base", Time, unfiled, "latency of an all-reduce over PCIe: base + n × per_gpu")
	PCIePerGPU    = define("pcie.per_gpu", Time, unfiled, "latency that each GPU adds to an all-reduce over PCIe")
	HostCopyShare = define("host_copy.share", Share, unfiled, "share of PCIe that a copy between GPU and host reaches")
	HostMemory    = define("host_product.memory", Share, optional|unfiled,
		"share of the rate of its memory at which the host's threads read weights")
	HostCompute = define("host_product.compute", Share, optional|unfiled,
		"share of the cycles of the host's threads that products keep busy")
	HostNode           = define("host_product.node", Time, optional|unfiled, "time in which the host's threads start and end an operator")
	HostSync           = define("host_product.sync", Time, optional|unfiled, "time of a launch and of waiting for it, by the host")
	WeightCopyShare    = define("weight_copy.share", Share, optional|unfiled, "share of PCIe that copies of pinned weights reach")
	WeightCopyPageable = define("weight_copy.pageable", Share, optional|unfiled,
		"share of the host's rate of pageable copies that weights reach")
	InterNodeShare = define("inter_node.share", Share, unfiled, "share of the network between nodes that a large collective reaches")
	InterNodeBase  = define("inter_node.base", Time, unfiled, "latency between nodes")

	PowerWaiting = define("power.waiting", Power, optional,
		"power at full clocks with nothing to do, as a share of what lies between idle power and limit")
	PowerMatrix     = define("power.matrix", Burst, optional|unfiled, "power of arithmetic at the matrix peak and full clocks")
	PowerMemory     = define("power.memory", Power, optional, "power while GEMMs of a library read their weights")
	PowerSkinnyGEMM = define("power.skinny_gemm", Burst, optional, "power while skinny GEMMs read their weights")
	PowerWGMMA      = define("power.wgmma_gemm", Burst, optional,
		"power while GEMMs of a decode step of many sequences by wgmma read their weights").insteadOf(PowerMemory, None)
	PowerMoEDecode = define("power.moe_decode", Burst, optional,
		"power while the MoE kernel of a decode step reads its weights").insteadOf(PowerSkinnyGEMM, None)
	PowerAttention = define("power.attention", Burst, optional, "power while decode attention reads the KV cache")
	PowerUnpack    = define("power.unpack", Burst, optional|unfiled,
		"power of the multiprocessors while they unpack weights, beside that of the weights' bytes")
	PowerNetwork = define("power.network", Power, optional, "power while links are busy")
	PowerFixed   = define("power.fixed", Power, optional, "power while a kernel starts and ends")
	PowerGEMM    = define("power.gemm", Power, optional|unfiled,
		"power of the multiprocessors while a GEMM waits for bytes, and in 16 bits while it starts and ends")
	PowerIdle = define("power.idle", Power, unfiled, "power of an idle GPU whose idle power no source gives, as a share of the limit")

	HostStep  = define("host.step", Time, engine, "host time of every step that the GPU does not hide")
	HostAsync = define("host.async_step", Time, engine,
		"host time of every step with asynchronous scheduling, which shows where it exceeds the time of the kernels")
	HostSequence = define("host.async_sequence", Time, engine, "host time of every step that each sequence adds")
	HostRequest  = define("host.request", Time, engine,
		"host time from a request's arrival to its first step, and from the first token to the client")
	HostIntake   = define("host.intake", Time, engine, "part of host.request: the time of the server's thread for a request")
	HostToken    = define("host.token", Time, engine, "time of the server's thread for a token that it sends")
	HostFinish   = define("host.finish", Time, engine, "time of the server's thread to end the stream of a request")
	HostLaunch   = define("host.launch", Time, engine, "host time of each kernel that is launched eagerly")
	HostDispatch = define("host.dispatch", Time, engine,
		"host time of each operator or compiled piece that Python calls in an eager step, beyond its launches")
	HostSmallKernel = define("host.small_kernel", Time, engine, "least time of an element-wise kernel that is not fused")
)

// The constants of tiles, of GEMMs whose tiles are known.
var (
	TileEmpty = define("gemm_fp8.tile_empty", Often, optional, "how many rows a row of a tile takes that lies beyond the last row")
	TileIdle  = define("gemm_fp8.tile_idle", Shown, optional, "share of the time of SMs without a tile, while the last tiles run, that shows")
)

// The constants of quantization schemes: gemm_fp8.compute, attention_fp8.memory and so on.
var (
	gemmOf      = defineBySchemes(Untuned, GEMMCompute, GEMMMemory, GEMMFixed, GEMMDepth, GEMMQuantize, GEMMRow, GEMMExposed)
	groupedOf   = defineBySchemes(NumSchemes, GroupedCompute, GroupedMemory, GroupedFixed, GroupedPermute, GroupedExpert)
	attentionOf = defineBySchemes(FP8+1, AttentionCompute, AttentionMemory, AttentionFixed, AttentionRamp, AttentionTile)
	latentOf    = [NumSchemes][]Constant{Unquantized: defineLike("latent_attention", attentionOf[Unquantized]),
		FP8: defineLike("latent_attention_fp8", attentionOf[FP8])}

	// Those of scans whose states decay channel by channel.
	channelScan = defineLike("scan_channel", append(attentionOf[Unquantized][:0:0], ScanCompute, ScanMemory, ScanFixed, ScanChunk))

	// The constants of sparse attention by what its cache holds. A query reads its keys one block after the other.
	chosen     = append(attentionOf[Unquantized][:ramp:ramp], AttentionTile)
	sparseOf   = [NumSchemes][]Constant{Unquantized: defineLike("sparse", chosen), FP8: defineLike("sparse_fp8", chosen)}
	entriesOf  = alike(defineLike("sparse_entries", chosen))
	blocksOf   = alike(defineLike("sparse_blocks", chosen))
	indexOf    = alike(defineLike("index", chosen[:tileOfSparse]))
	indicesOf  = alike(defineLike("index_entries", chosen[:tileOfSparse]))
	indexingOf = alike(defineLike("index_blocks", chosen[:tileOfSparse]))
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

// name is the key without its section.
func (c Constant) name() string {
	_, name, _ := strings.Cut(table[c].Key, ".")
	return name
}

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

// Longer is by how much longer the terms of the constant take where it is off by the share x.
func (c Constant) Longer(x float64) float64 {
	if table[c].Quantity == Share {
		return 1/math.Max(1-x, 0.05) - 1
	}
	return x
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
