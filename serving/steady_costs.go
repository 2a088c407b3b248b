package serving

import (
	"math"
	"slices"

	"llmprof/analytic/operator"
)

// What steps cost beside n sequences that decode: those that only decode, and those with prompts, which take the budget of tokens that
// decodes leave (vllm/v1/core/sched/scheduler.py).

// A level is the steps beside n sequences that decode, and what they cost.
type level struct {
	n        float64
	decode   Cost
	apart    bool                   // prompts have steps of their own
	few      [counted]*prefillSteps // steps with 1, 2, 3, ... prompts; made when they are asked for
	flow     *flow
	beside   int     // sequences in a step with prompts
	handed   bool    // no prompts come, for the cache of prompts is handed over
	left     float64 // tokens of prompts that a step takes
	uncached *uncached
	kinds    []kind  // with up to some number of prompts
	extras   []added // with 0, 1, 2, ... prompts
	latest   meanStep
}

// An added is the time and energy that prompts add to a step.
type added struct{ time, energy float64 }

// A prefillSteps is the steps with some number of prompts.
type prefillSteps struct {
	kinds  []kind // those whose tokens a graph holds, and those beyond
	mean   Cost
	spread float64 // variance of the time
}

// level is the steps beside n sequences. The time of a step with prompts is nearly linear in n between powers of four; the time of a step
// that only decodes has the stairs of the sizes of CUDA graphs.
func (f *flow) level(n int) *level {
	if p, ok := f.levels[n]; ok {
		return p
	}
	p := &level{n: float64(n), flow: f, beside: n, apart: !f.server.Scheduler.Mixed && !f.handed, uncached: f.uncached, handed: f.handed}
	f.levels[n] = p
	p.decode = f.decode(n)
	if p.apart && f.peers == 1 {
		p.beside = 0
	}
	p.left = p.takes(0)
	return p
}

// takes is how many tokens of a number of prompts a step takes, where 0 stands for any number.
func (p *level) takes(prompts int) float64 { return p.flow.left(p.beside, prompts) }

// once is a step with tokens of a number of prompts, where 0 stands for any number, or with as many of them as it takes.
func (p *level) once(tokens float64, prompts int) Cost {
	if prompts > counted || p.flow.peers == 1 {
		prompts = 0
	}
	return p.flow.table(p.beside, prompts).at(min(tokens, p.takes(prompts)))
}

// all is the cost of tokens of a number of prompts, over as many steps as they take. Further steps count without their decodes, which
// would take a step of their own anyway.
func (p *level) all(tokens float64, prompts int) Cost {
	sum, most := p.once(tokens, prompts), p.takes(prompts)
	if tokens <= most {
		return sum
	}
	further := math.Ceil(tokens/most) - 1
	rest := p.once(tokens-further*most, prompts)
	more := plus(&rest, &sum, further-1)
	if !p.apart {
		more = plus(&more, &p.decode, -further)
	}
	return after(&sum, &more)
}

// prefill is the steps with a number of prompts, up to counted.
func (p *level) prefill(prompts int) *prefillSteps {
	if q := p.few[prompts-1]; q != nil {
		return q
	}
	q, limit, sums := &prefillSteps{}, p.flow.limitOf(p.beside, prompts), p.uncached.sum(prompts)
	p.few[prompts-1] = q
	var squares float64
	each, begin := 1/float64(len(sums)), 0
	for i, tokens := range sums {
		c := p.all(tokens, prompts)
		q.mean = plus(&q.mean, &c, each)
		squares += each * float64(c.Time) * float64(c.Time)
		if next := i + 1; next == len(sums) || !p.apart && (tokens > limit) != (sums[next] > limit) {
			q.kinds = append(q.kinds, p.kindOf(sums[begin:next], prompts, float64(next-begin)*each))
			begin = next
		}
	}
	if q.spread = max(squares-float64(q.mean.Time)*float64(q.mean.Time), 0); len(q.kinds) == 1 {
		q.kinds[0].spread = q.spread
	}
	return q
}

// kindOf is the steps with a number of prompts that have these equally likely tokens, which are a share of all with as many prompts.
func (p *level) kindOf(sums []float64, prompts int, share float64) kind {
	var mean Cost
	var waits []float64
	each, hold := 1/float64(len(sums)), 0.0
	for _, tokens := range sums {
		c, first := p.all(tokens, prompts), p.once(tokens, prompts)
		mean = plus(&mean, &c, each)
		hold += each * float64(first.Launch)
		waits = append(waits, float64(c.Waits))
	}
	k := newKind(&mean, prompts)
	if k.hold, k.share = hold, share; slices.Max(waits) > 0 {
		k.waits = waits
	}
	k.decodes = p.decodes(prompts)
	return k
}

// with is the mean step with k prompts, without decodes where prompts have steps of their own.
func (p *level) with(k float64) Cost {
	switch low := int(k); {
	case p.handed:
		return p.decode
	case k <= 1:
		none := p.decode
		if p.apart {
			none = Cost{}
		}
		return toward(&none, &p.prefill(1).mean, k)
	case low < counted && k == float64(low):
		return p.prefill(low).mean
	case low < counted:
		return toward(&p.prefill(low).mean, &p.prefill(low+1).mean, k-float64(low))
	}
	return p.all(k*p.uncached.mean, 0)
}

// extra is what k prompts add to a step.
func (p *level) extra(k float64) Cost {
	c := p.with(k)
	if p.apart && !p.handed {
		return c
	}
	return plus(&c, &p.decode, -1)
}

// add is what a whole number of prompts adds to a step.
func (p *level) add(k int) added {
	for i := len(p.extras); i <= k; i++ {
		c := p.extra(float64(i))
		p.extras = append(p.extras, added{float64(c.Time), float64(c.Energy)})
	}
	return p.extras[k]
}

// each is the time of a prompt where prompts fill all steps. It is 0 where steps wait for the host with prompts as without.
func (p *level) each() float64 {
	if p.handed {
		return 0
	}
	c := p.once(p.left, 0)
	time := float64(c.Time)
	if !p.apart {
		time -= float64(p.decode.Time)
	}
	return max(time, 0) * p.uncached.mean / p.left
}

// spread is the variance of the time of a step with k prompts.
func (p *level) spread(k float64) float64 {
	if p.handed {
		return 0
	}
	return p.prefill(1).spread * k
}

// prompts is what prompts add to a step, of which some are certain and m more come on average, by a Poisson distribution: the means of the
// time, of its square, and of the energy.
func (p *level) prompts(certain int, m float64) (mean, square, energy float64) {
	if m > fewPrompts { // the number hardly varies
		c := p.extra(m + float64(certain))
		t := float64(c.Time)
		more := p.extra(m + float64(certain) + 1)
		slope := float64(more.Time) - t
		return t, t*t + m*(slope*slope+p.spread(1)), float64(c.Energy)
	}
	chance, spread := math.Exp(-m), p.spread(1)
	for k := 0; k < 40; k++ {
		if k > 0 {
			chance *= m / float64(k)
		}
		a := p.add(k + certain)
		mean += chance * a.time
		square += chance * (a.time*a.time + spread*float64(k+certain))
		energy += chance * a.energy
		if float64(k) > m && chance < 1e-9 {
			break
		}
	}
	return mean, square, energy
}

// joined is the mean time that a prompt and those that came besides, m on average, add to a step.
func (p *level) joined(m float64) float64 {
	mean, _, _ := p.prompts(1, m)
	return mean
}

// further is the time that one more prompt adds to a step with m others on average.
func (p *level) further(m float64) float64 {
	mean, _, _ := p.prompts(0, m)
	return p.joined(m) - mean
}

// left is how many tokens of a step are left to prompts beside n decodes. Some are left where decodes fill the step, for the mean step has
// fewer.
func (s *Server) left(n int) float64 {
	budget := s.Scheduler.Budget
	return float64(max(budget-n*(1+s.Drafts), budget/64, 1))
}

// stepCosts are steps of a replica that were priced: by the sequences that decode, their context, the tokens of prompts, the tokens of
// these prompts that are in the cache, and the tokens of all replicas that share experts. They hold for all settings of the scheduler.
type stepCosts map[[5]float64]Cost

// before is the mean number of tokens of a prompt that are in the cache when a step computes others: those of cached prefixes, and half of
// the tokens that other steps compute.
func (f *flow) before(n int) float64 {
	return f.uncached.past + max(f.uncached.length-f.left(n, 1), 0)/2
}

// pass is a step of n decodes and tokens of a number of prompts, where 0 stands for as many as have these tokens.
func (f *flow) pass(n int, tokens float64, prompts int) Cost {
	if f.peers > 1 {
		return f.lockstep(n, tokens, prompts)
	}
	return f.replica(n, tokens, n, 0)
}

// A contextShare is a share of the sequences that decode and their mean context.
type contextShare struct{ share, context float64 }

// contextShares are the sequences that decode between the same windows, for attention is linear in the context only there.
func contextShares(windows []float64, prompt, gen Lengths, context float64) []contextShare {
	if len(windows) == 0 {
		return []contextShare{{1, context}}
	}
	all, sum := make([]contextShare, len(windows)+1), 0.0
	for past, weight := range aged(prompt, gen, 1.0/16, 3.0/16, 5.0/16, 7.0/16, 9.0/16, 11.0/16, 13.0/16, 15.0/16) {
		i := 0
		for i < len(windows) && past >= windows[i] {
			i++
		}
		all[i].share += weight
		all[i].context += weight * past
		sum += weight
	}
	all = slices.DeleteFunc(all, func(m contextShare) bool { return m.share == 0 })
	for i := range all {
		m := &all[i]
		m.share, m.context = m.share/sum, m.context/m.share
	}
	return all
}

// replica is the step of one replica with its decodes and tokens of prompts. All replicas that share its experts have n sequences, and
// together tokens in the step.
func (f *flow) replica(decodes int, tokens float64, n int, together float64) Cost {
	key := [5]float64{float64(decodes), f.context, tokens, f.before(n), together}
	if decodes == 0 {
		key[1] = 0
	}
	if tokens == 0 {
		key[3] = 0
	}
	c, ok := f.known[key]
	if !ok {
		c = f.price(decodes, tokens, key[3], together)
		f.known[key] = c
	}
	return c
}

// price prices the step of one replica, of whose prompts so many tokens are in the cache.
func (f *flow) price(decodes int, tokens, past, together float64) Cost {
	var b batch
	b.reset(len(f.prices.windows))
	b.decodes = decodes
	for _, part := range f.contexts {
		b.add(f.prices.windows, part.share*float64(decodes), part.context)
	}
	b.together = together
	if tokens > 0 {
		length := min(f.uncached.length, tokens)
		b.chunks = append(b.chunks, operator.Group{Batch: tokens / length, New: length, Past: past, Logits: 1})
	}
	if b.empty() {
		return Cost{}
	}
	c := f.prices.cost(&b, f.server.Drafts)
	d := f.server.drafting(f.draft, &b)
	return plus(&c, &d, 1)
}

// graphed finds up to how many tokens of a step, those of decodes among them, launches take less time, as CUDA graphs make them; 0 if that
// is nowhere.
func (f *flow) graphed() float64 {
	low, high := 2, f.server.Scheduler.Budget
	few, many := f.pass(1, 1, 1).Launch, f.pass(1, float64(high-1), 1).Launch
	if high <= low || few >= many.Times(0.99) {
		return 0
	}
	try := func(tokens int) {
		if f.pass(1, float64(tokens-1), 1).Launch < (few + many).Times(0.5) {
			low = tokens
		} else {
			high = tokens
		}
	}
	for _, most := range usualGraphs {
		for tokens := most; low < tokens && tokens < high && tokens <= most+1; tokens++ {
			try(tokens)
		}
	}
	for high-low > 1 {
		try((low + high) / 2)
	}
	return float64(low + f.server.Drafts) // the sequence that decodes has its drafts besides
}

// usualGraphs are the most tokens of the CUDA graphs of most engines: where the search for them begins.
var usualGraphs = [...]int{512, 1024}

// load is the mean number of prompts that come while one is computed.
func (p *level) load(rate float64) float64 {
	if p.handed {
		return 0
	}
	m := rate * float64(p.decode.Time)
	return min(max(rate*p.further(m), 0), 0.95)
}

// decode is a step that decodes n sequences and has no prompts.
func (f *flow) decode(n int) Cost {
	if n == 0 {
		return Cost{}
	}
	return f.pass(n, 0, 0)
}
