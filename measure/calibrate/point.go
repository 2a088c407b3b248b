package calibrate

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Kind is what a point times.
type Kind string

// The kinds. What sizes each has, sizesOf says.
const (
	GEMM             Kind = "gemm"                    // x·wᵀ of m×k and n×k
	Sustained        Kind = "gemm_sustained"          // the same for seconds, until the clocks are those of the power limit
	AttentionPrefill Kind = "attention_prefill"       // causal, of one sequence
	AttentionDecode  Kind = "attention_decode"        // one query a sequence
	MixtureDecode    Kind = "mixture_decode"          // the mixture of a layer in a decode step, from its router on
	TopKPrefill      Kind = "top_k_prefill"           // the choice of a prompt's experts, and the order of its pairs
	GateUpPrefill    Kind = "experts_gate_up_prefill" // the gather of the pairs' inputs, and the first GEMM of the experts
	DownPrefill      Kind = "experts_down_prefill"    // the second GEMM, and the sum of the pairs' results
	QKVDecode        Kind = "qkv_proj_decode"         // a product of a dense model's decode step, as the next four are
	ODecode          Kind = "o_proj_decode"
	DenseUpDecode    Kind = "gate_up_proj_decode"
	DenseDownDecode  Kind = "down_proj_decode"
	HeadDecode       Kind = "lm_head_decode"
	LaunchPrefill    Kind = "launch_prefill" // by how much longer a kernel of a prefill takes that is launched by itself than one of a graph
	Read             Kind = "read"           // each is read once
	Copy             Kind = "copy"           // each is read and written once
	RMSNorm          Kind = "rms_norm"
	Activation       Kind = "activation"               // silu(gate)·up of two tensors
	GraphNode        Kind = "graph_node"               // empty kernels of one CUDA graph
	SmallKernel      Kind = "small_kernel"             // element-wise kernels of a few thousand values in one CUDA graph
	EagerLaunch      Kind = "eager_launch"             // empty kernels, launched one by one
	AllReduce        Kind = "all_reduce"               // over ranks
	OneShot          Kind = "all_reduce_one_shot"      // an all-reduce by an engine's own kernel over peer memory
	LatentPrefill    Kind = "latent_attention_prefill" // DeepSeek-V3's latent attention over expanded keys and values, causal
	LatentDecode     Kind = "latent_attention_decode"  // the same over the compressed cache, one query a sequence
	ScanPrefill      Kind = "scan_prefill"             // the gated delta rule over prompts, in chunks
	ChannelScan      Kind = "channel_scan_prefill"     // the same with a decay a channel
	ScanStep         Kind = "scan_step"                // the gated delta rule of one token of each sequence
	ConvPrefill      Kind = "conv_prefill"             // the causal convolution ahead of it over prompts
	ConvStep         Kind = "conv_step"                // the causal convolution of one token of each sequence
	// The grouped products of a layer's experts with what lies between and around them, tokens spread evenly over the experts.
	Mixture        Kind = "mixture"
	HostStep       Kind = "host_step"          // the host's part of a decode step of a tiny model, not hidden behind the GPU
	EagerStep      Kind = "eager_step"         // a decode step of a tiny model, kernel after kernel
	GEMMPower      Kind = "gemm_power"         // a product for seconds, for the power that it draws
	AttentionPower Kind = "attention_power"    // AttentionDecode for seconds, for the power that it draws
	GateUpPower    Kind = "gate_up_proj_power" // DenseUpDecode for seconds, for the power that it draws
	MoEPower       Kind = "moe_power"          // MixtureDecode for seconds, for the power that it draws
	ReadPower      Kind = "read_power"         // Read for seconds, for the power that it draws
	AllReducePower Kind = "all_reduce_power"   // AllReduce for seconds, for the power that it draws
	Idle           Kind = "idle"               // a GPU with a context and nothing to do, for the power that it draws
)

// drawn are the kinds that are run for the power that they draw, with those that
// time the same.
var drawn = map[Kind]Kind{
	GEMMPower: GEMM, GateUpPower: DenseUpDecode, MoEPower: MixtureDecode, AttentionPower: AttentionDecode, ReadPower: Read,
	AllReducePower: AllReduce, Idle: Idle,
}

// wgmmaKinds are products of decode steps of many sequences, as the engine calls them.
var wgmmaKinds = []Kind{QKVDecode, ODecode, DenseUpDecode, DenseDownDecode, HeadDecode}

// times is the kind that times what k does.
func (k Kind) times() Kind {
	if same, ok := drawn[k]; ok {
		return same
	}
	return k
}

// power reports whether k is run for the power that it draws alone.
func (k Kind) power() bool { return drawn[k] != "" }

// A Shape is how large what is timed is. What a kind has no use for is 0.
type Shape struct {
	M        int `json:"m,omitempty" jsonschema:"minimum=1"` // rows of a product
	N        int `json:"n,omitempty" jsonschema:"minimum=1"` // outputs of a product, or tokens of a vocabulary
	K        int `json:"k,omitempty" jsonschema:"minimum=1"` // inputs of a product
	Batch    int `json:"batch,omitempty" jsonschema:"minimum=1"`
	Tokens   int `json:"tokens,omitempty" jsonschema:"minimum=1"`   // rows of activations, or of a prompt
	Context  int `json:"context,omitempty" jsonschema:"minimum=1"`  // keys of each sequence
	Heads    int `json:"heads,omitempty" jsonschema:"minimum=1"`    // query heads
	KVHeads  int `json:"kv_heads,omitempty" jsonschema:"minimum=1"` // key heads
	HeadDim  int `json:"head_dim,omitempty" jsonschema:"minimum=1"` // width of a head
	Width    int `json:"width,omitempty" jsonschema:"minimum=1"`    // of a row, or of a feed-forward
	Experts  int `json:"experts,omitempty" jsonschema:"minimum=1"`  // of a mixture
	TopK     int `json:"top_k,omitempty" jsonschema:"minimum=1"`    // experts that a token takes
	Hidden   int `json:"hidden,omitempty" jsonschema:"minimum=1"`   // values of the stream
	EP       int `json:"ep,omitempty"`                              // ranks that share the experts; 0 for 1
	Matrices int `json:"matrices,omitempty"`                        // matrices of an expert; 0 for 3
	Bytes    int `json:"bytes,omitempty" jsonschema:"minimum=1"`    // moved, or of the message
	Launches int `json:"launches,omitempty" jsonschema:"minimum=1"` // kernels in one call
}

// A Point is one thing to time.
type Point struct {
	Kind   Kind
	Shape  Shape
	DType  unit.Format
	Scheme roofline.Scheme // scheme of imported rows
	Ranks  int             // 1 for all but all-reduces
}

// String names the point as progress shows it: gemm m=1 n=768 k=4096.
func (p Point) String() string {
	text, has := string(p.Kind), sizes(&p.Shape)
	for name := range strings.FieldsSeq(sizesOf[p.Kind.times()]) {
		text += fmt.Sprintf(" %s=%d", name, has[name])
	}
	if p.Ranks > 1 {
		text += fmt.Sprintf(" over %d GPUs", p.Ranks)
	}
	return text
}

// Texts are the names of all kinds.
func (Kind) Texts() []string {
	var texts []string
	for k := range sizesOf {
		texts = append(texts, string(k))
	}
	for k := range drawn {
		texts = append(texts, string(k))
	}
	slices.Sort(texts)
	return slices.Compact(texts)
}

// sizesOf names the sizes of a shape that a kind cannot do without.
var sizesOf = map[Kind]string{
	GEMM: "m n k", Sustained: "m n k", AttentionPrefill: "tokens heads kv_heads head_dim",
	AttentionDecode: "batch context heads kv_heads head_dim",
	LatentPrefill:   "batch tokens heads", LatentDecode: "batch context heads", ScanPrefill: ofScan, ChannelScan: ofScan,
	ScanStep: ofStep, ConvPrefill: "tokens " + ofStep, ConvStep: ofStep,
	MixtureDecode: "batch experts top_k hidden width", Mixture: ofExperts, TopKPrefill: ofExperts, GateUpPrefill: ofExperts,
	DownPrefill: ofExperts,
	QKVDecode:   ofDense, ODecode: ofDense, DenseUpDecode: ofDense, DenseDownDecode: ofDense, HeadDecode: ofDense,
	LaunchPrefill: "tokens hidden width heads kv_heads head_dim n", RMSNorm: "tokens width", Activation: "tokens width",
	Read: "bytes", Copy: "bytes", AllReduce: "bytes", OneShot: "bytes",
	GraphNode: "launches", SmallKernel: "launches", EagerLaunch: "launches", EagerStep: "launches", HostStep: "", Idle: "",
}

const (
	ofScan    = "batch tokens heads kv_heads head_dim"
	ofStep    = "batch heads kv_heads head_dim"
	ofExperts = "tokens experts top_k hidden width"
	ofDense   = "batch hidden width heads kv_heads head_dim n" // n is the vocabulary
)

// largest is more than any size of a shape that can be timed.
const largest = 1 << 40

func (p *Point) check() error {
	names, ok := sizesOf[p.Kind.times()]
	if !ok {
		return fmt.Errorf("no kind %.40q", p.Kind)
	}
	has := sizes(&p.Shape)
	for name := range strings.FieldsSeq(names) {
		if n := has[name]; n < 1 || n > largest {
			return fmt.Errorf("a %s of the shape %+v: a size is missing, or none that can be timed: %s", p.Kind, p.Shape, name)
		}
	}
	if p.Shape.TopK > p.Shape.Experts {
		return fmt.Errorf("a %s of %d of %d experts", p.Kind, p.Shape.TopK, p.Shape.Experts)
	}
	if p.Ranks < 1 || p.Ranks > 4096 || (p.Kind.times() == AllReduce || p.Kind == OneShot) && p.Ranks < 2 {
		return fmt.Errorf("a %s over %d ranks", p.Kind, p.Ranks)
	}
	return nil
}

// Work counts what one call of the point has to do, as package analytic counts it: weights in the
// point's scheme, results of quantized products in 16 bits.
//
//	product    2·m·n·k FLOPs; weights, input and output once
//	prefill    4·heads·d FLOPs a pair under the causal mask; q, k, v and output once
//	decode     4·heads·d FLOPs a key; the keys and values of the context once for each KV head
//	mixture    the router's E·h weights and 3·h·w of each expert: of those that the tokens are
//	           expected to choose, read once (operator.DistinctExperts); for each pair of a token and
//	           an expert 2 FLOPs a weight
//	choice     the scores of all tokens
//	experts    of a prompt: 2 FLOPs for each weight of the TopK experts of a token; the weights
//	           of those that are expected to be chosen, once
//	launch     nothing
//	all-reduce 2(n-1)/n of the message on the wire (Patarasuk and Yuan 2009)
func (p *Point) Work() roofline.Work {
	s := &p.Shape
	f := func(n int) float64 { return float64(n) }
	size := p.DType.Bytes
	switch p.Kind.times() {
	case GEMM, Sustained, QKVDecode, ODecode, DenseUpDecode, DenseDownDecode, HeadDecode:
		m, n, k := p.product()
		return roofline.Work{FLOPs: unit.FLOPs(2 * f(m) * f(n) * f(k)), Weights: p.weights(f(n) * f(k)),
			Acts: size(f(m)*f(k)) + p.results(f(m)*f(n))}
	case AttentionPrefill:
		b, t, q, kv, d := f(max(s.Batch, 1)), f(s.Tokens), f(s.Heads), f(s.KVHeads), f(s.HeadDim)
		return roofline.Work{FLOPs: unit.FLOPs(4 * q * d * b * t * (t + 1) / 2), KV: p.cache(2 * b * t * d * kv),
			Acts: p.results(2 * b * t * d * q)}
	case AttentionDecode:
		b, c, q, kv, d := f(s.Batch), f(s.Context), f(s.Heads), f(s.KVHeads), f(s.HeadDim)
		return roofline.Work{FLOPs: unit.FLOPs(4 * q * d * c * b), KV: p.cache(2 * kv * d * c * b), Acts: p.results(2 * q * d * b)}
	case MixtureDecode:
		b, e, h, top := f(s.Batch), f(s.Experts), f(s.Hidden), f(s.TopK)
		expert := 3 * h * f(s.Width)
		return roofline.Work{FLOPs: unit.FLOPs(2 * b * (e*h + top*expert)), Weights: size(e*h + operator.DistinctExperts(e, top, b)*expert)}
	case TopKPrefill:
		return roofline.Work{Acts: size(f(s.Tokens) * f(s.Experts))}
	case GateUpPrefill, DownPrefill:
		hit := operator.DistinctExperts(f(s.Experts), f(s.TopK), f(s.Tokens))
		return roofline.Work{FLOPs: unit.FLOPs(2 * f(s.Tokens) * f(s.TopK) * p.expert()), Weights: size(hit * p.expert())}
	case RMSNorm:
		return roofline.Work{Acts: size(2*f(s.Tokens)*f(s.Width) + f(s.Width))}
	case Activation:
		return roofline.Work{Acts: size(3 * f(s.Tokens) * f(s.Width))}
	case Read:
		return roofline.Work{Acts: unit.Bytes(s.Bytes)}
	case Copy:
		return roofline.Work{Acts: 2 * unit.Bytes(s.Bytes)}
	case AllReduce, OneShot:
		n := f(p.Ranks)
		return roofline.Work{Wire: unit.Bytes(2 * (n - 1) / n * f(s.Bytes))}
	}
	return p.tableWork()
}

// kernel is the kernel that the point times on a GPU, of an engine that multiplies up to
// so many rows by skinny GEMM.
func (p *Point) kernel(g *hardware.GPU, skinny int) roofline.Kernel {
	k := roofline.Kernel{Format: p.DType, Scheme: p.Scheme, Work: p.Work(), Launches: 1, Count: 1}
	s := &p.Shape
	switch p.Kind.times() {
	case GEMM, Sustained:
		k.Shape.M, k.Shape.N, k.Shape.K = float64(s.M), float64(s.N), float64(s.K)
		if p.Scheme.Quantizes() {
			k.Quantized = k.Shape.M
		}
		if s.M <= skinny {
			k.Class = roofline.SkinnyGEMM
		}
	case QKVDecode, ODecode, DenseUpDecode, DenseDownDecode, HeadDecode:
		k.Class = roofline.WGMMAGEMM
	case AttentionPrefill:
		k.Class, k.Shape.M, k.Shape.K = roofline.AttentionPrefill, float64(s.Tokens*max(s.Batch, 1)), 2*float64(s.Heads)*float64(s.HeadDim)
		k.Shape.Tiles = p.tiles()
	case AttentionDecode:
		k.Class, k.Shape.Tiles = roofline.AttentionDecode, p.tiles()
	case LatentPrefill:
		k.Class, k.Shape.M, k.Shape.K = roofline.LatentPrefill, float64(s.Tokens*s.Batch), float64(s.Heads)*expandedDims
		k.Shape.Tiles = p.tiles()
	case LatentDecode:
		k.Class, k.Shape.Tiles = roofline.LatentDecode, p.tiles()
	case ScanPrefill, ChannelScan:
		k.Class, k.Launches, k.Shape.Tiles = recurrent[p.Kind], scanLaunches, float64(s.Tokens)/p.chunk()
	case Mixture:
		p.grouped(&k)
	case MixtureDecode:
		p.moeDecode(&k)
	case TopKPrefill:
		k.Class, k.Shape = roofline.MoERouting, p.mixture(s.Tokens)
	case GateUpPrefill, DownPrefill:
		p.moePrefill(&k, g)
	case AllReduce:
		k.Class, k.Shape.Ranks = roofline.AllReduce, float64(p.Ranks)
	case OneShot:
		k.Class, k.Shape.Ranks = roofline.OneShotAllReduce, float64(p.Ranks)
		k.Exchange(engine.OneShotBytes)
	default:
		k.Class = cmp.Or(recurrent[p.Kind], roofline.Elementwise)
	}
	return k
}

// recurrent has the classes of kernels of recurrences.
var recurrent = map[Kind]roofline.Class{
	ScanPrefill: roofline.ChunkedScan, ChannelScan: roofline.ChannelScan,
	ScanStep: roofline.ScanStep, ConvPrefill: roofline.Convolution, ConvStep: roofline.ConvolutionStep,
}

func (p *Point) mixture(tokens int) roofline.Shape {
	s := &p.Shape
	e, top, t := float64(s.Experts), float64(s.TopK), float64(tokens)
	return roofline.Shape{
		Experts: e, TopK: top, Tokens: t, Pairs: t * top, Hit: operator.DistinctExperts(e, top, t), M: t * top, K: float64(s.Hidden),
		N: float64(s.Hidden),
	}
}

// moeDecode completes the kernel of a mixture in a decode step: gate and up are two
// thirds of an expert.
func (p *Point) moeDecode(k *roofline.Kernel) {
	k.Class, k.Shape = roofline.MoEDecode, p.mixture(p.Shape.Batch)
	third := p.DType.Bytes(k.Shape.Hit * float64(p.Shape.Hidden) * float64(p.Shape.Width))
	for i, weights := range []unit.Bytes{2 * third, third} {
		engine.MoEDecodeReads(k, &operator.Op{Shape: k.Shape, Work: roofline.Work{Weights: weights}}, i == 0)
	}
}

// moePrefill completes the kernel of a product of a prompt's experts.
func (p *Point) moePrefill(k *roofline.Kernel, g *hardware.GPU) {
	k.Class, k.Shape = roofline.MoEPrefill, p.mixture(p.Shape.Tokens)
	engine.MoEPrefillMoves(k, g, p.Kind == GateUpPrefill)
}

// expert is the weights of an expert in the product that is timed.
func (p *Point) expert() float64 {
	n := float64(p.Shape.Hidden) * float64(p.Shape.Width)
	if p.Kind == GateUpPrefill {
		return 2 * n
	}
	return n
}

// product is the rows, outputs and inputs of a product.
func (p *Point) product() (m, n, k int) {
	s := &p.Shape
	switch p.Kind.times() {
	case QKVDecode:
		return s.Batch, (s.Heads + 2*s.KVHeads) * s.HeadDim, s.Hidden
	case ODecode:
		return s.Batch, s.Hidden, s.Heads * s.HeadDim
	case DenseUpDecode:
		return s.Batch, 2 * s.Width, s.Hidden
	case DenseDownDecode:
		return s.Batch, s.Hidden, s.Width
	case HeadDecode:
		return s.Batch, s.N, s.Hidden
	}
	return s.M, s.N, s.K
}
