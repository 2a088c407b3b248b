package operator

import (
	"strings"

	"llmprof/models"
	"llmprof/unit"
)

// norms appends those norms of the residual stream that are wanted (nil wants all), each with the
// residual sum fused to it: two tensors read and two written.
func (s *Step) norms(dst []Op, b *models.Block, norms []models.Norm, wanted func(*models.Block, *models.Norm) bool) []Op {
	t := s.Tokens()
	if s.Par.SP {
		t /= float64(s.Par.TP)
	}
	for i := range norms {
		n := &norms[i]
		if n.PerHead || wanted != nil && !wanted(b, n) {
			continue
		}
		w := float64(n.Width)
		var o *Op
		dst, o = add(dst, n.Name, Norm)
		o.Norms, o.Shape.M, o.Shape.N = norms[i:i+1], t, w
		o.Work.Vector, o.Work.Acts, o.Work.Weights = unit.FLOPs(5*t*w), s.Bytes(4*t*w), s.Bytes(float64(n.Params))
	}
	return dst
}

// outputNorm reports whether a norm is one of the block's output, as Gemma 2 and
// OLMo 2 have them.
func outputNorm(b *models.Block, n *models.Norm) bool {
	if b.Attention != nil {
		return n.Name == "post_attention_layernorm"
	}
	return n.Name == "post_feedforward_layernorm"
}

// innerNorm reports whether a norm is one of queries, keys or the vectors that these
// are expanded from, as OLMo 2 and DeepSeek have them.
func innerNorm(_ *models.Block, n *models.Norm) bool {
	return strings.HasPrefix(n.Name, "q_") || strings.HasPrefix(n.Name, "k_") || strings.HasPrefix(n.Name, "kv_")
}

// inputNorm reports whether a norm is one of the block's input.
func inputNorm(b *models.Block, n *models.Norm) bool { return !outputNorm(b, n) && !innerNorm(b, n) }
