package serving

import (
	"math"

	"llmprof/unit"
)

// A cycle is the steps of a replica while n of its sequences decode and prompts come at a rate: means over the stationary distribution of a Markov
// chain.
type cycle struct {
	mean     float64 // of a step
	decode   float64 // time in which a sequence that decodes has a step; longer than mean where prompts have steps of their own
	energy   float64 // in that time
	plain    float64 // share of the steps that only decode
	load     float64 // mean number of prompts that come while one is computed
	first    float64 // from the arrival of a prompt at the engine until the host has its token
	own      float64 // part of first from the begin of the prompt's step
	computes float64 // part of own until the step ends
	behind   float64 // by how much longer than others the steps after the prompt's own are, in all
	kinds    []kind
	infinite bool // prompts come faster than they are computed
}

// A kind is the steps with the same number of prompts: means.
type kind struct {
	share  float64 // of all steps
	length float64
	late   float64 // time from its begin until the next step is formed
}

// A timed is a kind of steps with its times: those with the same backlog whose launches are alike.
type timed struct {
	time, before, launch, energy float64
	waits                        []float64 // equally likely times for which kernels wait for launches, for prompts differ
	backlog                                // prompts that wait when the step is formed
	share                        float64   // of the steps with this backlog
	spread                       float64   // variance of the time
	decodes                      float64   // time of the decodes in the steps that its prompts take beyond the first
	carried                      []carried // what the step leaves to the next; nil if nothing
	group                        int       // of the chain's groups
}

// A backlog is the prompts that wait when a step is formed: whole ones, and perhaps the rest of one that was begun.
type backlog struct {
	prompts int
	rest    bool
}

// waiting is how many prompts wait, one that was begun among them.
func (b *backlog) waiting() int { return b.prompts + b.begun() }

// A carried is a backlog that a full step leaves, and how likely.
type carried struct {
	backlog
	chance float64
}

// run is the mean length of a step that was formed a lead before its begin, and the time from its begin until the host has launched it, by the law of
// replica.run.
func (t *timed) run(lead float64) (length, late float64) {
	lead -= t.before
	if len(t.waits) == 1 {
		length = t.time - unit.Smaller(lead, t.waits[0])
	} else {
		for _, waits := range t.waits {
			length += unit.Smaller(lead, waits)
		}
		length = t.time - length/float64(len(t.waits))
	}
	return length, unit.Smaller(unit.Larger(t.launch-lead, 0), length)
}

// few is the mean number of prompts of a step up to which the chain is solved: greater numbers hardly vary.
const few = 12

// A chain is the Markov chain of the steps beside n sequences that decode. Its state is the kind of a step and the group of the step before it. That
// group says how far ahead the step was formed, and both say over which window the prompts of the next step come. Their number has a Poisson
// distribution, or that of renewals where a router gives requests to replicas in turn.
type chain struct {
	*buffers
	async  bool
	peers  int // replicas that share experts
	stages int // stages of the Erlang distribution of the intervals between prompts; 1 for Poisson arrivals
	rate   float64
	out    float64     // time of the API server for the tokens of a step
	idle   float64     // power of a GPU that waits
	echo   float64     // what a longer step adds to all later steps over what it adds to the next
	steps  []timed     // the kinds, by their number of prompts; those with the rest of one besides come last
	ends   [2]int      // the last kind without and with the rest of a prompt
	shares [][]float64 // of the steps of each kind after one of each group
	next   [][]float64
	full   *fullSteps // nil where steps have room for all prompts
}

// buffers are memory that one chain after another uses.
type buffers struct {
	groups  []group
	of      []int        // the group of each kind
	starts  [2][]int     // the first kind with 0, 1, 2, ... prompts, without and with the rest of one
	left    [2][]float64 // the steps that leave backlogs of 0, 1, 2, ... prompts, without and with the rest of one
	chances []float64
	numbers []float64
	phases  phases
}

// cycle is the cycle of a piece at a rate of prompts, which is kept for the rate that was asked for last.
func (f *flow) cycle(p *piece, rate float64) *cycle {
	if rate == f.rate {
		if y := f.cycles[p]; y != nil {
			return y
		}
	} else {
		clear(f.cycles)
		f.rate = rate
	}
	y := f.solve(p, rate)
	y.load = p.load(rate)
	if !y.infinite {
		y.behind = min(y.behind, p.longest(rate, y.computes))
	}
	f.cycles[p] = y
	return y
}

func (f *flow) solve(p *piece, rate float64) *cycle {
	mean, ok := p.mean(rate)
	switch {
	case !ok:
		return &cycle{infinite: true, mean: math.Inf(1), decode: math.Inf(1)}
	case rate*mean > few:
		return f.many(p, rate, mean)
	}
	x := f.chain(p, rate, mean)
	x.solve()
	y, all := x.means(p)
	x.meets(y, all)
	return y
}

// pace is the mean time between two tokens of a sequence; +Inf where prompts come faster than they are computed.
func (f *flow) pace(p *piece, rate float64) float64 {
	mean, ok := p.mean(rate)
	switch {
	case !ok:
		return math.Inf(1)
	case rate*mean > few:
		return mean
	}
	x := f.chain(p, rate, mean)
	x.solve()
	y, _ := x.means(p)
	return y.decode
}

// toward is the cycle at a share x of the line from one cycle to another, without the kinds.
func (y *cycle) toward(z *cycle, x float64) cycle {
	if y.infinite || z.infinite {
		return cycle{infinite: true, load: y.load}
	}
	line := func(a, b float64) float64 { return a + x*(b-a) }
	return cycle{
		mean: line(y.mean, z.mean), decode: line(y.decode, z.decode), energy: line(y.energy, z.energy), plain: line(y.plain, z.plain), load: line(y.load, z.load),
		first: line(y.first, z.first), own: line(y.own, z.own), computes: line(y.computes, z.computes), behind: line(y.behind, z.behind),
	}
}

// mostPrompts is how many prompts of a step stand for more than a server computes.
const mostPrompts = 1 << 12

// mean is the fixed point of a step's length: as long as the mean prompts that come in that time make it.
func (p *piece) mean(rate float64) (c float64, ok bool) {
	d := float64(p.decode.Time)
	switch c = d; {
	case d == 0:
		return p.longer(1), true
	case !p.handed && p.room <= few:
		return p.filled(rate)
	}
	longer := func(c float64) float64 { // further steps may hide more launches than they take
		time, _, _ := p.prompts(rate * c)
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

// many is the cycle where steps have many prompts: the queue with gated service, whose steps vary as by Takagi (Analysis of Polling Systems, 1986).
func (f *flow) many(p *piece, rate, c float64) *cycle {
	d := float64(p.decode.Time)
	time, times, energy := p.prompts(rate * c)
	load := min(rate*p.further(rate*c), 0.999)
	window := c + max(times-time*time, 0)/(1-load*load)/c // that an arrival falls into
	own := p.joined(rate * window)
	more, _, _ := p.prompts(rate * (d + own))
	y := &cycle{mean: c, decode: c, energy: float64(p.decode.Energy) + energy, behind: max(more-time, 0)}
	if y.own = own; !p.apart {
		y.own += d
	}
	y.first, y.computes = window/2+y.own, y.own
	y.kinds = []kind{{share: 1, length: c, late: c}}
	if f.server.Scheduler.Async {
		y.first += c
		y.kinds[0].late = 0
	}
	return y
}

func (f *flow) chain(p *piece, rate, mean float64) *chain {
	m := rate * mean
	x := &chain{buffers: &f.buffers, async: f.server.Scheduler.Async, peers: int(f.peers), stages: f.stages, rate: rate, out: f.out(p.n), idle: float64(f.idle()), echo: f.echo(min(rate*p.further(m), 0.999))}
	if p.overflows(m) {
		x.steps, x.full = p.overflowing(m), &fullSteps{piece: p}
	} else {
		x.steps = p.timed(int(2*m+6*math.Sqrt(m)) + 3)
	}
	x.gather(m)
	if x.stages > 1 {
		x.phases.begin(len(x.groups), x.stages)
	}
	n, groups := len(x.steps), len(x.groups)
	rows := matrix(&x.numbers, 2*groups+1, n)
	x.shares, x.next = rows[:groups], rows[groups:2*groups]
	mass := rows[2*groups]
	x.add(mass, backlog{}, x.come(0, m), 1)
	for i, share := range mass {
		x.groups[x.steps[i].group].share += share
	}
	for i, row := range x.shares {
		for j, share := range mass {
			row[j] = x.groups[i].share * share
		}
	}
	x.balance()
	return x
}

// echo is what a longer step adds to all later steps of a sequence over what it adds to the next: a geometric series, for the prompts that come in the
// longer step lengthen the next one by the load times as much, or the next but one where steps are formed ahead. Where further prompts shorten a step
// the load is negative, and the series is taken to its end.
func (f *flow) echo(load float64) float64 {
	steps := f.steps
	if f.server.Scheduler.Async {
		steps /= 2
	}
	return (1 - math.Pow(max(load, 0), max(steps, 1))) / (1 - load)
}

// timed are the kinds of steps with up to most prompts, which are the same at all rates.
func (p *piece) timed(most int) []timed {
	if len(p.kinds) == 0 {
		p.kinds = append(p.kinds, newTimed(&p.decode, backlog{}, 1))
	}
	for k := p.kinds[len(p.kinds)-1].prompts + 1; k <= most; k++ {
		p.kinds = append(p.kinds, p.timedWith(k)...)
	}
	end := len(p.kinds)
	for p.kinds[end-1].prompts > most {
		end--
	}
	return p.kinds[:end]
}

// timedWith are the kinds of steps with k prompts.
func (p *piece) timedWith(k int) (all []timed) {
	if p.handed || k > counted {
		c := p.with(float64(k))
		all = append(all, newTimed(&c, backlog{prompts: k}, 1))
	} else {
		all = p.prefill(k).timed(backlog{prompts: k}, 1)
	}
	for i := range all {
		all[i].decodes = p.decodes(k)
	}
	return all
}

// timed are the kinds of the steps, which are a share of those with a backlog.
func (q *prefillSteps) timed(b backlog, share float64) (all []timed) {
	for i := range q.kinds {
		t := newTimed(&q.kinds[i].cost, b, share*q.kinds[i].of)
		if len(q.kinds) == 1 {
			t.spread = q.spread
		}
		if q.kinds[i].waits != nil {
			t.waits = q.kinds[i].waits
		}
		all = append(all, t)
	}
	return all
}

// decodes is the time of the decodes in the steps that k prompts take beyond the first.
func (p *piece) decodes(k int) float64 {
	if p.apart || p.handed {
		return 0
	}
	steps := math.Ceil(float64(k)*p.fills.mean/p.takes(k)) - 1
	return max(steps, 0) * float64(p.decode.Time)
}

func newTimed(c *Cost, b backlog, share float64) timed {
	return timed{
		time: float64(c.Time), waits: []float64{float64(c.Waits)}, before: float64(c.Before), launch: float64(c.Launch), energy: float64(c.Energy),
		backlog: b, share: share,
	}
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
