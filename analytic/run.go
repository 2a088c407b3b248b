package analytic

import "llmprof/operator"

// maxSteps is how many steps a run may price one by one; only windows of a few
// tokens under answers of millions come near it.
const maxSteps = 20000

// A runner sums runs of steps.
type runner struct {
	p      *Predictor
	budget int // steps that it may still price before the rest is taken as linear
	first  *firstStep
}

// sum prices the first and the last step of a run, and halves the run where these do not
// lie on one linear piece.
func (r *runner) sum(run *operator.Run) (all total) {
	first := r.begin(&run.First)
	if run.Steps == 1 {
		return first
	}
	end := run.Last()
	last := r.p.step(&end)
	r.between(&all, run, &first, &last)
	return all
}

// A firstStep is the first decode step of the run before, which runs that differ in
// their length alone share.
type firstStep struct {
	batch, past, cache float64
	total              total
}

// begin prices the first step of a run.
func (r *runner) begin(s *operator.Step) total {
	f := r.first
	if f == nil || !s.Decode() {
		return r.p.step(s)
	}
	cache := 0.0
	if r.p.fixedCache {
		cache = s.Cache
	}
	if f.batch != s.Batch || f.past != s.Past || f.cache != cache {
		*f = firstStep{s.Batch, s.Past, cache, r.p.step(s)}
	}
	return f.total
}

// between adds the steps of a run: as many times the mean of first and last if both lie on
// one piece, else the sums of the two halves. A run of two steps is their sum in any case.
func (r *runner) between(all *total, run *operator.Run, first, last *total) {
	if run.Steps <= 2 || first.Piece == last.Piece || r.budget <= 0 {
		all.add(first, float64(run.Steps)/2)
		all.add(last, float64(run.Steps)/2)
		return
	}
	r.budget -= 2
	left, right := run.Halves()
	end := left.Last()
	leftEnd, rightBegin := r.p.step(&end), r.p.step(&right.First)
	r.between(all, &left, first, &leftEnd)
	r.between(all, &right, &rightBegin, last)
}
