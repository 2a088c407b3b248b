package engine

import (
	"llmprof/analytic"
	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

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
