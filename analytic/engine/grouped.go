package engine

import (
	"llmprof/analytic"
	"llmprof/roofline"
	"llmprof/unit"
)

// grouped appends the kernel of operator i, a product of the experts that tokens are sent
// to, by Triton, CUTLASS or TensorRT-LLM. Half of the inputs of all pairs of a token and an expert are moved
// for the first product of a layer's experts, half for the last, whose outputs they are.
// The activation between them is within these kernels' constants.
func grouped(l *analytic.Lowering, i int, first bool) *analytic.Kernel {
	k := l.Launch(i, roofline.GroupedGEMM, 1)
	hidden := k.Shape.N
	if first {
		hidden = k.Shape.K
	}
	k.Permuted = unit.BF16.Bytes(k.Shape.Tokens*k.Shape.TopK*hidden) / 2
	return k
}
