package operator

import (
	"math"
	"slices"
)

// A Run is a number of steps, each after the tokens of the one before it. The run is repeated
// Times times, for groups of sequences.
type Run struct {
	First Step
	Steps int
	Times float64
}

// At is step n of the run, counted from 0; a fraction of n is a step between two.
func (r *Run) At(n float64) Step {
	s := r.First
	s.Past += s.New * n
	return s
}

// Split is the first n steps of the run, and the others.
func (r *Run) Split(n int) (left, right Run) {
	return Run{r.First, n, r.Times}, Run{r.At(float64(n)), r.Steps - n, r.Times}
}

// Straight is the run cut before each of the steps at, which rise.
func (r *Run) Straight(at []int) (all []Run) {
	rest, done := *r, 0
	for _, n := range at {
		var piece Run
		piece, rest = rest.Split(n - done)
		all, done = append(all, piece), n
	}
	return append(all, rest)
}

// mostBends bounds the cuts of a run. Chunks of a few tokens under answers of millions have more, behind which the run is taken as
// straight.
const mostBends = 4096

// Bends are the steps of a run before which the formula of a layer changes: all figures of an operator are linear in the context between
// them. A window changes it where it is full, and begins to be full within one step.
func (r *Rank) Bends(run *Run) (at []int) {
	past, fresh := run.First.Past, run.First.New
	for _, b := range r.Model.Blocks() {
		if b.Attention == nil {
			continue
		}
		m := maskOf(b.Attention)
		for _, context := range m.bends(fresh, past+fresh*float64(run.Steps)) {
			filling := (context - past) / fresh // steps before the window is full
			for _, n := range []float64{math.Floor(filling), math.Ceil(filling)} {
				if n >= 1 && n < float64(run.Steps) {
					at = append(at, int(n))
				}
			}
		}
	}
	slices.Sort(at)
	return slices.Compact(at)
}
