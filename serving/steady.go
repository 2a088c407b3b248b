package serving

import (
	"fmt"
	"math"

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
}

// A Capacity is the largest rate that is stable, and what bounds it.
type Capacity struct {
	Rate    float64
	Bound   string // "compute", "KV blocks", "sequences", "prefill" or "API server"
	Running int    // sequences of one replica that fit at once
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
	f, err := s.flow(prompt, gen)
	if err != nil {
		return nil, err
	}
	if clients < 1 || clients > 1<<20 {
		return nil, fmt.Errorf("a concurrency of %d: want from 1 to %d", clients, 1<<20)
	}
	st := f.closed(max(float64(clients)/float64(s.Replicas), 1))
	if gen.Kind == "fixed" && gen.Mean > 1 {
		if st, err = s.waves(clients, prompt, gen); err != nil {
			return nil, err
		}
	}
	st.Capacity = f.capacity(s.Replicas)
	f.complete(st, st.Rate*float64(s.Replicas), s.Replicas)
	return st, nil
}

// A flow is what the steady state of one replica is worked out from.
type flow struct {
	server  *Server
	front   frontend
	prices  *prices
	draft   *prices
	steps   float64 // that a sequence decodes for
	gen     float64
	inverse float64 // mean of 1/(gen-1), over that of the mean
	context float64 // of a sequence that decodes, mean over time
	prompts []int   // quantiles of the prompts' lengths
	mean    int
	most    int // sequences at once
	bound   string
	held    float64
	handed  bool // sequences come with the cache of their prompts
	pieces  map[int]piece
	filled  map[int]filled
}

const quantiles = 8

func (s *Server) flow(prompt, gen Lengths) (*flow, error) {
	if err := s.Check(); err != nil {
		return nil, err
	}
	if err := prompt.check("prompt"); err != nil {
		return nil, err
	}
	if err := gen.check("generated"); err != nil {
		return nil, err
	}
	r := s.room()
	if longest := s.longest(r); prompt.mean()+gen.mean() > float64(longest) {
		return nil, fmt.Errorf("requests of %g + %g tokens do not fit: the longest that does has %d, prompt and answer", prompt.mean(), gen.mean(), longest)
	}
	f := &flow{server: s, front: s.frontend(), prices: newPrices(s.Predictor, s.Scheduler.Pass, s.Drafts > 0), pieces: map[int]piece{}, filled: map[int]filled{}}
	f.prices.once = true
	if s.Drafter != nil {
		f.draft = newPrices(s.Drafter, 0, false)
	}
	mean, square := gen.moments()
	f.gen, f.steps = mean, (mean-1)/s.yields()
	f.mean = int(prompt.mean())
	f.inverse = gen.inverse()
	f.context = prompt.mean() + square/(2*mean)
	f.prompts = prompt.quantiles()
	f.limit(r, prompt, gen)
	return f, nil
}

// limit works out how many sequences a replica holds at once, and why no more.
func (f *flow) limit(r *room, prompt, gen Lengths) {
	s := f.server
	f.held = float64(r.of(int(f.context))) / float64(r.blocks)
	share := f.held
	if s.Scheduler.Admission == engine.ForAll {
		share = float64(r.of(int(prompt.mean()+gen.mean()))) / float64(r.blocks)
	}
	f.most, f.bound = int(1/share), "KV blocks"
	if s.Scheduler.MaxSeqs <= f.most {
		f.most, f.bound = s.Scheduler.MaxSeqs, "sequences"
	}
	f.most = max(f.most, 1)
}

// open is the steady state of one replica at a rate; nil where it has none, as where the
// sequences that decode leave prompts too little of a step.
func (f *flow) open(rate float64) *Steady {
	st := &Steady{Rate: rate}
	weights, cycles := f.weights(rate)
	if weights == nil {
		return nil
	}
	var running, power, ttft float64
	behind := 0.0 // by how much longer the decode steps after a prompt are, for more came during its step
	for n, w := range weights {
		if n == 0 && f.handed {
			power += w * float64(f.server.idle())
			continue
		}
		at := min(n, f.most)
		p := f.at(at)
		c, energy := cycles[at].mean, cycles[at].energy
		running += float64(at) * w
		st.Waiting += float64(n-at) * w
		busy := 1.0
		if n == 0 {
			busy = min(rate*float64(p.extra[0].Time), 1)
			power += w * (busy*float64(p.extra[0].Energy)/float64(p.extra[0].Time) + (1-busy)*float64(f.server.idle()))
		} else {
			power += w * energy / c
		}
		first, own := f.first(at, &p, rate, &cycles[at], busy)
		ttft += w * first
		more, _, _ := p.prompts(rate * own)
		behind += w * max(more-(c-float64(p.decode.Time)), 0)
		st.Utilization += w * busy
	}
	if st.TTFT = unit.Seconds(ttft + st.Waiting/rate); !f.handed {
		st.TTFT += f.server.Predictor.RequestTime()
	}
	if f.steps == 0 {
		behind = 0
	}
	running += rate * behind
	st.Running = running
	if f.steps > 0 {
		st.TPOT = unit.Seconds((running/rate + behind*(f.inverse-1)) / max(f.gen-1, 1))
	}
	st.E2E = st.TTFT + unit.Seconds(running/rate)
	st.Energy = unit.Joules(power / rate)
	st.Waiting += rate * ttft
	return st
}

// first is the time to the first token of a request that finds a step running with
// probability busy: what is left of that step, one more with asynchronous scheduling, and
// the one that it shares with the prompts that came besides.
func (f *flow) first(n int, p *piece, rate float64, steps *cycle, busy float64) (ttft, step float64) {
	c, window, d := steps.mean, steps.square/steps.mean, float64(p.decode.Time)
	wait := window / 2
	if f.handed { // its first token is known already
		if f.server.Scheduler.Async {
			wait += c
		}
		return wait, 0
	}
	// A request that comes at any time meets long steps more often than short ones, and with it come as many
	// as in the whole step: in one without prompts with probability short, else in one as much longer.
	short := math.Exp(-rate*c) * d / c
	joined := short*p.joined(rate*d) + (1-short)*p.joined(rate*(window-short*d)/(1-short))
	own, next := d, c
	if p.apart {
		own, next = 0, c/(2-math.Exp(-rate*c))
	}
	if f.server.Scheduler.Async {
		wait += next
	}
	return busy*(wait+joined) + (1-busy)*float64(p.extra[0].Time) + own + f.out(p, float64(n)), own + joined
}

// out is by how much later a first token is sent because n tokens of the same step go first. What the same
// thread does while a request comes in costs nothing, as long as the request is there when the step ends.
func (f *flow) out(p *piece, n float64) float64 {
	if p.apart { // those of decode steps were sent while the prompt was computed
		return 0
	}
	return n * float64(f.front.token)
}

// complete adds what is of all replicas together.
func (f *flow) complete(st *Steady, rate float64, replicas int) {
	n := float64(replicas)
	st.Rate, st.Throughput = rate, rate*f.gen
	st.Cache = min(st.Running*f.held, 1)
	st.Running, st.Waiting = st.Running*n, st.Waiting*n
	gpus, price := f.server.Predictor.Replica()
	if price > 0 {
		st.Cost = unit.Dollars(float64(price) * float64(gpus) * n / 3600 / rate)
	}
}

// stable reports whether a replica that is full answers faster than requests come.
func (f *flow) stable(rate float64) bool {
	p := f.at(f.most)
	return rate*f.steps*p.cycle(rate).mean < float64(f.most)*(1-1e-6)
}

// capacity is the largest stable rate of all replicas.
func (f *flow) capacity(replicas int) Capacity {
	c := Capacity{Running: f.most, Bound: f.bound}
	p := f.at(f.most)
	last, _ := p.with(1 << (knots - 1))
	before, _ := p.with(1 << (knots - 2))
	ceiling := (1 << (knots - 2)) / (last - before) // prompts a second where steps are full of them
	if f.handed {
		ceiling = float64(f.most) / (f.steps * float64(p.decode.Time))
	}
	low, high := 0.0, ceiling
	for range 16 {
		if rate := (low + high) / 2; f.stable(rate) {
			low = rate
		} else {
			high = rate
		}
	}
	switch {
	case low > 0.97*ceiling && !f.handed:
		c.Bound = "prefill"
	case f.most > 1:
		// Half as many sequences would give nearly the same rate: steps are as long as they have sequences.
		half := f.at(f.most / 2)
		if d := float64(half.decode.Time) / float64(p.decode.Time); d < 0.55 {
			c.Bound = "compute"
		}
	}
	if most := 1 / f.front.load(1, f.gen/2); most < low { // tokens that wait are sent together
		low, c.Bound = most, "API server"
	}
	c.Rate = low * float64(replicas)
	return c
}
