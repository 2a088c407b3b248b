package serving

// An answer is a job that was answered.
type answer struct {
	ttft, decode float64
	gaps         int32
}

// Tails are the distributions of TTFT, TPOT and E2E in the steady state at a rate, of requests that are followed along a sample path. It is
// false where the steady state has no path: requests come to the engine in groups.
func (t *Steadies) Tails(rate float64, l Layout) (*Figures, bool) {
	f := t.flow
	if f.groups(rate / f.units(l.Replicas)) {
		return nil, false
	}
	if l.Prefillers > 0 {
		f = t.decode
	}
	all := f.followed(rate, l.Replicas)
	if l.Prefillers > 0 { // a queue of its own, on which nothing of the next one depends
		first := t.prefill.followed(rate, l.Prefillers)
		for i := range all[:min(len(all), len(first))] {
			all[i].ttft = first[i].ttft
		}
	}
	figures, decode := &Figures{}, 0.0
	for _, a := range all {
		decode += a.decode
		figures.TTFT.Add(a.ttft, 1)
		figures.E2E.Add(a.ttft+a.decode, 1)
		if a.gaps > 0 {
			figures.TPOT.Add(a.decode/float64(a.gaps), 1)
		}
	}
	each := rate / f.units(l.Replicas)
	return figures, len(all) > 0 && !f.interrupts(each, each*decode/float64(len(all))) && t.ctx.Err() == nil
}

// tailJobs is how many requests are followed for percentiles: 99th ones are of some hundreds beyond them.
const tailJobs = 16000

// followed are the answers that count of a path of one of the queues of one kind.
func (f *flow) followed(rate float64, replicas int) (all []answer) {
	units := f.units(replicas)
	f.behindRouter(units)
	w := f.newPath(f.come(tailJobs, rate/units))
	w.each = func(v *job, at float64) {
		if v.at >= w.sums.begin && w.sums.begin > 0 {
			all = append(all, answer{v.first - v.at, at - v.first, v.gaps})
		}
	}
	w.follow(tailJobs / 16)
	late := w.late(rate / units)
	for i := range all {
		all[i].ttft += late
	}
	return all
}

// late is the part of the mean TTFT that no step has.
func (w *path) late(rate float64) float64 {
	if w.handed {
		return 0
	}
	running := rate * w.sums.decode / max(w.sums.answered, 1)
	return w.api(running, rate) - w.sooner(running, rate) + float64(w.server.Predictor.RequestTime())
}
