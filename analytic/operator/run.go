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

// Segments are the run cut before each of the steps at, which rise.
func (r *Run) Segments(at []int) (all []Run) {
	rest, done := *r, 0
	for _, n := range at {
		var segment Run
		segment, rest = rest.Split(n - done)
		all, done = append(all, segment), n
	}
	return append(all, rest)
}

// mostBends bounds the cuts of a run. Chunks of a few tokens under answers of millions have more, behind which the run is taken as
// linear.
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

// at is a step of a micro-batch of a workload after past tokens, with one new token.
func (r *Rank) at(w *Workload, past int) Step {
	st := r.Step(float64(w.Batch)/float64(r.Par.MicroBatches), 1, float64(past), 1)
	st.Cache = float64(w.Context())
	return st
}

// FirstDecode is the first decode step of a workload, of one micro-batch. Each step after it
// has one more token of context.
func (r *Rank) FirstDecode(w *Workload) Step { return r.at(w, w.PromptLen) }

// Prefill is the steps of a prefill of one micro-batch, chunk by chunk: the steps before the
// last, if there are any, and the last. The LM head runs in the last step, unless it runs on
// every position. A batch with more tokens than the budget of a step (0 for no limit) prefills
// in equal groups of sequences; an engine fills its steps and splits prompts between them,
// with equal work in as many steps.
func (r *Rank) Prefill(w *Workload, budget int) (runs [2]Run) {
	full := r.at(w, w.CachedPrefix)
	most, chunk := w.Step(budget)
	groups := max(math.Ceil(full.Batch/most), 1)
	fresh := w.PromptLen - w.CachedPrefix
	n := (fresh - 1) / int(chunk)
	last := r.at(w, w.CachedPrefix+n*int(chunk))
	full.Batch /= groups
	last.Batch = full.Batch
	full.New, full.Logits, last.New = chunk, 0, float64(fresh-n*int(chunk))
	if w.AllLogits {
		full.Logits, last.Logits = full.New, last.New
	}
	return [2]Run{{full, n, groups}, {last, 1, groups}}
}
