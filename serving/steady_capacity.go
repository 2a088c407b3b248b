package serving

import (
	"math/rand/v2"
	"slices"
)

// A Capacity is the largest rate that is stable, and what bounds it.
type Capacity struct {
	// largest stable rate
	Rate float64 `json:"requests_s" jsonschema:"exclusiveMinimum=0"`
	// "compute", "KV blocks", "preemption", "sequences", "prefill" or "API server"
	Bound string `json:"bound" jsonschema:"enum=compute,enum=KV blocks,enum=preemption,enum=sequences,enum=prefill,enum=API server"`
	// sequences of one replica that fit at once
	Running int `json:"running_replica" jsonschema:"minimum=1"`
}

// preemption is what bounds the rate of a server whose sequences outgrow the KV cache.
const preemption = "preemption"

// fewestFull is the fewest jobs that a full server is followed with.
const fewestFull = 2000

// capacity is the largest stable rate: that at which a queue answers requests of which some always wait. A scheduler that admits a sequence
// with room for less than its whole answer fills the KV cache then: sequences outgrow it, and the youngest are preempted and computed
// again, so that it answers less than one whose sequences just fit. At a rate between the two a server runs well until its cache is full
// for the first time, and its queue grows from then on.
func (f *flow) capacity() Capacity {
	if f.largest.Rate > 0 {
		return f.largest
	}
	w, rate := f.full(8, 4)
	if w.sums.preempted > 0 { // groups of sequences that began together form slowly
		w, rate = f.full(24, 12)
	}
	c := Capacity{Running: f.most / int(f.peers), Rate: rate, Bound: f.bound(w)}
	if most := f.peers / f.front.load(1, f.gen/2); most < c.Rate { // tokens that wait are sent together
		c.Rate, c.Bound = most, "API server"
	}
	if f.ctx.Err() == nil {
		f.largest = c
	}
	return c
}

// full is the path of some generations of the sequences that run at once, for which requests always wait and of which the first ones do not
// count, and the rate at which they are answered.
func (f *flow) full(generations, before int) (w *path, rate float64) {
	n, steps := min(max(generations*f.most, fewestFull), mostJobs), 0.0
	all, ages := f.drawJobs(n), rand.New(rand.NewPCG(2, 2))
	for i := range all {
		v := &all[i]
		steps += float64(v.steps) / float64(n)
		if i < f.most { // the first ones are of all ages, at random: even ages would let one begin just when one ends
			v.done = int32(float64(v.steps) * ages.Float64())
		}
	}
	w = f.newPath(all)
	w.follow(n * before / generations)
	y := w.tally()
	if rate = y.requests; steps > 0 {
		rate = w.sums.gained / steps
	}
	return w, rate / y.time
}

// bound is what requests of a full server wait for most often.
func (f *flow) bound(w *path) string {
	often := slices.Index(w.waits[:], slices.Max(w.waits[:]))
	if often == forTokens {
		return "prefill"
	}
	if f.most > 1 { // where half as many sequences would give nearly the same rate steps are as long as they have sequences
		half, all := f.pass(f.most/2, 0), f.pass(f.most, 0)
		if float64(half.Time) < 0.55*float64(all.Time) {
			return "compute"
		}
	}
	switch {
	case often == forSequences:
		return "sequences"
	case w.sums.preempted > 0.01*w.tally().requests:
		return preemption
	}
	return "KV blocks"
}

// rateOf is the capacity of so many replicas.
func (f *flow) rateOf(replicas int) Capacity {
	c := f.capacity()
	c.Rate *= f.units(replicas)
	return c
}

// groupsArrivals is the share of its time from which on an API server lets requests come to the engine in groups, so that they are
// simulated with it: they wait for half of what they take there, ρ/(1-ρ), or longer. Below it the mean wait is added to the times of a path
// without it.
const groupsArrivals = 1.0 / 3

// groups reports whether requests come to the engine in groups at a rate: since the API server lets them, or since the scheduler receives
// them after several steps.
func (f *flow) groups(rate float64) bool {
	return !f.transferred && (f.front.load(rate, f.gen)/f.peers > groupsArrivals || f.server.Scheduler.Receives > 1)
}

// interrupts reports whether groups of requests make fewer steps of prompts than requests one by one, for which sequences that decode wait:
// prompts have steps of their own, and more than a third of a request comes while the API server handles the outputs of a step.
func (f *flow) interrupts(rate, running float64) bool {
	return !f.transferred && !f.server.Scheduler.Mixed && rate*running/(f.peers*f.peers)*float64(f.front.each()) > groupsArrivals
}
