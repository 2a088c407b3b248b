package serving

import "slices"

// tailJobs is how many requests are followed for percentiles: 99th ones are of some hundreds beyond them.
const tailJobs = 16000

// Tails are the distributions of TTFT, TPOT and E2E in the steady state at a rate, of requests that are followed along a sample path, whose
// parts, one after another, say how much they vary. It is false where the steady state has no path: requests come to the engine in groups,
// or the batches of a pipeline wait for each other.
func (t *Steadies) Tails(rate float64, l Layout, parts int) ([]*Figures, bool) {
	f, first := t.flow, []*Record(nil)
	if f.groups(rate/f.units(l.Replicas)) || f.pipelined() {
		return nil, false
	}
	if l.Prefillers > 0 { // a queue of its own, on which nothing of the next one depends
		f = t.decode
		_, w := t.prefill.tails(rate, l.Prefillers)
		first = slices.Collect(w.answered)
	}
	st, w := f.tails(rate, l.Replicas)
	all := make([]*Figures, parts)
	for i := range all {
		all[i] = &Figures{}
	}
	n := 0
	for q := range w.answered {
		if len(first) > 0 {
			q.Request.At, first = q.First-first[0].TTFT(), first[1:]
		}
		all[min(n*parts/tailJobs, parts-1)].answered(q, &SLO{})
		n++
	}
	return all, n > 0 && !f.interrupts(st.Rate, st.Running) && t.ctx.Err() == nil
}

// tails is the steady state of one of the queues of one kind, with a path that is long enough for percentiles.
func (f *flow) tails(rate float64, replicas int) (*Steady, *path) {
	units := f.units(replicas)
	f.behindRouter(units)
	return f.sample(rate/units, tailJobs)
}
