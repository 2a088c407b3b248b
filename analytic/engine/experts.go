package engine

import (
	"math"

	"llmprof/analytic"
	"llmprof/operator"
	"llmprof/unit"
)

// Groups is the expected number of groups of up to size tokens of one expert, if each token
// takes k of count experts at random: an expert with n tokens has ⌈n/size⌉ groups, and n is
// binomial. The result is linear between whole numbers of tokens.
func Groups(count, k, tokens float64, size int) float64 {
	low := math.Floor(tokens)
	sum := wholeGroups(count, k, int(low), size)
	if tokens > low {
		sum += (tokens - low) * (wholeGroups(count, k, int(low)+1, size) - sum)
	}
	return sum
}

func wholeGroups(count, k float64, tokens, size int) float64 {
	if k >= count {
		return count * float64((tokens+size-1)/size)
	}
	odds := k / (count - k)
	p := math.Exp(float64(tokens) * math.Log1p(-k/count)) // probability that no token takes the expert
	sum := 0.0
	for n := 1; n <= tokens; n++ {
		p *= odds * float64(tokens-n+1) / float64(n)
		sum += p * float64((n+size-1)/size)
	}
	return count * sum
}

// Tiles is how often a GEMM with tiles of so many pairs reads the weights of an expert from
// memory: every tile reads the weights that do not fit in the L2 cache again. A GPU whose
// L2 size is not known reads them once.
func Tiles(l2, expert unit.Bytes, pairs, tile float64) float64 {
	if l2 == 0 {
		return 1
	}
	return 1 + (max(1, pairs/tile)-1)*max(0, 1-float64(l2/expert))
}

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
