package native

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	lowering "llmprof/analytic/engine"
	"llmprof/models"
)

// A shape is what the kernels need to know of a model, or of one rank's part of it: heads, kvHeads and
// inner are then those of the part.
type shape struct {
	layers, hidden, heads, kvHeads, headDim, inner, vocab int
	bias, qkNorm, tied                                    bool
	outputNorm                                            bool // The output of a block is normed.
	window                                                int  // the shortest, 0 for none
	sliding                                               bool // The context is longer than a window.
	eps                                                   float32
	rope                                                  rope
	gemma
	moeShape
	family string
	fp16   bool         // fp16 activations, cache, and weights that are not quantized; otherwise bf16
	quant  Quantization // format of the blocks' linear layers

	rank, ranks        int // The rank among those that share the model: 0 of 1 if one GPU has it all.
	keyCopies          int // number of ranks with the same key heads
	firstToken, tokens int // The rank has these tokens' rows of embedding and LM head.

	megakernel megakernelGrid
}

// numbers are the fields of config.json that change values and not sizes. Package models does not read
// them.
type numbers struct {
	Eps        *float64 `json:"rms_norm_eps"`
	Theta      *float64 `json:"rope_theta"`
	Scaling    *rope    `json:"rope_scaling"`
	Parameters *ropes   `json:"rope_parameters"` // transformers 5 has both of the above here.
	Act        string   `json:"hidden_act"`
	MLPBias    bool     `json:"mlp_bias"`
	gemmaNumbers
}

// ropes are rope_parameters: one rule, or one for each kind of layer.
type ropes struct {
	rope
	Full    *rope `json:"full_attention"`
	Sliding *rope `json:"sliding_attention"`
}

// A rope is a rule of rotary position embedding.
type rope struct {
	Theta    float64 `json:"rope_theta"`
	Type     string  `json:"rope_type"`
	Legacy   string  `json:"type"` // the former name of rope_type
	Factor   float64 `json:"factor"`
	Low      float64 `json:"low_freq_factor"`
	High     float64 `json:"high_freq_factor"`
	Original float64 `json:"original_max_position_embeddings"`
}

// An UnsupportedError is a model or a setting that this engine does not have.
type UnsupportedError struct{ Text string }

// Error is the text.
func (e *UnsupportedError) Error() string { return "native: " + e.Text }

func unsupported(format string, args ...any) error {
	return &UnsupportedError{fmt.Sprintf(format, args...)}
}

// Check returns why the engine cannot run the options, as far as that is known without a GPU and
// without reading weights.
func Check(o *Options) error {
	_, err := o.shape(0)
	return err
}

// Tried reports whether runs of this kind have been tried on a GPU (docs/native.md): every family in
// bf16 on one to four GPUs. More GPUs, and formats that were tried with few models only, are used if
// the user names this engine.
func Tried(o *Options) bool {
	s, err := o.shape(0)
	return err == nil && o.ranks() <= 4 && s.heads/s.kvHeads*s.headDim <= 1024 && !o.FP16 && o.Quantization == Unquantized
}

// readShape joins the model's sizes with the numbers of its config.json.
func readShape(m *models.Model, config []byte) (shape, error) {
	if !slices.Contains(lowering.NativeFamilies, strings.TrimSuffix(m.Family, "_text")) {
		return shape{}, unsupported("%s is of the family %q; this engine runs %s", m.Name, m.Family, strings.Join(lowering.NativeFamilies, ", "))
	}
	s := shape{family: m.Family, hidden: m.Hidden, vocab: m.Vocab, tied: m.TiedHead}
	for i := range m.Layers {
		if why := s.layer(&m.Layers[i]); why != "" {
			return shape{}, unsupported("%s: %s", m.Name, why)
		}
	}
	err := s.numbers(m.Family, config)
	if err == nil && s.experts > 0 {
		err = s.moeNumbers(m.Family, config)
	}
	if err != nil {
		return shape{}, unsupported("%s: %v", m.Name, err)
	}
	if why := s.misfit(); why != "" {
		return shape{}, unsupported("%s: %s", m.Name, why)
	}
	return s.shard(0, 1), nil
}

// layer takes the sizes of one kind of layer. All kinds have to agree in them; only windows may
// differ. It returns why a layer is not supported.
func (s *shape) layer(l *models.Layer) (why string) {
	if len(l.Blocks) != 2 || l.Blocks[0].Attention == nil || len(l.Blocks[0].In) == 0 || len(l.Blocks[0].Out) == 0 ||
		(!l.Blocks[1].Activation.Gated && l.Blocks[1].Experts == nil) {
		return fmt.Sprintf("a layer of %q is not an attention and a gated feed-forward", l.Name)
	}
	att, mlp := &l.Blocks[0], &l.Blocks[1]
	a := att.Attention
	if a.Latent != nil || a.Indexer != nil || a.ALiBi || a.Shared || a.Chunked || a.KeyDim != a.ValueDim || a.RotaryDim != a.KeyDim {
		return fmt.Sprintf("the attention of %q is not plain attention with full rotary positions", l.Name)
	}
	next := *s
	next.heads, next.kvHeads, next.headDim, next.inner = a.Heads, a.KVHeads, a.KeyDim, mlp.Activation.Width
	next.bias = att.In[0].Bias
	next.qkNorm = false
	for _, n := range att.Norms {
		next.qkNorm = next.qkNorm || n.Name == "q_norm" && n.Width == a.KeyDim
		next.outputNorm = next.outputNorm || n.Name == "post_attention_layernorm"
	}
	next.layers += l.Count
	if a.Window > 0 && (next.window == 0 || a.Window < next.window) {
		next.window = a.Window
	}
	next.moeShape = moeShape{}
	if mlp.Experts != nil {
		if why := next.readExperts(mlp.Experts, l.Name); why != "" {
			return why
		}
	}
	if att.Out[0].Bias {
		return fmt.Sprintf("the output projection of %q has a bias", l.Name)
	}
	same := next
	same.layers, same.window = s.layers, s.window
	if s.layers > 0 && same != *s {
		return fmt.Sprintf("the layers of %q differ in shape from those before", l.Name)
	}
	*s = next
	return ""
}

// numbers reads the numbers. A missing field has the default that transformers gives the family.
func (s *shape) numbers(family string, config []byte) error {
	var n numbers
	if err := json.Unmarshal(config, &n); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	if isGemma(family) {
		if err := s.gemmaNumbers(family, &n, config); err != nil {
			return err
		}
	} else if n.Act != "" && n.Act != "silu" {
		return fmt.Errorf("hidden_act is %q; this engine has silu", n.Act)
	}
	if n.MLPBias {
		return fmt.Errorf("mlp_bias is set; this engine has no biases in the feed-forward")
	}
	s.eps = 1e-6
	if n.Eps != nil {
		s.eps = float32(*n.Eps)
	}
	if !(s.eps > 0 && s.eps < 1) {
		return fmt.Errorf("rms_norm_eps is %g; want a small number above 0", s.eps)
	}
	return s.ropes(family, &n)
}

// ropes reads the rule of RoPE.
func (s *shape) ropes(family string, n *numbers) error {
	s.rope = rope{}
	if n.Scaling != nil {
		s.rope = *n.Scaling
	}
	if n.Parameters != nil {
		s.rope = n.Parameters.rope
		if n.Parameters.Full != nil {
			s.rope = *n.Parameters.Full
		}
	}
	if n.Theta != nil && s.rope.Theta == 0 {
		s.rope.Theta = *n.Theta
	}
	if s.rope.Theta == 0 {
		s.rope.Theta = 10000
		if family == gemma3 {
			s.rope.Theta = 1e6
		}
	}
	s.rope.Type = cmp.Or(s.rope.Type, s.rope.Legacy)
	if err := s.rope.check(); err != nil {
		return err
	}
	if family == gemma3 {
		return s.localRopes(n)
	}
	return nil
}

// check refuses parameters that give no angles. Its comparisons are false for NaN.
func (r *rope) check() error {
	if !(r.Theta >= 1) {
		return fmt.Errorf("rope_theta is %g; want 1 or more", r.Theta)
	}
	switch r.Type {
	case "", "default":
		r.Type = "default"
		return nil
	case "llama3":
		if !(r.Factor >= 1 && r.Low > 0 && r.High > r.Low && r.Original > 0) {
			return fmt.Errorf("rope_scaling of type llama3 needs factor, low_freq_factor < high_freq_factor and original_max_position_embeddings")
		}
		return nil
	case "linear":
		if !(r.Factor >= 1) {
			return fmt.Errorf("rope_scaling of type linear needs a factor of 1 or more, not %g", r.Factor)
		}
		return nil
	}
	return fmt.Errorf("rope_scaling of type %q; this engine has default, linear and llama3", r.Type)
}

// frequencies are the angles by which one position rotates each pair of a head. The llama3 rule is
// that of Llama 3.1 (arXiv:2407.21783; transformers, modeling_rope_utils.py): wavelengths that are
// short against the original context stay, long ones are stretched by factor, and those between are
// blended.
func (r *rope) frequencies(headDim int) []float32 {
	out := make([]float32, headDim/2)
	for i := range out {
		f := math.Pow(r.Theta, -2*float64(i)/float64(headDim))
		switch r.Type {
		case "linear":
			f /= r.Factor
		case "llama3":
			turns := r.Original * f / (2 * math.Pi)
			blend := min(max((turns-r.Low)/(r.High-r.Low), 0), 1)
			f = f * (blend + (1-blend)/r.Factor)
		}
		out[i] = float32(f)
	}
	return out
}

// gemmInputs is how many inputs a GEMM of gemm_skinny.cu, or of an expert, takes at a time.
const gemmInputs = 32

// misfit returns what the kernels cannot do, or "". Sizes have to be multiples of what kernels load at
// a time: 16 rows of the stream for the sums of a norm, and a unit of a GEMM's inputs.
func (s *shape) misfit() string {
	switch {
	case s.layers == 0 || s.vocab == 0:
		return "it has no layers or no vocabulary"
	case s.headDim != 64 && s.headDim != 128 && s.headDim != 256:
		return fmt.Sprintf("heads are %d wide; this engine has 64, 128 and 256", s.headDim)
	case s.kvHeads == 0 || s.heads%s.kvHeads != 0:
		return fmt.Sprintf("%d query heads on %d key heads; this engine has whole groups", s.heads, s.kvHeads)
	case s.hidden%64 != 0 || s.inner%64 != 0:
		return fmt.Sprintf("hidden size %d and feed-forward %d have to be multiples of 64", s.hidden, s.inner)
	}
	return ""
}

func (s *shape) qkvWidth() int { return (s.heads + 2*s.kvHeads) * s.headDim }
func (s *shape) attWidth() int { return s.heads * s.headDim }
