package analytic

import (
	"math"

	"llmprof/analytic/operator"
	"llmprof/unit"
)

// linearity is how far the time of a run may be off, as a share of it, because steps between those that were priced are not.
const linearity = 1e-4

// maxSteps is how many steps a run may price before the rest is taken as linear; only windows of a few
// tokens under answers of millions come near it.
const maxSteps = 20000

// A runner sums runs of steps.
//
// A run is cut where the formula of a layer changes, as where a window fills (operator.Rank.Bends). Between two cuts every resource of
// every kernel is linear in the context. A kernel's time is a maximum, or the root of a sum of squares, of such functions, which is
// convex, and so is the sum over the kernels, the host's time included. For a convex f and n steps,
//
//	n · f(middle) <= sum of f <= n · (f(first) + f(last)) / 2
//
// (Hermite and Hadamard). Where the two are closer than linearity, the sum is taken by Simpson's rule, which lies between them and
// is exact if f is linear. Else the run is halved.
type runner struct {
	p      *Predictor
	detail detail
	budget int // steps that it may still price
}

// sum adds the steps of a run.
func (r *runner) sum(all *total, run *operator.Run) {
	for _, one := range run.Segments(r.p.Bends(run)) {
		r.segment(all, &one)
	}
}

// segment adds the steps of a run without a cut.
func (r *runner) segment(all *total, run *operator.Run) {
	var first, last total
	r.step(&first, run, 0)
	if run.Steps == 1 {
		all.add(&first, run.Times)
		return
	}
	r.step(&last, run, float64(run.Steps-1))
	r.between(all, run, &first, &last)
}

// step prices step n of a run, which may lie in the middle of two.
func (r *runner) step(t *total, run *operator.Run, n float64) {
	s := run.At(n)
	r.budget--
	r.p.step(t, &s, r.detail)
}

// between adds the steps of a run of two or more, whose first and last are priced.
func (r *runner) between(all *total, run *operator.Run, first, last *total) {
	n := float64(run.Steps) * run.Times
	if run.Steps == 2 || r.budget <= 0 {
		all.add(first, n/2)
		all.add(last, n/2)
		return
	}
	var middle total
	r.step(&middle, run, float64(run.Steps-1)/2)
	if run.Steps == 3 {
		all.add(first, run.Times)
		all.add(&middle, run.Times)
		all.add(last, run.Times)
		return
	}
	if onLine(first.Expected, middle.Expected, last.Expected) && onLine(first.least, middle.least, last.least) {
		all.add(first, n/6)
		all.add(&middle, n*2/3)
		all.add(last, n/6)
		return
	}
	left, right := run.Split(run.Steps / 2)
	var leftEnd, rightBegin total
	r.step(&leftEnd, &left, float64(left.Steps-1))
	r.step(&rightBegin, &right, 0)
	r.between(all, &left, first, &leftEnd)
	r.between(all, &right, &rightBegin, last)
}

// onLine reports whether the middle of three times is the mean of the others, as far as it has to be.
func onLine(first, middle, last unit.Seconds) bool {
	return math.Abs(float64((first+last)/2-middle)) <= linearity*float64(middle)
}
