package engine

import (
	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// recurrence is the class of the kernel of a recurrence, or of the convolution ahead of it.
func recurrence(l *analytic.Lowering, o *operator.Op) roofline.Class {
	delta := o.Block.Scan.Kind == models.GatedDelta
	switch {
	case o.Type == operator.Conv && l.Step.Decode():
		return roofline.ConvolutionStep
	case o.Type == operator.Conv:
		return roofline.Convolution
	case o.Type == operator.Scan && delta:
		return roofline.ScanStep
	case o.Type == operator.Scan:
		return roofline.Elementwise
	case gatedDelta(o.Block):
		return roofline.ChunkedScan
	case delta:
		return roofline.ChannelScan
	}
	return roofline.StateScan
}

// mixes reports whether Python calls an operator between two compiled pieces of a model, as attention and recurrences with their
// convolutions.
func mixes(t operator.Type) bool {
	return t.Kind() == operator.Attention || t == operator.Conv || t == operator.Scan
}

// gatedDelta reports whether a block is a gated delta net with one decay a head, which the operator tables have.
func gatedDelta(b *models.Block) bool {
	return b != nil && b.Scan != nil && b.Scan.DeltaPerHead()
}

// A scanHost is how a server runs recurrences, as its Python code has it. The operator tables have the kernels of the gated delta rule from
// normed queries and keys to the results; what prepares and stores them is not in them. The host takes as long to launch a kernel of
// Triton's as several others, for Triton's JITFunction binds and specializes the arguments in Python before a launcher takes them.
type scanHost struct {
	prompt func(*analytic.Lowering) scanLaunches // gives the launches of the gated delta rule over prompts
	norms  float64                               // kernels in the CUDA graphs around the gated delta rule, the gated norm among them
	triton float64                               // launches of the host that a kernel of Triton's counts as
	states float64                               // launches that a state-space kernel counts as, for its forty arguments
}

// A scanLaunches is the kernels of the gated delta rule over a prompt, which no CUDA graph has.
type scanLaunches struct {
	untabled      float64 // kernels that the tables do not have
	moves, tabled float64 // launches of the host for these, and for those that the tables have
}

// conv makes the kernel of a convolution, which Triton compiles.
func (h scanHost) conv(l *analytic.Lowering, i int) {
	fused(l, i).Helpers = h.triton - 1
}

// scan makes the kernels of a recurrence over a prompt. Those beside it read and write queries, keys and values, the states of the
// sequences, and the results. The five kernels of a state-space model write its state and results in place.
func (h scanHost) scan(l *analytic.Lowering, i int) {
	k, s := fused(l, i), l.Ops[i].Block.Scan
	if !gatedDelta(l.Ops[i].Block) {
		k.Helpers = h.states*5 - k.Launches
		gatedNorm(l, i, 1)
		return
	}
	n, state, tp := h.prompt(l), k.Work.State, float64(l.Step.Par.TP)
	k.Helpers = n.tabled - k.Launches
	moved := l.Launch(i, roofline.Elementwise, n.untabled)
	moved.Helpers = n.moves - n.untabled
	moved.Work = roofline.Work{State: 2 * state, Acts: l.Step.Bytes(2 * l.Step.Tokens() * (float64(s.Conv) + s.Width()) / tp)}
	gatedNorm(l, i, h.norms)
}

// step makes the kernel of a recurrence of one token.
func (h scanHost) step(l *analytic.Lowering, i int) {
	lowerFused(l, i)
	switch b := l.Ops[i].Block; {
	case gatedDelta(b):
		gatedNorm(l, i, h.norms)
	case b.Scan.Kind == models.Mamba2 || b.Scan.Kind == models.GatedDelta:
		gatedNorm(l, i, 1)
	}
}

// gatedNorm makes the kernels between a recurrence and the projection of its results: the norm of the results with their gate, which reads
// two and writes one, and others that move little. They lie in the CUDA graph of the projection.
func gatedNorm(l *analytic.Lowering, i int, kernels float64) {
	if j := l.Next(i, operator.Product); j >= 0 {
		k := l.Launch(j, roofline.Elementwise, kernels)
		k.Format, k.Scheme = unit.NoFormat, roofline.Unquantized
		width := l.Ops[i].Block.Scan.Width() / float64(l.Step.Par.TP)
		k.Work = roofline.Work{Acts: l.Step.Bytes(3 * l.Step.Tokens() * width)}
	}
}

// apart is a product of which each matrix is a GEMM of its own in a gated delta net, as vLLM has its projections for queries, keys, values
// and gates and for the two gates of the rule.
func apart(product lowering) lowering {
	return func(l *analytic.Lowering, i int) {
		o := &l.Ops[i]
		if product(l, i); gatedDelta(o.Block) {
			l.Kernels[len(l.Kernels)-1].Launches = max(1, o.Shape.Matrices)
		}
	}
}

// statesIn keeps the states of every model in a format.
func statesIn(f unit.Format) func(*models.Model) unit.Format {
	return func(*models.Model) unit.Format { return f }
}
