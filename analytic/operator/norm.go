package operator

import (
	"strings"

	"llmprof/models"
	"llmprof/unit"
)

// norms appends the wanted norms of the residual stream (nil wants all), each with the residual
// sum: it reads two tensors and writes two.
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

// varianceSum appends the all-reduce of the variances of norms over all heads, where each TP rank
// has some of the heads: vLLM sums them in FP32 (MiniMaxText01RMSNormTP.forward_qk).
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

// overHeads reports whether a norm is over the queries or keys of all heads together, as in MiniMax-M2
// and OLMo 2. The norm of the vector that queries are made of (q_a_norm of DeepSeek-V4) is of no heads: every rank has it whole.
func overHeads(b *models.Block, n *models.Norm) bool {
	if b == nil || b.Attention == nil || n.PerHead || !innerNorm(b, n) {
		return false
	}
	a := b.Attention
	return a.Latent == nil && (n.Width == a.Heads*a.KeyDim || n.Width == a.KVHeads*a.KeyDim)
}

// outputNorm reports whether a norm is of the block's output, as in Gemma 2 and OLMo 2.
func outputNorm(b *models.Block, n *models.Norm) bool {
	if b.Attention != nil {
		return n.Name == "post_attention_layernorm"
	}
	return n.Name == "post_feedforward_layernorm"
}

// innerNorm reports whether a norm is of queries, keys or the vectors that they are expanded
// from, as in OLMo 2 and DeepSeek.
func innerNorm(_ *models.Block, n *models.Norm) bool {
	return strings.HasPrefix(n.Name, "q_") || strings.HasPrefix(n.Name, "k_") || strings.HasPrefix(n.Name, "kv_")
}

// inputNorm reports whether a norm is of the block's input.
func inputNorm(b *models.Block, n *models.Norm) bool { return !outputNorm(b, n) && !innerNorm(b, n) }
