package serving

import (
	"context"
	"fmt"
	"math"

	"llmprof/analytic"
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
//	c(n) = d(n) + (1 - e^(-m)) (p - q) + m q,    m = rate × c(n)
//
// d(n) being the step that only decodes, p by how much longer it takes with one prompt and q
// by how much longer with each further one that came during the step before. A request that
// decodes for s steps leaves n sequences with the weight Π rate × s × c(i) / i.
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
	Bound   string // "compute", "KV blocks", "sequences" or "prefill"
	Running int    // sequences of one replica that fit at once
}

// SteadyRate is the steady state with Poisson arrivals at a rate. A rate that is not stable
// is an error that names the largest that is.
func (s *Server) SteadyRate(rate float64, prompt, gen Lengths) (*Steady, error) {
	f, err := s.flow(prompt, gen)
	if err != nil {
		return nil, err
	}
	if !(rate > 0 && rate <= 1e6) {
		return nil, fmt.Errorf("%g requests a second: want above 0 and at most 1e6", rate)
	}
	c := f.capacity()
	if rate >= c.Rate {
		return nil, fmt.Errorf("%g requests a second are more than the server can answer: the largest stable rate is %.3g, bound by %s (%d sequences at once in each of %d replicas)",
			rate, c.Rate, c.Bound, c.Running, s.Replicas)
	}
	st := f.open(rate / float64(s.Replicas))
	st.Capacity = c
	f.complete(st, rate)
	return st, nil
}

// SteadyConcurrency is the steady state of a closed loop of clients that have one request
// each at a time.
func (s *Server) SteadyConcurrency(clients int, prompt, gen Lengths) (*Steady, error) {
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
	st.Capacity = f.capacity()
	f.complete(st, st.Rate*float64(s.Replicas))
	return st, nil
}

// A flow is what the steady state of one replica is worked out from.
type flow struct {
	server  *Server
	prices  *prices
	draft   *prices
	steps   float64 // that a sequence decodes for
	gen     float64
	context float64 // of a sequence that decodes, mean over time
	prompts []int   // quantiles of the prompts' lengths
	mean    int
	most    int // sequences at once
	bound   string
	held    float64
	pieces  map[int]piece
}

// A piece is the steps with n sequences that decode.
type piece struct {
	decode Cost
	one    Cost    // by how much longer it takes with a prompt
	square float64 // mean of the square of that time
	more   Cost    // with each further prompt
	alone  Cost    // a step of one prompt with nothing else
	apart  bool    // prompts have steps of their own
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
	f := &flow{server: s, prices: newPrices(s.Predictor, s.Scheduler.Pass, s.Drafts > 0), pieces: map[int]piece{}}
	if s.Drafter != nil {
		f.draft = newPrices(s.Drafter, 0, false)
	}
	mean, square := gen.moments()
	f.gen, f.steps = mean, (mean-1)/s.yields()
	f.mean = int(prompt.mean())
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
	if s.Scheduler.Admission == ForAll {
		share = float64(r.of(int(prompt.mean()+gen.mean()))) / float64(r.blocks)
	}
	f.most, f.bound = int(1/share), "KV blocks"
	if s.Scheduler.MaxSeqs <= f.most {
		f.most, f.bound = s.Scheduler.MaxSeqs, "sequences"
	}
	f.most = max(f.most, 1)
}

// piece works out the steps with n sequences that decode.
func (f *flow) piece(n int) piece {
	if p, ok := f.pieces[n]; ok {
		return p
	}
	p := piece{apart: !f.server.Scheduler.Mixed}
	if n > 0 {
		p.decode = f.step(n, 0, 0)
	}
	for _, prompt := range f.prompts {
		whole := f.step(n, prompt, 1)
		one := Cost{whole.Time - p.decode.Time, whole.Energy - p.decode.Energy}
		p.one.Time += one.Time.Times(1 / float64(len(f.prompts)))
		p.one.Energy += one.Energy.Times(1 / float64(len(f.prompts)))
		p.square += float64(one.Time) * float64(one.Time) / float64(len(f.prompts))
		if n > 0 && !p.apart {
			whole = f.step(0, prompt, 1)
		}
		p.alone.Time += whole.Time.Times(1 / float64(len(f.prompts)))
	}
	if p.apart {
		p.alone = p.one
	}
	single, double := f.step(n, f.mean, 1), f.step(n, f.mean, 2)
	p.more = Cost{double.Time - single.Time, double.Energy - single.Energy}
	f.pieces[n] = p
	return p
}

// step is what n decodes and some prompts take, over as many steps as the budget makes of
// them; the decodes of further steps are those that decode anyway.
func (f *flow) step(n, prompt, prompts int) (sum Cost) {
	s := f.server
	rules := &s.Scheduler
	fresh := prompt - s.cached(prompt)
	left := fresh * prompts
	beside := n
	if !rules.Mixed && left > 0 && n > 0 {
		sum = f.step(n, 0, 0)
		beside = 0
	}
	room := max(rules.Budget-beside*(1+s.Drafts), 1)
	base := Cost{}
	for first := true; first || left > 0; first = false {
		var b batch
		b.reset(len(f.prices.windows))
		for range beside {
			b.decode(f.prices.windows, int(f.context))
		}
		take := min(left, room)
		if done := fresh*prompts - left; take > 0 {
			group := analytic.Group{Batch: 1, New: float64(take), Past: float64(prompt - fresh + done), Logits: 1}
			if each := take / fresh; each > 0 && prompts > 1 {
				group.Batch, group.New, group.Past = float64(each), float64(take)/float64(each), float64(prompt-fresh)
			}
			b.chunks = append(b.chunks, group)
		}
		left -= take
		c := f.prices.cost(&b, s.Drafts)
		if f.draft != nil && beside > 0 {
			d := f.draft.decode(beside, b.past)
			c.Time, c.Energy = c.Time+d.Time.Times(float64(s.Drafts)), c.Energy+d.Energy.Times(float64(s.Drafts))
		}
		if !first { // the decodes of this step would have run without it
			c.Time, c.Energy = c.Time-base.Time, c.Energy-base.Energy
		} else if left > 0 && beside > 0 {
			base = f.step(n, 0, 0)
		}
		sum.Time, sum.Energy = sum.Time+c.Time, sum.Energy+c.Energy
	}
	return sum
}

// cycle is a step with n sequences at a rate of arrivals: its mean, and the mean of its
// square. It is infinite where prompts come faster than they are computed.
func (p *piece) cycle(rate float64) (mean, square, energy float64) {
	d, one, more := float64(p.decode.Time), float64(p.one.Time), float64(p.more.Time)
	if p.apart {
		return p.apartCycle(rate)
	}
	if rate*more >= 1 {
		return math.Inf(1), math.Inf(1), math.Inf(1)
	}
	c := d + one
	for range 60 {
		next := d + (1-math.Exp(-rate*c))*(one-more) + rate*c*more
		if math.Abs(next-c) < 1e-9*c {
			break
		}
		c = next
	}
	m := rate * c
	some := 1 - math.Exp(-m)
	spread := p.square / (one * one) // prompts differ
	// How many prompts a step has depends on how long the one before it was: the variance of
	// a gated queue (Takagi, Analysis of Polling Systems, 1986).
	variance := some*p.square - some*some*one*one + spread*more*more*max(m-some, 0)
	square = c*c + max(variance, 0)/(1-rate*rate*more*more)
	return c, square, float64(p.decode.Energy) + some*float64(p.one.Energy-p.more.Energy) + m*float64(p.more.Energy)
}

// apartCycle is cycle where prompts have steps of their own, which go before those that
// decode: after a decode step as many of them follow as find further prompts.
func (p *piece) apartCycle(rate float64) (mean, square, energy float64) {
	d, one, more := float64(p.decode.Time), float64(p.one.Time), float64(p.more.Time)
	spread := p.square / (one * one)
	mean, square, energy = d, d*d, float64(p.decode.Energy)
	length, probability := d, 1.0
	if d == 0 {
		length = one
	}
	for i := 0; probability > 1e-6; i++ {
		m := rate * length
		some := 1 - math.Exp(-m)
		probability *= some
		length = one - more + m/some*more
		mean += probability * length
		square += probability * length * length * spread
		energy += probability * (float64(p.one.Energy-p.more.Energy) + m/some*float64(p.more.Energy))
		if i > 2000 {
			return math.Inf(1), math.Inf(1), math.Inf(1)
		}
	}
	return mean, square, energy
}

// weights are the probabilities of n sequences that decode, up to where they are
// negligible; beyond most the rest waits. They are nil where the rate is not stable.
func (f *flow) weights(rate float64) []float64 {
	const least, longest = 1e-9, 1 << 16
	logs, top := []float64{0}, 0.0
	for n := 1; n < longest; n++ {
		at := min(n, f.most)
		p := f.at(at)
		c, _, _ := p.cycle(rate)
		ratio := rate * f.steps * c / float64(at)
		if at == f.most && ratio >= 1-1e-6 || math.IsInf(c, 1) {
			return nil
		}
		next := logs[n-1] + math.Log(max(ratio, 1e-300))
		logs = append(logs, next)
		top = max(top, next)
		if ratio < 1 && next < top+math.Log(least) {
			break
		}
	}
	sum := 0.0
	for i := range logs {
		logs[i] = math.Exp(logs[i] - top)
		sum += logs[i]
	}
	for i := range logs {
		logs[i] /= sum
	}
	return logs
}

// at is the piece of n sequences: worked out up to 16 and at steps of an eighth from there,
// on a line between.
func (f *flow) at(n int) piece {
	if n <= 16 || n == f.most {
		return f.piece(n)
	}
	grid := 1 << (bitLen(n) - 4)
	low := n / grid * grid
	high := min(low+grid, f.most)
	if low == n || high <= low {
		return f.piece(n)
	}
	a, b, x := f.piece(low), f.piece(high), float64(n-low)/float64(high-low)
	return a.toward(b, x)
}

// toward is a share of the way from one piece to another.
func (p piece) toward(b piece, x float64) piece {
	line := func(a, b Cost) Cost {
		return Cost{a.Time + (b.Time - a.Time).Times(x), a.Energy + (b.Energy - a.Energy).Times(x)}
	}
	return piece{line(p.decode, b.decode), line(p.one, b.one), p.square + (b.square-p.square)*x, line(p.more, b.more), line(p.alone, b.alone), p.apart}
}

func bitLen(n int) (bits int) {
	for ; n > 0; n >>= 1 {
		bits++
	}
	return bits
}

// open is the steady state of one replica at a rate.
func (f *flow) open(rate float64) *Steady {
	st := &Steady{Rate: rate}
	weights := f.weights(rate)
	var running, power, ttft float64
	for n, w := range weights {
		at := min(n, f.most)
		p := f.at(at)
		c, square, energy := p.cycle(rate)
		running += float64(at) * w
		st.Waiting += float64(n-at) * w
		busy := 1.0
		if n == 0 {
			busy = min(rate*float64(p.alone.Time), 1)
			power += w * (busy*float64(p.one.Energy)/float64(p.one.Time) + (1-busy)*float64(f.server.idle()))
		} else {
			power += w * energy / c
		}
		ttft += w * f.first(&p, rate, c, square, busy)
		st.Utilization += w * busy
	}
	st.TTFT = unit.Seconds(ttft + st.Waiting/rate)
	st.Running = running
	if f.steps > 0 {
		st.TPOT = unit.Seconds(running / rate / max(f.gen-1, 1))
	}
	st.E2E = st.TTFT + unit.Seconds(running/rate)
	st.Energy = unit.Joules(power / rate)
	st.Waiting += rate * ttft
	return st
}

// first is the time to the first token of a request that finds a step running with
// probability busy: what is left of that step, one more with asynchronous scheduling, and
// the one that it shares with the prompts that came besides.
func (f *flow) first(p *piece, rate, c, square, busy float64) float64 {
	wait := square / (2 * c)
	others := rate * square / c
	own, step := float64(p.decode.Time)+float64(p.one.Time), c
	if p.apart {
		own, step = float64(p.alone.Time), c/(2-math.Exp(-rate*c))
	}
	if f.server.Scheduler.Async {
		wait += step
	}
	return busy*(wait+others*float64(p.more.Time)) + own
}

// closed is the steady state of one replica with so many clients. A request meets those of
// the others alone; a client sends its next one when a step ends and the next one was
// formed already, so that it waits for all of that.
func (f *flow) closed(clients float64) *Steady {
	st := &Steady{Utilization: 1}
	others := clients - 1
	rate, first, decode := 0.0, 0.0, 1.0
	var energy float64
	for range 500 {
		share := decode / (first + decode) // of its time that a request decodes
		beside := min(others*share, float64(f.most))
		p, mine := f.near(beside), f.near(min(1+beside, float64(f.most)))
		theirs := rate * others / clients
		c, _, e := mine.cycle(min(theirs, 0.98/float64(max(mine.more.Time, 1e-9))))
		energy = (1-math.Pow(1-share, clients))*e/c + rate/clients*float64(p.one.Energy)
		own := float64(p.decode.Time) + float64(p.one.Time)
		if p.apart {
			own = float64(p.alone.Time)
		}
		own += (1 - math.Pow(1-share, others)) * c
		own += theirs * c * float64(p.more.Time)
		waits := max(clients-float64(f.most)-rate*own, 0)
		cycle := f.steps*c + own
		next := (clients - waits) / cycle
		if own += waits / next; math.Abs(next-rate) < 1e-7*rate && math.Abs(own-first) < 1e-7*own {
			break
		}
		rate, first, decode = (rate+next)/2, (first+own)/2, f.steps*c
	}
	st.Rate, st.Running = rate, rate*decode
	st.TTFT, st.E2E = unit.Seconds(first), unit.Seconds(first+decode)
	st.TPOT = unit.Seconds(decode / max(f.gen-1, 1))
	st.Energy = unit.Joules(energy / rate)
	st.Waiting = clients - st.Running
	return st
}

// near is the piece of a number of sequences that need not be whole.
func (f *flow) near(n float64) piece {
	low := math.Floor(n)
	a := f.at(int(low))
	if low == n {
		return a
	}
	return a.toward(f.at(min(int(low)+1, f.most)), n-low)
}

// waves is a closed loop whose answers have one length: clients that began together end
// together, so that there is no steady state but waves of prompts. A few of them are simulated.
func (s *Server) waves(clients int, prompt, gen Lengths) (*Steady, error) {
	const warmup, waves, least = 4, 40, 200
	l := Load{Arrival: Arrival{Kind: "closed", Concurrency: clients}, Prompt: prompt, Gen: gen, Requests: max(clients*(warmup+waves), least)}
	source, err := l.Source()
	if err != nil {
		return nil, err
	}
	r, err := Simulate(context.Background(), s, source, Options{Warmup: clients * warmup})
	if err != nil {
		return nil, err
	}
	n := float64(s.Replicas)
	return &Steady{
		Running: r.MeanRunning / n, Waiting: max(float64(clients)-r.MeanRunning, 0) / n, Rate: r.Rate() / n,
		TTFT: unit.Seconds(r.TTFT.Mean()), TPOT: unit.Seconds(r.TPOT.Mean()), E2E: unit.Seconds(r.E2E.Mean()),
		Utilization: r.Busy, Energy: r.Energy.Times(1 / float64(r.Completed)),
	}, nil
}

// complete adds what is of all replicas together.
func (f *flow) complete(st *Steady, rate float64) {
	n := float64(f.server.Replicas)
	st.Rate, st.Throughput = rate, rate*f.gen
	st.Cache = min(st.Running*f.held, 1)
	st.Running, st.Waiting = st.Running*n, st.Waiting*n
	gpus, price := f.server.Predictor.Replica()
	if price > 0 {
		st.Cost = unit.Dollars(float64(price) * float64(gpus) * n / 3600 / rate)
	}
}

// capacity is the largest stable rate of all replicas.
func (f *flow) capacity() Capacity {
	c := Capacity{Running: f.most, Bound: f.bound}
	p := f.at(f.most)
	low, high := 0.0, 1/float64(max(p.more.Time, 1e-9))
	ceiling := high
	for range 60 {
		rate := (low + high) / 2
		if cycle, _, _ := p.cycle(rate); rate*f.steps*cycle < float64(f.most) {
			low = rate
		} else {
			high = rate
		}
	}
	switch {
	case low > 0.97*ceiling:
		c.Bound = "prefill"
	case f.most > 1:
		// Half as many sequences would give nearly the same rate: steps are as long as they have sequences.
		half := f.at(f.most / 2)
		if d := float64(half.decode.Time) / float64(p.decode.Time); d < 0.55 {
			c.Bound = "compute"
		}
	}
	c.Rate = low * float64(f.server.Replicas)
	return c
}
