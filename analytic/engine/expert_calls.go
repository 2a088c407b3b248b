package engine

import (
	"llmprof/analytic"
	"llmprof/operator"
)

// expertCalls is the Python calls of a kernel of routing or of experts outside of CUDA graphs: one, or one for each of
// OpenAI's Triton kernels, which Python launches: four of the routing (top-k, rows of the bit matrix, and two that
// sort), two GEMMs, and the sum of their results. A trace of a prompt of gpt-oss-20b shows that these seven take the host 40 times
// the launch of a compiled kernel (experiments/h100-vllm-ep). A call takes five launches.
func (e *graphed) expertCalls(l *analytic.Lowering, t operator.Type) float64 {
	experts := l.Next(0, operator.ExpertProduct)
	switch {
	case e.oneCall:
		return 0
	case !e.triton || experts < 0 || !tritonMXFP4(l.GPU, l.Ops[experts].Scheme):
		return 1
	case t == operator.TopK:
		return 4
	}
	return 3
}
