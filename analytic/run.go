package analytic

import "llmprof/analytic/operator"

// maxSteps is how many steps a run may price one by one; only windows of a few
// tokens under answers of millions come near it.
const maxSteps = 20000

// A runner sums runs of steps.
type runner struct {
	p      *Predictor
	budget int // steps that it may still price before the rest is taken as linear
}

// sum prices the first and the last step of a run, and halves the run if they do not lie on one
// linear piece.
func (r *runner) sum(all *total, run *operator.Run) {
	var first, last total
	r.p.step(&first, &run.First)
	if run.Steps == 1 {
		all.add(&first, 1)
		return
	}
	end := run.Last()
	r.p.step(&last, &end)
	r.between(all, run, &first, &last)
}

// between adds the steps of a run: their number times the mean of first and last if both lie on
// one piece, else the sums of the two halves. A run of two steps is their sum in either case.
func (r *runner) between(all *total, run *operator.Run, first, last *total) {
	if run.Steps <= 2 || first.Piece == last.Piece || r.budget <= 0 {
		all.add(first, float64(run.Steps)/2)
		all.add(last, float64(run.Steps)/2)
		return
	}
	r.budget -= 2
	left, right := run.Halves()
	end := left.Last()
	var leftEnd, rightBegin total
	r.p.step(&leftEnd, &end)
	r.p.step(&rightBegin, &right.First)
	r.between(all, &left, first, &leftEnd)
	r.between(all, &right, &rightBegin, last)
}
