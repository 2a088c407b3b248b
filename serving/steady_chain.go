package serving

import (
	"math"

	"llmprof/unit"
)

// A cycle is the steps of a replica while n of its sequences decode and prompts come at a rate: means over the stationary distribution of
// the Markov chain of its steps.
type cycle struct {
	mean     float64 // length of a step
	decode   float64 // time in which a sequence that decodes has a step; longer than mean where prompts have steps of their own
	energy   float64 // in that time
	plain    float64 // share of the steps that only decode
	load     float64 // mean number of prompts that come while one is computed
	first    float64 // from the arrival of a prompt at the engine until the host has its token
	computes float64 // part of first from the begin of the prompt's step to its end
	excess   float64 // by how much longer than others the steps after the prompt's own are, in all
	unstable bool    // prompts come faster than they are computed
}

// A kind is the steps with the same number of prompts whose launches are alike. Where prompts take several steps these are one, without
// the decodes of the further ones.
type kind struct {
	prompts                      int
	time, before, launch, energy float64
	hold                         float64   // launch of the first of its steps, during which the host keeps the tokens of the step before
	waits                        []float64 // equally likely times for which kernels wait for launches, for prompts differ
	share                        float64   // of the steps with this number of prompts
	spread                       float64   // variance of the time
	decodes                      float64   // time of the decodes in the steps that its prompts take beyond the first
	group                        int       // of the chain's groups
}

// run is the mean length of a step that was formed a lead before its begin, and the time from its begin until the host has launched it, by
// the law of replica.run.
func (k *kind) run(lead float64) (length, late float64) {
	lead -= k.before
	if len(k.waits) == 1 {
		length = k.time - unit.Smaller(lead, k.waits[0])
	} else {
		for _, waits := range k.waits {
			length += unit.Smaller(lead, waits)
		}
		length = k.time - length/float64(len(k.waits))
	}
	return length, unit.Smaller(unit.Larger(k.launch-lead, 0), length)
}

// fewPrompts is the mean number of prompts of a step up to which the chain is solved: greater numbers hardly vary.
const fewPrompts = 12

// A chain is the Markov chain of the steps beside n sequences that decode. Its state is the kind of a step and the group of the step
// before it. That group says how far ahead the step was formed, and both say over which window the prompts of the next step come. Their
// number has a Poisson distribution, or that of renewals where a router gives requests to replicas in turn.
type chain struct {
	*buffers
	async  bool
	peers  int // replicas that share experts
	stages int // stages of the Erlang distribution of the intervals between prompts; 1 for Poisson arrivals
	rate   float64
	out    float64     // time of the API server for the tokens of a step
	idle   float64     // power of a GPU that waits
	echo   float64     // what a longer step adds to all later steps over what it adds to the next
	kinds  []kind      // by their number of prompts
	shares [][]float64 // of the steps of each kind after one of each group
	next   [][]float64
}

// buffers are memory that one chain after another uses.
type buffers struct {
	groups  []group
	of      []int // the group of each kind
	starts  []int // the first kind with 0, 1, 2, ... prompts
	chances []float64
	numbers []float64
	phases  phases
}

// cycle is the cycle of a level at a rate of prompts, which is kept for the rate that was asked for last.
func (f *flow) cycle(p *level, rate float64) *cycle {
	if rate == f.rate {
		if y := f.cycles[p]; y != nil {
			return y
		}
	} else {
		clear(f.cycles)
		f.rate = rate
	}
	y := f.solve(p, rate, true)
	y.load = p.load(rate)
	f.cycles[p] = y
	return y
}

// solve works out the cycle, of which it leaves out what an arriving prompt meets unless that is asked for.
func (f *flow) solve(p *level, rate float64, meets bool) *cycle {
	mean, ok := p.mean(rate)
	switch {
	case !ok:
		return &cycle{unstable: true, mean: math.Inf(1), decode: math.Inf(1)}
	case rate*mean > fewPrompts:
		return f.many(p, rate, mean)
	}
	x := f.chain(p, rate, mean)
	x.solve()
	y, all := x.means(p)
	if meets {
		x.meets(y, all)
	}
	return y
}

// toward is the cycle at a share x of the line from one cycle to another.
func (y *cycle) toward(z *cycle, x float64) cycle {
	if y.unstable || z.unstable {
		return cycle{unstable: true, load: y.load}
	}
	line := func(a, b float64) float64 { return a + x*(b-a) }
	return cycle{
		mean: line(y.mean, z.mean), decode: line(y.decode, z.decode), energy: line(y.energy, z.energy), plain: line(y.plain, z.plain),
		load:  line(y.load, z.load),
		first: line(y.first, z.first), computes: line(y.computes, z.computes), excess: line(y.excess, z.excess),
	}
}

// mostPrompts is how many prompts of a step stand for more than a server computes.
const mostPrompts = 1 << 12

// A meanStep is the mean length of a step at a rate, if it has one.
type meanStep struct {
	rate, length float64
	ok           bool
}

// mean is the mean length of a step, which is kept for the rate that was asked for last.
func (p *level) mean(rate float64) (c float64, ok bool) {
	if p.latest.rate != rate {
		p.latest.rate = rate
		p.latest.length, p.latest.ok = p.settles(rate)
	}
	return p.latest.length, p.latest.ok
}

// settles is the fixed point of a step's length: as long as the mean prompts that come in that time make it.
func (p *level) settles(rate float64) (c float64, ok bool) {
	d := float64(p.decode.Time)
	if c = d; d == 0 {
		return p.add(1).time, true
	}
	longer := func(c float64) float64 { // further steps may hide more launches than they take
		time, _, _ := p.prompts(0, rate*c)
		return d + max(time, 0)
	}
	for i := 0; ; i++ {
		next := longer(c)
		if math.Abs(next-c) < 1e-6*c {
			return next, true
		}
		if i > 100 || rate*next > mostPrompts {
			return 0, false
		}
		// Two steps of the iteration say where it goes (Aitken).
		after := longer(next)
		if bend := after - 2*next + c; bend < 0 {
			c = min(max(c-(next-c)*(next-c)/bend, next), mostPrompts/rate)
		} else {
			c = after
		}
	}
}

// many is the cycle where steps have many prompts: the queue with gated service, whose steps vary as by Takagi (Analysis of Polling
// Systems, 1986).
func (f *flow) many(p *level, rate, c float64) *cycle {
	d := float64(p.decode.Time)
	time, times, energy := p.prompts(0, rate*c)
	load := min(rate*p.further(rate*c), 0.999)
	window := c + max(times-time*time, 0)/(1-load*load)/c // that an arrival falls into
	y := &cycle{mean: c, decode: c, energy: float64(p.decode.Energy) + energy}
	own := p.joined(rate * window)
	if y.computes = own; !p.apart {
		y.computes += d
	}
	more, _, _ := p.prompts(0, rate*(d+own))
	y.excess = max(more-time, 0)
	if y.first = window/2 + y.computes; f.server.Scheduler.Async {
		y.first += c
	}
	return y
}

func (f *flow) chain(p *level, rate, mean float64) *chain {
	m := rate * mean
	x := &chain{buffers: &f.buffers, async: f.server.Scheduler.Async, peers: int(f.peers), stages: f.stages, rate: rate, out: f.out(p.n),
		idle: float64(f.idle()), echo: f.echo(min(rate*p.further(m), 0.999))}
	x.kinds = p.kindsUpTo(int(2*m+6*math.Sqrt(m)) + 3)
	x.gather(m)
	if x.stages > 1 {
		x.phases.begin(len(x.groups), x.stages)
	}
	n, groups := len(x.kinds), len(x.groups)
	rows := matrix(&x.numbers, 2*groups+1, n)
	x.shares, x.next = rows[:groups], rows[groups:2*groups]
	mass := rows[2*groups]
	x.add(mass, x.come(0, m), 1)
	for i, share := range mass {
		x.groups[x.kinds[i].group].share += share
	}
	for i, row := range x.shares {
		for j, share := range mass {
			row[j] = x.groups[i].share * share
		}
	}
	x.balance()
	return x
}

// echo is what a longer step adds to all later steps of a sequence over what it adds to the next: a geometric series, for the prompts that
// come in the longer step lengthen the next one by the load times as much, or the next but one where steps are formed ahead. Where further
// prompts shorten a step the load is negative, and the series is taken to its end.
func (f *flow) echo(load float64) float64 {
	steps := f.steps
	if f.server.Scheduler.Async {
		steps /= 2
	}
	return (1 - math.Pow(max(load, 0), max(steps, 1))) / (1 - load)
}

// kindsUpTo are the kinds of steps with up to most prompts, which are the same at all rates.
func (p *level) kindsUpTo(most int) []kind {
	if len(p.kinds) == 0 {
		p.kinds = append(p.kinds, newKind(&p.decode, 0))
	}
	for k := p.kinds[len(p.kinds)-1].prompts + 1; k <= most; k++ {
		p.kinds = append(p.kinds, p.kindsOf(k)...)
	}
	end := len(p.kinds)
	for p.kinds[end-1].prompts > most {
		end--
	}
	return p.kinds[:end]
}

// kindsOf are the kinds of steps with a number of prompts.
func (p *level) kindsOf(prompts int) []kind {
	if !p.handed && prompts <= counted {
		return p.prefill(prompts).kinds
	}
	c := p.with(float64(prompts))
	k := newKind(&c, prompts)
	k.decodes = p.decodes(prompts)
	return []kind{k}
}

// decodes is the time of the decodes in the steps that k prompts take beyond the first.
func (p *level) decodes(k int) float64 {
	if p.apart || p.handed {
		return 0
	}
	steps := math.Ceil(float64(k)*p.uncached.mean/p.takes(k)) - 1
	return max(steps, 0) * float64(p.decode.Time)
}

func newKind(c *Cost, prompts int) kind {
	launch := float64(c.Launch)
	return kind{prompts: prompts, time: float64(c.Time), before: float64(c.Before), launch: launch, hold: launch, energy: float64(c.Energy),
		waits: []float64{float64(c.Waits)}, share: 1}
}

// matrix is rows of zeros in a buffer, which grows as it has to.
func matrix(buffer *[]float64, n, columns int) [][]float64 {
	if len(*buffer) < n*columns {
		*buffer = make([]float64, 2*n*columns)
	}
	all := (*buffer)[:n*columns]
	clear(all)
	rows := make([][]float64, n)
	for i := range rows {
		rows[i] = all[i*columns : (i+1)*columns]
	}
	return rows
}
