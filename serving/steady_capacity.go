package serving

import (
	"math"

	"llmprof/analytic/engine"
)

// The largest stable rate is that at which requests are answered where some always wait: sequences then run at the most that fit, prompts
// fill the budget of each step, or the API server has work at all times (λ·E[S] < 1 for each of them).

// A Capacity is the largest rate that is stable, and what bounds it.
type Capacity struct {
	Rate    float64 `json:"requests_s"`
	Bound   string  `json:"bound"`           // "compute", "KV blocks", "preemption", "sequences", "prefill" or "API server"
	Running int     `json:"running_replica"` // sequences of one replica that fit at once
}

// prefillCapacity is the largest stable rate of so many replicas that only prefill.
func (f *flow) prefillCapacity(replicas int) Capacity {
	return Capacity{Rate: f.units(replicas) / f.level(0).each(), Bound: "prefill", Running: f.most / int(f.peers)}
}

// unpreempted is the largest stable rate where no sequence is preempted.
func (f *flow) unpreempted() Capacity {
	if f.limits.Rate > 0 {
		return f.limits
	}
	defer f.behindRouter(float64(f.stages))
	f.behindRouter(1)
	c := Capacity{Running: f.most / int(f.peers), Bound: f.bound}
	p := f.level(f.most)
	packed := f.packed()
	ceiling := min(1/max(p.each(), f.level(0).each()), packed) // prompts a second where steps are full of them
	if f.handed {
		ceiling = float64(f.most) / (f.steps * float64(p.decode.Time))
	}
	var low float64
	if float64(f.most*(1+f.server.Drafts)) < float64(f.server.Scheduler.Budget) || math.IsInf(packed, 1) {
		low = min(f.full(ceiling), ceiling)
	} else { // steps have no room for a token of each sequence that fits, and fewer decode
		low = min(packed, 1/f.level(0).each())
	}
	switch {
	case low > 0.97*ceiling && !f.handed:
		c.Bound = "prefill"
	case f.most > 1:
		// Half as many sequences would give nearly the same rate: steps are as long as they have sequences.
		half := f.level(f.most / 2)
		if d := float64(half.decode.Time) / float64(p.decode.Time); d < 0.55 {
			c.Bound = "compute"
		}
	}
	if most := f.peers / f.front.load(1, f.gen/2); most < low { // tokens that wait are sent together
		low, c.Bound = most, "API server"
	}
	c.Rate = low
	f.limits = c
	return c
}

// full is the rate, up to a ceiling, at which the sequences of a full replica end as fast as requests come: each of its steps has as many
// prompts as sequences end with it.
func (f *flow) full(ceiling float64) float64 {
	if f.steps == 0 { // answers of one token end with their prompt
		return ceiling
	}
	p := f.level(f.most)
	ends := float64(f.most) / f.steps
	time, _, _ := p.prompts(0, ends)
	rate := ends / (float64(p.decode.Time) + max(time, 0)) // further steps may hide more launches than they take
	if c := p.with(ends); c.Waits == 0 {
		return min(rate, ceiling)
	}
	before, off := 0.0, 0.0
	for range 8 {
		if rate >= ceiling {
			return ceiling
		}
		decode := f.solve(p, rate, false).decode
		if math.IsInf(decode, 1) {
			return rate
		}
		more := ends/decode - rate
		if math.Abs(more) < 1e-3*rate {
			return rate + more
		}
		next := rate + more/2
		if before > 0 && off != more { // on the line through the last two
			next = rate - more*(rate-before)/(more-off)
		}
		before, off, rate = rate, more, min(max(next, rate/2), 2*rate)
	}
	return rate
}

// packing is the prompts of a step whose budget they use up beside a token of each sequence that decodes, and the number of those
// sequences. The number is +Inf where more sequences would decode than fit.
func (f *flow) packing() (prompts, decodes float64) {
	if !f.server.Scheduler.Mixed || f.handed {
		return 0, math.Inf(1)
	}
	for range 8 {
		prompts = f.left(int(decodes), 0) / f.uncached.mean
		if decodes = f.steps * prompts; decodes >= float64(f.most) {
			return 0, math.Inf(1)
		}
	}
	return prompts, decodes
}

// packed is the rate of prompts where the budget of every step is used up, +Inf where more sequences would decode than fit.
func (f *flow) packed() float64 {
	prompts, decodes := f.packing()
	if prompts == 0 {
		return math.Inf(1)
	}
	n := int(decodes)
	c := f.pass(n, f.left(n, 0), 0)
	time := c.Time
	if f.server.Scheduler.Async { // launches are hidden behind the step before, or all that there is
		time = max(c.Time-c.Waits, c.Before+c.Launch)
	}
	return prompts / float64(time)
}

// preemption is what bounds the rate of a server whose sequences outgrow the KV cache.
const preemption = "preemption"

// outgrows reports whether as many sequences as run at once may need more blocks than there are. Where the prompts of steps use up their
// budget, fewer run than fit, however many requests wait.
func (f *flow) outgrows() bool {
	switch f.server.Scheduler.Admission {
	case engine.ForPrompt, engine.ForExpected:
		_, decodes := f.packing()
		n := min(float64(f.most), decodes)
		return n*f.held+4*math.Sqrt(n*f.varies) > 1
	}
	return false
}

// capacity is the largest stable rate, with preemption: that of a saturated replica where sequences may outgrow the cache.
func (f *flow) capacity() Capacity {
	if f.stable.Rate > 0 {
		return f.stable
	}
	c := f.unpreempted()
	if !f.outgrows() {
		f.stable = c
		return c
	}
	rate := f.saturated()
	if f.ctx.Err() != nil {
		return Capacity{}
	}
	if rate < alikeRates*c.Rate {
		c.Rate, c.Bound = rate, preemption
	} else if c.Bound == "KV blocks" {
		c.Rate = min(rate, c.Rate)
	}
	f.stable = c
	return c
}

// alikeRates is the ratio from which on the rate of a saturated replica, which is known to some percent, is not called lower than another.
const alikeRates = 0.97

// capacityOf is the largest stable rate of so many replicas.
func (f *flow) capacityOf(replicas int) Capacity {
	c := f.capacity()
	c.Rate *= f.units(replicas)
	return c
}
