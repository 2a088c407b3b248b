package serving

import (
	"math/rand/v2"
	"sort"

	"llmprof/analytic"
	"llmprof/unit"
)

// An answer is a job that was answered.
type answer struct {
	ttft, decode float64
	gaps         int32
}

// Tails are the distributions of TTFT, TPOT and E2E in the steady state at a rate, of requests that are followed along a sample path with
// prompts from the whole of their distribution. It is false where the steady state has no path: requests come to the engine in groups.
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
	figures := &Figures{}
	for _, a := range all {
		figures.TTFT.Add(a.ttft, 1)
		figures.E2E.Add(a.ttft+a.decode, 1)
		if a.gaps > 0 {
			figures.TPOT.Add(a.decode/float64(a.gaps), 1)
		}
	}
	return figures, len(all) > 0 && t.ctx.Err() == nil
}

// tailJobs is how many requests are followed for percentiles: 99th ones are of some hundreds beyond them.
const tailJobs = 16000

// followed are the answers that count of a path of one of the queues of one kind.
func (f *flow) followed(rate float64, replicas int) (all []answer) {
	units := f.units(replicas)
	f.behindRouter(units)
	jobs := f.drawJobs(tailJobs)
	defer jobBuffers.Put(jobs)
	if f.prompts.Kind != "fixed" {
		f.spreadPrompts(*jobs)
	}
	f.arrivals(tailJobs, rate/units, func(i int, at float64) { (*jobs)[i].at = at })
	w := f.newPath(*jobs)
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

// spreadPrompts gives jobs prompts that are equally likely parts of their distribution. The tables of steps price all prompts at one
// length, whose attention is the mean of theirs. A much longer prompt has more attention than that: it counts as a prompt of more tokens.
func (f *flow) spreadPrompts(jobs []job) {
	n := len(jobs)
	long := f.longer(f.prompts.part(n-1, n))
	for i, part := range rand.New(rand.NewPCG(1, 3)).Perm(n) {
		v := &jobs[i]
		prompt := f.prompts.part(part, n)
		begin, end := f.of(float64(prompt)), f.of(float64(prompt+int(v.gaps)+1))
		if v.begin = begin; v.steps > 0 {
			v.growth = (end - begin) / float64(v.steps)
		}
		if !f.handed {
			v.tokens = float64(prompt-f.server.cached(prompt)) * long(prompt)
		}
	}
}

// longer is by how many times longer the tokens of a prompt take than those of prompts of the mean attention, up to some length.
func (f *flow) longer(most int) func(prompt int) float64 {
	var lengths []int
	var times []float64 // time of a token at each of the lengths
	for n := 2 * int(f.uncached.length+f.uncached.past); ; n *= 2 {
		cached := f.server.cached(n)
		e, err := f.server.Predictor.Predict(&analytic.Workload{Batch: 1, PromptLen: n, GenLen: 1, CachedPrefix: cached,
			Budget: f.server.Scheduler.Budget})
		if err != nil { // a context that is too long, which no prompt of a server has
			break
		}
		lengths, times = append(lengths, n), append(times, float64(e.TTFT.Expected.Times(1/float64(n-cached))))
		if n >= most {
			break
		}
	}
	return func(prompt int) float64 {
		i := sort.SearchInts(lengths, prompt)
		switch {
		case i == 0:
			return 1
		case i == len(lengths):
			return times[i-1] / times[0]
		}
		x := float64(prompt-lengths[i-1]) / float64(lengths[i]-lengths[i-1])
		return unit.Larger(times[i-1]+x*(times[i]-times[i-1]), times[0]) / times[0]
	}
}
