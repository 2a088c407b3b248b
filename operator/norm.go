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
		w, params := float64(n.Width), float64(n.Params)
		if overHeads(b, n) {
			w, params = w/float64(s.Par.TP), params/float64(s.Par.TP)
		}
		var o *Op
		dst, o = add(dst, n.Name, Norm)
		o.Norms, o.Shape.M, o.Shape.N = norms[i:i+1], t, w
		o.Work.Vector, o.Work.Acts, o.Work.Weights = unit.FLOPs(5*t*w), s.Bytes(4*t*w), s.Bytes(params)
	}
	return dst
}

// varianceSum appends the sum over the TP ranks of the variances of those norms that all heads
// share, where each rank has some of the heads: vLLM sums them in one all-reduce in FP32
// (MiniMaxText01RMSNormTP.forward_qk).
func (s *Step) varianceSum(dst []Op, b *models.Block) []Op {
	if s.Par.TP == 1 {
		return dst
	}
	shared := 0.0
	for i := range b.Norms {
		if overHeads(b, &b.Norms[i]) {
			shared++
		}
	}
	if shared == 0 {
		return dst
	}
	return s.allReduce(dst, "qk_norm_all_reduce", unit.FP32.Bytes(s.Tokens()*shared))
}

// overHeads reports whether a norm is one of the queries or keys of all heads together, as MiniMax-M2
// and OLMo 2 have them.
func overHeads(b *models.Block, n *models.Norm) bool {
	return b != nil && b.Attention != nil && b.Attention.Latent == nil && !n.PerHead && innerNorm(b, n)
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
