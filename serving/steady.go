package serving

import (
	"fmt"
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/unit"
)

// A Steady is the steady state of a server under a load, without a simulation.
//
// Sequences that decode share each step, so that all of them progress at the same rate:
// they are a processor-sharing queue whose rate depends on how many there are. Its
// distribution has a product form that no distribution of the lengths changes but their mean
// (Kelly, Reversibility and Stochastic Networks, 1979, section 3.3). With n sequences a step
// takes
//
//	c(n) = d(n) + Σ P(k; rate × c(n)) × e(n, k)
//
// d(n) being the step that only decodes, e(n, k) by how much longer it takes with k prompts,
// and P the Poisson distribution of how many came during the step before. If requests decode
// for s steps, n sequences have the weight Π rate × s × c(i) / i.
type Steady struct {
	Running     float64      // sequences that decode, of all replicas
	Waiting     float64      // requests without their first token
	TTFT        unit.Seconds // means
	TPOT        unit.Seconds
	E2E         unit.Seconds
	Rate        float64 // requests a second
	Throughput  float64 // generated tokens a second
	Utilization float64 // share of the time in which a replica runs a step
	Cache       float64 // share of the KV blocks
	Energy      unit.Joules
	Cost        unit.Dollars // of a request; 0 where no price is known
	Capacity    Capacity

	beside float64 // share of a replica's KV blocks of requests that do not decode yet, or no more
}

// A Capacity is the largest rate that is stable, and what bounds it.
type Capacity struct {
	Rate    float64
	Bound   string // "compute", "KV blocks", "preemption", "sequences", "prefill" or "API server"
	Running int    // sequences of one replica that fit at once
}

// nearFull is the share of the largest stable rate beyond which a KV cache that fills at times makes TTFT uncertain.
const nearFull = 0.85

// Warning says what makes a steady state uncertain; "" if nothing does.
func (st *Steady) Warning() string {
	c := &st.Capacity
	if st.Rate <= nearFull*c.Rate || c.Bound != preemption && c.Bound != "KV blocks" {
		return ""
	}
	return fmt.Sprintf("%.3g requests/s are %.0f %% of the largest stable rate: the KV cache is full at times, and rare long queues are much of the mean TTFT, which may be several times as long; llmprof simulate --rate has them",
		st.Rate, 100*st.Rate/c.Rate)
}

// SteadyRate is the steady state with Poisson arrivals at a rate. A rate that is not stable
// is an error that names the largest that is.
func (s *Server) SteadyRate(rate float64, prompt, gen Lengths) (*Steady, error) {
	all, err := s.Steadies(prompt, gen)
	if err != nil {
		return nil, err
	}
	return all.Rate(rate, Layout{s.Replicas, s.Prefillers, s.Link})
}

// SteadyConcurrency is the steady state of a closed loop of clients that have one request
// each at a time.
func (s *Server) SteadyConcurrency(clients int, prompt, gen Lengths) (*Steady, error) {
	if s.Prefillers > 0 {
		return nil, fmt.Errorf("%d replicas that prefill: the steady state of clients that wait has no closed form; simulate it", s.Prefillers)
	}
	all, err := s.Steadies(prompt, gen)
	if err != nil {
		return nil, err
	}
	st, err := all.Concurrency(clients, s.Replicas)
	if err == nil {
		st.Capacity, err = all.Capacity(Layout{Replicas: s.Replicas})
	}
	return st, err
}

// among makes a state of replicas that have clients one of all replicas, of which they are a share.
func (st *Steady) among(share float64, idle unit.Watts) {
	st.Energy += idle.For(unit.Seconds((1 - share) / (share * st.Rate)))
	st.Rate, st.Utilization, st.Running, st.Waiting, st.beside = st.Rate*share, st.Utilization*share, st.Running*share, st.Waiting*share, st.beside*share
}

// A flow is what the steady state of one replica is worked out from, or of all those that share its experts: their steps run side by side, so
// that a prompt of one lengthens the steps of all.
type flow struct {
	server  *Server
	peers   float64 // replicas that share experts; 1 if none do
	front   frontend
	prices  *prices
	draft   *prices
	steps   float64 // that a sequence decodes for
	gen     float64
	inverse float64 // mean of 1/(gen-1), over that of the mean
	older   float64 // share of the sequences that are older than one that ends
	context float64 // of a sequence that decodes, mean over time
	fills   *fills
	most    int // sequences at once
	bound   string
	held    float64  // share of the KV blocks of a sequence that decodes, mean over time
	begins  float64  // of one whose prompt is computed
	ends    float64  // of one that ends
	varies  float64  // variance of held among sequences
	limits  Capacity // without preemption; zero if not worked out yet
	stable  Capacity // with preemption; zero if not worked out yet
	spread  float64  // variance of the answers' lengths over the square of their mean
	stages  int      // of the intervals between arrivals
	shorter float64  // mean of the shorter of two answers over the mean of one
	clients bool     // requests come from clients that wait for answers
	handed  bool     // sequences come with the cache of their prompts
	graphs  float64  // up to how many tokens of a step graphs launch it
	pieces  map[int]*piece
	tables  map[[2]int]*tokenCosts
	decodes map[int]Cost // steps that only decode
	known   stepCosts    // that flows of the same predictor, prompts and drafts share
	prompts Lengths
	answers Lengths
	rate    float64 // that the cycles are of
	cycles  map[*piece]*cycle
	buffers buffers // of the chain that is being solved
}

const quantiles = 16

func (s *Server) flow(prompt, gen Lengths) (*flow, error) {
	return s.flowWith(prompt, gen, stepCosts{})
}

// flowWith is flow where some steps were priced already.
func (s *Server) flowWith(prompt, gen Lengths, known stepCosts) (*flow, error) {
	if err := s.Serves(prompt, gen); err != nil {
		return nil, err
	}
	f := &flow{server: s, peers: s.peers(), front: s.frontend(), prices: newPrices(s.Predictor, s.Scheduler.Pass, s.Drafts > 0), pieces: map[int]*piece{}, tables: map[[2]int]*tokenCosts{}, decodes: map[int]Cost{}, cycles: map[*piece]*cycle{}, known: known}
	f.prompts, f.answers = prompt, gen
	f.prices.once = true
	if s.Drafter != nil {
		f.draft = newPrices(s.Drafter, 0, false)
		f.draft.once = true
	}
	mean, square := gen.moments()
	f.gen, f.steps = mean, (mean-1)/s.yields()
	f.spread = square/(mean*mean) - 1
	f.inverse, f.older, f.shorter, f.stages = gen.inverse(), gen.older(), gen.shorter(), 1
	f.context = prompt.MeanLength() + square/(2*mean)
	f.fills = newFills(s, prompt.Quantiles())
	f.graphs = f.graphed()
	f.limit(s.room(), prompt, gen)
	f.begins *= f.lengthens()
	return f, nil
}

// Serves returns why the server cannot answer requests of these lengths, if it cannot.
func (s *Server) Serves(prompt, gen Lengths) error {
	if err := s.Check(); err != nil {
		return err
	}
	if err := prompt.check("prompt"); err != nil {
		return err
	}
	if err := gen.check("generated"); err != nil {
		return err
	}
	if longest := s.longest(s.room()); prompt.MeanLength()+gen.MeanLength() > float64(longest) {
		return fmt.Errorf("requests of %g + %g tokens do not fit: the longest that does has %d, prompt and answer", prompt.MeanLength(), gen.MeanLength(), longest)
	}
	return nil
}

// lengthens is the mean of the blocks that prompts hold while they are computed, over those of a whole prompt of mean length: longer ones
// take longer, and one that takes several steps has its blocks step by step.
func (f *flow) lengthens() float64 {
	p, sum, weighted := f.piece(0), 0.0, 0.0
	for _, tokens := range f.fills.sum(1) {
		time, steps := float64(p.all(tokens, 1).Time), max(tokens/p.takes(1), 1)
		sum, weighted = sum+time, weighted+time*tokens/f.fills.mean*(steps+1)/(2*steps)
	}
	return weighted / sum
}

// limit works out how many sequences are held at once, and why no more.
func (f *flow) limit(r *room, prompt, gen Lengths) {
	s := f.server
	f.held = float64(r.of(int(f.context))) / float64(r.blocks)
	f.begins = float64(r.of(int(prompt.MeanLength()))) / float64(r.blocks)
	f.ends = float64(r.of(int(prompt.MeanLength()+gen.MeanLength()))) / float64(r.blocks)
	share := f.held
	if s.Scheduler.Admission == engine.ForAll {
		share = f.ends
	}
	f.most, f.bound = int(1/share), "KV blocks"
	if s.Scheduler.MaxSeqs <= f.most {
		f.most, f.bound = s.Scheduler.MaxSeqs, "sequences"
	}
	f.most = max(f.most, 1) * int(f.peers)
	f.held, f.begins, f.ends = f.held/f.peers, f.begins/f.peers, f.ends/f.peers
	f.varies = varies(r, prompt, gen) / (f.peers * f.peers)
}

// varies is the variance of the share of the KV blocks that a sequence holds which decodes: answers are met in proportion to their length, at any of their tokens.
func varies(r *room, prompt, gen Lengths) float64 {
	const ages = 4
	var all, sum, squares float64
	for _, p := range prompt.Quantiles() {
		for _, g := range gen.Quantiles() {
			for i := range ages {
				held := float64(r.of(p+g*(2*i+1)/(2*ages))) / float64(r.blocks)
				all, sum, squares = all+float64(g), sum+float64(g)*held, squares+float64(g)*held*held
			}
		}
	}
	mean := sum / all
	return max(squares/all-mean*mean, 0)
}

// open is the steady state at a rate; nil where it has none, as where the
// sequences that decode leave prompts too little of a step.
func (f *flow) open(rate float64) *Steady {
	st := &Steady{Rate: rate}
	weights, cycles := f.weights(rate)
	if weights == nil {
		return nil
	}
	var running, power, ttft float64
	behind := 0.0 // by how much longer the decode steps after a prompt are
	for n, w := range weights {
		if w == 0 {
			continue
		}
		at := min(n, f.most)
		running += float64(at) * w
		m := f.moment(at, rate, cycles[at])
		st.Utilization += w * m.busy
		power += w * m.power
		ttft += w * m.first
		behind += w * m.behind
		st.beside += w * rate * f.beside(m.own, m.step)
	}
	if st.TTFT = unit.Seconds(ttft + f.queued(rate, weights, cycles)/rate); !f.handed {
		st.TTFT += f.server.Predictor.RequestTime()
	}
	if f.steps > 0 {
		st.Running = running + rate*behind
		st.TPOT = unit.Seconds((st.Running/rate + behind*(f.inverse-1)) / max(f.gen-1, 1))
	}
	st.E2E = st.TTFT + unit.Seconds(st.Running/rate)
	st.Energy = unit.Joules(power / rate)
	st.Waiting = rate * float64(st.TTFT) // by Little's law
	return st
}

// A moment is the replica while some number of its sequences decode.
type moment struct {
	busy   float64 // share of the time
	power  float64
	first  float64 // from the arrival of a request to its first token
	own    float64 // of that, the step of its prompt
	step   float64
	behind float64
}

// moment is the replica while n sequences decode.
func (f *flow) moment(n int, rate float64, c *cycle) moment {
	idle := float64(f.idle())
	switch {
	case n == 0 && f.handed:
		return moment{power: idle}
	case n == 0:
		return f.wakes(rate)
	case f.handed: // its first token is known already
		wait := c.mean / 2
		if f.server.Scheduler.Async {
			wait += c.mean
		}
		return moment{busy: 1, power: c.energy / c.decode, first: wait, step: c.mean}
	}
	return moment{busy: 1, power: c.energy / c.decode, first: c.first + f.out(float64(n)), own: c.computes, step: c.mean, behind: c.behind}
}

// A first is the prompt that comes to a replica without work, and those that came meanwhile, each with those that came while
// it was computed.
type first struct{ time, energy, further, furtherEnergy float64 }

// first works out the prompt of a replica without work.
func (f *flow) first(rate float64) first {
	window := rate * float64(analytic.Window)
	one := rested(f.piece(0).extra(1), (1-math.Exp(-window))/window) // the mean share of the window before an arrival
	next := f.piece(min(int(math.Ceil(f.steps)), 1))
	m := rate * float64(one.Time)
	further, energy := next.promptsAfter(m)
	left := 1 - f.piece(1).load(rate)
	return first{float64(one.Time), float64(one.Energy), max(further, 0) / left, energy / left}
}

// wakes is the replica while none of its sequences decodes, and while it computes the prompts that came to it then.
func (f *flow) wakes(rate float64) moment {
	a := f.first(rate)
	time := a.time + a.further
	busy := rate * time / (1 + rate*time)
	own := busy*f.piece(0).joined(rate*a.time) + (1-busy)*a.time
	left := (a.time*a.time + a.further*a.further) / (2 * time) // of the step that an arrival finds
	m := moment{busy: busy, power: busy*(a.energy+a.furtherEnergy)/time + (1-busy)*float64(f.idle()), first: busy*left + own, own: own}
	if f.steps > 0 { // prompts that came meanwhile are computed beside its first tokens, as those that come later are anyway
		next := f.piece(1)
		m.behind = max(next.after(rate, own, float64(next.decode.Time)), 0) * f.echo(min(max(rate*next.further(rate*own), 0), 0.999))
		m.behind = min(m.behind, next.longest(rate, own))
	}
	return m
}

// longest is by how much longer than others the steps of a sequence are at most, for the prompts that came while its own was computed:
// none of them is more than full, and where scheduling is asynchronous the first was formed when the last step of the prompt had been launched.
func (p *piece) longest(rate, own float64) float64 {
	if p.apart || p.handed {
		return math.Inf(1)
	}
	full, first := p.following(p.full()), own
	if p.async {
		first = min(max(own-float64(full.Time), 0)+float64(full.Launch), own)
	}
	some := func(time float64) float64 { return 1 - math.Exp(-rate*time) } // come
	return max(float64(full.Time-p.decode.Time), 0) * (min(p.flow.steps, 1)*some(first) + max(p.flow.steps-1, 0)*some(own))
}

// queued is how many requests wait because as many sequences run as can: the mean over how many that is, for sequences hold more blocks or fewer.
func (f *flow) queued(rate float64, weights []float64, cycles []*cycle) (sum float64) {
	off := 0.0
	if f.outgrows() {
		off = math.Sqrt(3*float64(f.most)*f.varies) / f.held
	}
	if float64(len(weights)) <= float64(f.most)-off {
		return 0
	}
	if off < 0.5 {
		return f.queuedAt(f.most, rate, weights, cycles)
	}
	for i, share := range [...]float64{1. / 6, 2. / 3, 1. / 6} { // three points of a normal distribution
		sum += share * f.queuedAt(max(f.most+int(math.Round(off*float64(i-1))), 1), rate, weights, cycles)
	}
	return sum
}

// queuedAt is queued where as many sequences as most run at once. While prompts are computed no sequence ends, so that those
// that come meanwhile are a group, and one more runs. The waiting time is that of service times with an exponential
// distribution; Cosmetatos (1976) has that of constant ones, and those between are on a line.
func (f *flow) queuedAt(most int, rate float64, weights []float64, cycles []*cycle) float64 {
	if len(weights) <= most {
		return 0
	}
	first, load := slices.IndexFunc(weights, func(w float64) bool { return w > 0 }), 0.0
	full, up, sum, ratio := 1.0, 1.0, 1.0, 0.0
	for n := first + 1; n <= most; n++ {
		c := cycles[min(n, f.most)]
		ratio, load = rate*f.steps*c.decode/float64(n), c.load
		full = f.birth(n, ratio*float64(n)) * up
		up = full*(1-load) + load*up
		if sum += full; sum > 1e200 {
			full, up, sum = full*1e-200, up*1e-200, sum*1e-200
		}
	}
	if f.outgrows() && full/sum > unlikely {
		ratio = max(ratio, rate/f.capacity().Rate)
	}
	ratio = min(ratio, 0.999)
	more := 1 - (ratio*(1-load) + load) // each further request that waits is less likely by so much
	beyond := ratio * up / more
	sum += beyond
	n := float64(most)
	constant := min((1+(1-ratio)*(n-1)*(math.Sqrt(4+5*n)-2)/(16*ratio*n))/2, 1)
	spread := min(f.spread, 1)
	even := (1/float64(f.stages) + spread) / (1 + spread) // arrivals in turn wait for less
	return even*beyond/more/sum*(constant+spread*(1-constant)) + load*(full+beyond)/sum
}

// beside is the KV blocks' share times the time for which a request has them and does not decode: in the step of its prompt,
// and where scheduling is asynchronous in the step that was formed before its last one ended.
func (f *flow) beside(own, step float64) float64 {
	held := own * f.begins
	if f.server.Scheduler.Async {
		held += step * f.ends
	}
	return held
}

// out is by how much later a first token is sent because n tokens of the same step go first. What the same
// thread does while a request comes in costs nothing, as long as the request is there when the step ends.
func (f *flow) out(n float64) float64 {
	if !f.server.Scheduler.Mixed { // those of decode steps were sent while the prompt was computed
		return 0
	}
	return n / f.peers * float64(f.front.token)
}

// idle is the power while no step runs.
func (f *flow) idle() unit.Watts { return unit.Watts(float64(f.server.idle()) * f.peers) }

// complete adds what is of all replicas together. Times and energies that are no numbers above 0 are an error.
func (f *flow) complete(st *Steady, rate float64, replicas int) (*Steady, error) {
	n := f.units(replicas)
	st.Rate, st.Throughput = rate, rate*f.gen
	st.Cache = min(st.Running*f.held+st.beside, 1)
	st.Running, st.Waiting = st.Running*n, st.Waiting*n
	gpus, price := f.server.Predictor.Replica()
	if price > 0 {
		st.Cost = unit.Dollars(float64(price) * float64(gpus*replicas) / 3600 / rate)
	}
	if !(st.TTFT > 0 && st.E2E > 0 && st.Energy > 0 && st.E2E+unit.Seconds(st.Energy) < unit.Seconds(math.Inf(1))) {
		return nil, fmt.Errorf("%g requests a second: the steady state has a TTFT of %g s, an E2E of %g s and %g J a request, which no server has; simulate it", rate, st.TTFT, st.E2E, st.Energy)
	}
	return st, nil
}

// full is the rate at which the sequences of a replica that is full just end as fast as requests come, up to
// a ceiling: each of its steps has as many prompts then as sequences end.
func (f *flow) full(ceiling float64) float64 {
	if f.steps == 0 { // answers of one token end with their prompt
		return ceiling
	}
	p := f.piece(f.most)
	ends := float64(f.most) / f.steps
	time, _, _ := p.prompts(ends)
	rate := ends / (float64(p.decode.Time) + max(time, 0)) // further steps may hide more launches than they take
	if c := p.with(ends); c.Waits == 0 {
		return min(rate, ceiling)
	}
	before, off := 0.0, 0.0
	for range 8 {
		if rate >= ceiling {
			return ceiling
		}
		decode := f.pace(p, rate)
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

// packed is the rate of prompts where all steps are full of them and of the sequences that decode then, each of which has a
// token of every step; +Inf where there are never so many sequences.
func (f *flow) packed() (rate, decodes float64) {
	s := f.server
	if !s.Scheduler.Mixed || f.handed {
		return math.Inf(1), math.Inf(1)
	}
	prompts := 0.0
	for range 8 {
		prompts = f.left(int(decodes), 0) / f.fills.mean
		if decodes = f.steps * prompts; decodes >= float64(f.most) {
			return math.Inf(1), math.Inf(1)
		}
	}
	n := int(decodes)
	c := f.pass(n, f.left(n, 0), 0)
	time := c.Time
	if s.Scheduler.Async { // launches are hidden behind the step before, or all that there is
		time = max(c.Time-c.Waits, c.Before+c.Launch)
	}
	return prompts / float64(time), decodes
}

// prefillCapacity is the largest stable rate of so many replicas that only prefill.
func (f *flow) prefillCapacity(replicas int) Capacity {
	return Capacity{Rate: f.units(replicas) / f.piece(0).each(), Bound: "prefill", Running: f.most / int(f.peers)}
}

// unpreempted is the largest stable rate where no sequence is preempted.
func (f *flow) unpreempted() Capacity {
	if f.limits.Rate > 0 {
		return f.limits
	}
	defer f.behindRouter(float64(f.stages))
	f.behindRouter(1)
	c := Capacity{Running: f.most / int(f.peers), Bound: f.bound}
	p := f.piece(f.most)
	packed, _ := f.packed()
	ceiling := min(1/max(p.each(), f.piece(0).each()), packed) // prompts a second where steps are full of them
	if f.handed {
		ceiling = float64(f.most) / (f.steps * float64(p.decode.Time))
	}
	low := min(f.full(ceiling), ceiling)
	switch {
	case low > 0.97*ceiling && !f.handed:
		c.Bound = "prefill"
	case f.most > 1:
		// Half as many sequences would give nearly the same rate: steps are as long as they have sequences.
		half := f.piece(f.most / 2)
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
