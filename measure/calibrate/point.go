package calibrate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/roofline"
	"llmprof/unit"
)

// A Kind is what a point times.
type Kind string

// The kinds. What each is made of, kinds says.
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

// wgmmaKinds are products of decode steps of many sequences, as the engine calls them.
var wgmmaKinds = []Kind{QKVDecode, ODecode, DenseUpDecode, DenseDownDecode, HeadDecode}

// times is the kind that times what k does.
func (k Kind) times() Kind { return cmp.Or(kinds[k].drawn, k) }

// power reports whether k is run for the power that it draws alone.
func (k Kind) power() bool { return kinds[k].drawn != "" }

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
	for name := range strings.FieldsSeq(kinds[p.Kind.times()].sizes) {
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
	for _, k := range slices.Sorted(maps.Keys(kinds)) {
		texts = append(texts, string(k))
	}
	return texts
}

// largest is more than any size of a shape that can be timed.
const largest = 1 << 40

func (p *Point) check() error {
	kind, ok := kinds[p.Kind.times()]
	if !ok {
		return fmt.Errorf("no kind %.40q", p.Kind)
	}
	has := sizes(&p.Shape)
	for name := range strings.FieldsSeq(kind.sizes) {
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
