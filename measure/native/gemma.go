package native

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// gemma is how Google's dense families differ from Llama. (Gemma: arXiv:2403.08295; Gemma 2:
// arXiv:2408.00118; Gemma 3: arXiv:2503.19786.)
type gemma struct {
	offset       bool    // Norms multiply by 1 plus their weights.
	gelu         bool    // The activation is GELU by tanh.
	embedScale   bool    // The embedding is multiplied by the square root of the hidden size.
	queryScale   float64 // Attention scores are divided by its square root; 0 is the width of a head.
	attSoftcap   float64 // 0 is none
	logitSoftcap float64 // 0 is none
	localRope    rope    // RoPE of sliding-window layers; with Theta 0 all layers have the same.
}

// gemmaNumbers are the fields of config.json that Gemma has beside Llama's.
type gemmaNumbers struct {
	Activation    string   `json:"hidden_activation"`
	QueryScale    *float64 `json:"query_pre_attn_scalar"`
	AttSoftcap    *float64 `json:"attn_logit_softcapping"`
	LogitSoftcap  *float64 `json:"final_logit_softcapping"`
	LocalTheta    *float64 `json:"rope_local_base_freq"`
	Bidirectional bool     `json:"use_bidirectional_attention"`
}

const gemma3 = "gemma3_text"

func isGemma(family string) bool { return slices.Contains([]string{"gemma", "gemma2", gemma3}, family) }

// gemmaNumbers reads the fields, with the defaults of transformers.
func (s *shape) gemmaNumbers(family string, n *numbers, config []byte) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(config, &given); err != nil {
		return fmt.Errorf("config.json: %w", err)
	}
	act := cmp.Or(n.Activation, n.Act)
	if act != "" && act != "gelu_pytorch_tanh" {
		return fmt.Errorf("the activation is %q; this engine has gelu_pytorch_tanh for Gemma", act)
	}
	if n.Bidirectional {
		return fmt.Errorf("use_bidirectional_attention is set; this engine has causal attention")
	}
	s.gemma = gemma{offset: true, gelu: true, embedScale: true}
	if family == "gemma" {
		return nil
	}
	s.queryScale = 256
	for _, f := range []struct {
		name  string
		given *float64
		to    *float64
		first float64 // Gemma 2's default
	}{
		{"query_pre_attn_scalar", n.QueryScale, &s.queryScale, 256},
		{"attn_logit_softcapping", n.AttSoftcap, &s.attSoftcap, 50}, {"final_logit_softcapping", n.LogitSoftcap, &s.logitSoftcap, 30},
	} {
		if _, ok := given[f.name]; !ok && family == "gemma2" {
			*f.to = f.first
		}
		if f.given == nil {
			continue
		}
		if *f.to = *f.given; !(*f.to > 0 && *f.to <= 1e6) {
			return fmt.Errorf("%s is %g; want a number above 0", f.name, *f.to)
		}
	}
	return nil
}

// localRopes reads RoPE of Gemma 3's sliding-window layers.
func (s *shape) localRopes(n *numbers) error {
	s.localRope = rope{Theta: 10000, Type: "default"}
	if n.LocalTheta != nil {
		s.localRope.Theta = *n.LocalTheta
	}
	if n.Parameters != nil && n.Parameters.Sliding != nil {
		s.localRope = *n.Parameters.Sliding
	}
	return s.localRope.check()
}

// normStart is the value of random norm weights, which makes norms multiply by 1.
func (s *shape) normStart() float32 {
	if s.offset {
		return 0
	}
	return 1
}

// embedFactor is the factor of the embedding, 0 for none. The models' own code and transformers round
// the square root to the format of the activations.
func (s *shape) embedFactor() float32 {
	if !s.embedScale {
		return 0
	}
	f := s.float()
	return f.Value(f.Round(float32(math.Sqrt(float64(s.hidden)))))
}

// scale is the factor of attention scores.
func (s *shape) scale() float32 {
	if s.queryScale > 0 {
		return float32(1 / math.Sqrt(s.queryScale))
	}
	return float32(1 / math.Sqrt(float64(s.headDim)))
}

// moreDefines are the constants of kernels that only some families have.
func (s *shape) moreDefines() (out []string) {
	for name, on := range map[string]bool{"NORM_OFFSET": s.offset, "GELU": s.gelu, "OUTPUT_NORM": s.outputNorm, "SLIDING": s.sliding,
		"MOE": s.experts > 0} {
		if on {
			out = append(out, name+"=1")
		}
	}
	for name, v := range map[string]float64{"EMBED_SCALE": float64(s.embedFactor()), "ATT_SOFTCAP": s.attSoftcap,
		"LOGIT_SOFTCAP": s.logitSoftcap} {
		if v != 0 {
			out = append(out, fmt.Sprintf("%s=%.9ef", name, v))
		}
	}
	slices.Sort(out)
	return out
}
