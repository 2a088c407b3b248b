package engine

import (
	"math"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/roofline"
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
	// p is the probability that no token takes the expert. math.Exp is assembly on amd64 and rounds otherwise in a browser, which math.Pow of
	// a whole number does not.
	p := math.Pow(1-k/count, float64(tokens))
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

// expertCalls is the Python calls of a kernel of routing or of experts outside of CUDA graphs: one of the routing and one of each GEMM.
// OpenAI's Triton kernels take two calls each, of the function that prepares the kernel and of Triton's launcher: four kernels of the
// routing (top-k, rows of the bit matrix, and two that sort), two GEMMs, and the sum of their results. A trace of a prompt of gpt-oss-20b
// shows that these seven take the host 34 times the launch of a compiled kernel (experiments/h100-vllm-ep).
func (e *graphed) expertCalls(l *analytic.Lowering, t operator.Type, gemms float64) float64 {
	experts := l.Next(0, operator.ExpertProduct)
	switch {
	case e.oneCall:
		return 0
	case e.triton && experts >= 0 && tritonMXFP4(l.GPU, l.Ops[experts].Scheme):
		if t == operator.TopK {
			return 2 * tritonRouting
		}
		return 2 * (gemms + 1)
	case t == operator.TopK:
		return 1
	}
	return gemms
}

// Kernels that route the tokens of a layer to its experts, and sum the results: those of vLLM, and those of OpenAI's Triton kernels, whose
// sum is not among them.
const routingKernels, tritonRouting = 5, 4

// expertHelpers is the kernels beside both grouped GEMMs of a layer, whose times operator tables include but which the host launches one
// by one. OpenAI's Triton kernels have the routing and the sum (a trace of gpt-oss-20b in experiments/h100-vllm-ep). Those of vLLM have
// the routing and the activation (a trace in 16 bits in experiments/vllm-host/h200); the kernels of other engines and formats were not
// traced, and are taken to be as many, with one before each GEMM that quantizes its inputs. A C++ operator that runs all of them was not
// traced either, and counts as one launch.
func (e *graphed) expertHelpers(l *analytic.Lowering, o *operator.Op) float64 {
	switch {
	case e.oneCall:
		return 1
	case e.triton && tritonMXFP4(l.GPU, o.Scheme):
		return tritonRouting + 1
	case o.Format != l.Step.Scheme.Stream():
		return routingKernels + 1 + 2
	}
	return routingKernels + 1
}

// alignment is the rows that DeepGEMM's contiguous layout gives each expert a multiple of.
const alignment = 128

// everyExpert is so many tokens that they are sent to every expert.
const everyExpert = 1e9

// align pads the experts in FP8 by blocks of an engine that runs them by DeepGEMM in its contiguous layout. The host
// does not wait to know how many pairs each expert has. The layout has as many rows as can be needed: one for each
// pair, and alignment − 1 more for each expert. DeepGEMM does not multiply a tile beyond the last pair, but loads its
// operands (get_global_idx of its scheduler). Activation and quantization run over all rows.
func (e *graphed) align(l *analytic.Lowering) {
	if !e.contiguous || l.GPU.Vendor != nvidia || int(capability(l.GPU)) != 9 || l.Step.Par.TP == mostContiguous {
		return
	}
	k := groupedKernel(l)
	if k == nil || k.Scheme != roofline.FP8Block {
		return
	}
	experts, _ := l.Step.Chosen(&k.Shape, everyExpert)
	rows := k.Shape.Pairs + (alignment-1)*experts
	k.Work.Weights = k.Work.Weights.Times(rows / alignment / k.Shape.Hit)
	empty := rows - k.Shape.Pairs
	k.Shape.Hit = rows / alignment
	moves := l.Launch(k.Main, roofline.Elementwise, 0)
	moves.Work, moves.Graphed = roofline.Work{Acts: moved(l, empty)}, true
}

// moved is the bytes that rows of experts move besides the weights: results of the first products are written and
// read, those of the activation are written, read, and written in FP8, and those of the last products are written.
func moved(l *analytic.Lowering, rows float64) (bytes unit.Bytes) {
	last := 0
	for i := l.Next(0, operator.ExpertProduct); i >= 0; i = l.Next(i+1, operator.ExpertProduct) {
		bytes += l.Step.Bytes(2 * rows * l.Ops[i].Shape.N)
		last = i
	}
	o := &l.Ops[last]
	return bytes - l.Step.Bytes(rows*o.Shape.N) + l.Step.Bytes(2*rows*o.Shape.K) + unit.FP8.Bytes(rows*o.Shape.K)
}

// mostContiguous is the TP with which vLLM leaves experts to Triton (vllm-project/vllm, pull request 29346).
const mostContiguous = 8
