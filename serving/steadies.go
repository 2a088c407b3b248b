package serving

import (
	"context"
	"fmt"
	"math"

	"llmprof/analytic/engine"
)

// Steadies are the steady states of a server at any rate or with any number of clients, with any number of replicas, which
// share the times of its steps. It is for one goroutine, but for Simulate, and for the time until its context ends: what is asked then is
// the error of that.
type Steadies struct {
	ctx             context.Context
	server          Server
	prompt, gen     Lengths
	prices          *prices
	flow            *flow             // the queue of replicas that prefill and decode
	prefill, decode *flow             // the queues of disaggregated replicas
	crowds          map[[2]int]*tally // closed loops that were simulated, by their clients and replicas
	events          *int              // the events that closed loops may still take
}

// Steadies prepares for steady states with requests of these lengths.
func (s *Server) Steadies(ctx context.Context, prompt, gen Lengths) (*Steadies, error) {
	if s.Predictor == nil {
		return nil, s.Check()
	}
	return s.steadies(ctx, prompt, gen, s.turns())
}

func (s *Server) steadies(ctx context.Context, prompt, gen Lengths, known *prices) (*Steadies, error) {
	f, err := s.flow(ctx, prompt, gen, known)
	if err != nil {
		return nil, err
	}
	return &Steadies{ctx: ctx, server: *s, prompt: prompt, gen: gen, prices: s.prices(), flow: f, crowds: map[[2]int]*tally{},
		events: new(math.MaxInt)}, nil
}

// With is the steady states of the server with another scheduler. Both share the times of their steps.
func (t *Steadies) With(rules engine.Scheduler) (*Steadies, error) {
	other := t.server
	rules.Within(other.Predictor)
	other.Scheduler = rules
	return other.steadies(t.ctx, t.prompt, t.gen, t.flow.prices)
}

// Scheduler is that of the server.
func (t *Steadies) Scheduler() engine.Scheduler { return t.server.Scheduler }

// During lets a context end what is asked from now on.
func (t *Steadies) During(ctx context.Context) {
	t.ctx = ctx
	for _, f := range []*flow{t.flow, t.prefill, t.decode} {
		if f != nil {
			f.ctx = ctx
		}
	}
}

// halted makes the error that of the context if that has ended: what was worked out then is of a part alone.
func (t *Steadies) halted(err *error) {
	if ended := t.ctx.Err(); ended != nil {
		*err = ended
	}
}

// check refuses layouts that no steady state is of, and prepares for the others.
func (t *Steadies) check(l *Layout) error {
	switch {
	case l.Prefillers == 0 || t.prefill != nil:
		return nil
	case t.gen.MeanLength() < 2:
		return fmt.Errorf("answers of %g tokens leave nothing to decode elsewhere", t.gen.MeanLength())
	case l.Link <= 0:
		return fmt.Errorf("replicas that prefill hand the KV cache over: the rate of their link is not known")
	}
	return t.disaggregate()
}

// Rate is the steady state with Poisson arrivals at a rate. A rate that is not stable is an error that names the largest that is.
func (t *Steadies) Rate(rate float64, l Layout) (st *Steady, err error) {
	defer t.halted(&err)
	if err := CheckRate(rate); err != nil {
		return nil, err
	}
	if err := t.check(&l); err != nil {
		return nil, err
	}
	if l.Prefillers > 0 {
		st, err = t.disaggregated(rate, &l)
	} else if st, err = t.open(t.flow, rate, l.Replicas); err == nil {
		st, err = t.flow.complete(st, rate, l.Replicas)
	}
	if err == nil {
		st.Capacity, err = t.Capacity(l)
	}
	return st, err
}

// open is the steady state of one of the queues of one kind.
func (t *Steadies) open(f *flow, rate float64, replicas int) (*Steady, error) {
	units := f.units(replicas)
	if c := f.capacity(); rate >= units*c.Rate {
		return nil, f.overload(&c, rate, replicas)
	}
	if err := t.ctx.Err(); err != nil { // The capacity is of a part of the path, and may be of none.
		return nil, err
	}
	f.behindRouter(units)
	if f.groups(rate / units) {
		return t.opened(f, rate/units)
	}
	if f.pipelined() { // Long answers that come rarely take more events than are simulated, and hardly wait, so that the path has them.
		if st, err := t.opened(f, rate/units); err == nil {
			return st, nil
		}
	}
	st, _ := f.sample(rate/units, f.jobs(rate/units))
	if f.interrupts(rate/units, st.Running) {
		return t.opened(f, rate/units)
	}
	st.apiLoad = f.front.load(rate/units, f.gen) / f.peers
	return st, nil
}

// pipelined reports whether several batches are on their way through the stages of a replica, which wait for each other.
func (f *flow) pipelined() bool { return f.server.Predictor.Par.MicroBatches > 1 && !f.transferred }

// Capacity is the largest stable rate of a layout.
func (t *Steadies) Capacity(l Layout) (c Capacity, err error) {
	defer t.halted(&err)
	if l.Prefillers == 0 {
		return t.flow.rateOf(l.Replicas), nil
	}
	if err := t.check(&l); err != nil {
		return c, err
	}
	c = t.decode.rateOf(l.Replicas)
	if first := t.prefill.rateOf(l.Prefillers); first.Rate < c.Rate {
		return first, nil
	}
	return c, nil
}

// Clients is the steady state of a closed loop of clients that have one request each at a time.
func (t *Steadies) Clients(clients int, l Layout) (st *Steady, err error) {
	defer t.halted(&err)
	if err := CheckClients(clients); err != nil {
		return nil, err
	}
	if l.Prefillers > 0 {
		return nil, fmt.Errorf("%d replicas that prefill: the steady state of clients that wait has no closed form; simulate it", l.Prefillers)
	}
	if st, err = t.clients(clients, l.Replicas); err != nil {
		return nil, err
	}
	if st, err = t.flow.complete(st, st.Rate*t.flow.units(l.Replicas), l.Replicas); err == nil {
		st.Capacity, err = t.Capacity(l)
		st.Capacity.Rate = max(st.Capacity.Rate, st.Rate) // clients that come back together may fill steps better than any that come at random
	}
	return st, err
}

// Simulate runs the requests of a source through a layout of the server, at the times of steps that are known. Several goroutines may call
// it at once.
func (t *Steadies) Simulate(source Source, l Layout, o Options) (*Result, error) {
	server := t.server
	server.Layout = l
	o.priced = t.prices
	return Simulate(t.ctx, &server, source, o)
}

// overload is that so many replicas cannot answer a rate, and names the largest that they can.
func (f *flow) overload(c *Capacity, rate float64, replicas int) error {
	why := ""
	if c.Bound == preemption {
		why = ": once its KV cache is full, sequences that outgrow it are computed again"
	}
	return fmt.Errorf("%.4g requests a second are more than the server can answer: the largest stable rate is %.3g, bound by %s (%d "+
		"sequences of a replica at once)%s", rate, f.units(replicas)*c.Rate, c.Bound, c.Running, why)
}

// Replicas that prefill and replicas that decode are two queues in tandem: the second has the first's departures as its arrivals, which
// are taken for a Poisson process, and the KV cache of a prompt goes over a link between both.

// disaggregate prepares the two kinds of replicas of a disaggregated server.
func (t *Steadies) disaggregate() (err error) {
	first, known := t.server, t.flow.prices
	if first.Drafts > 0 {
		first.Drafts, first.Drafter = 0, nil
		known = first.turns()
	}
	if t.prefill, err = first.flow(t.ctx, t.prompt, Fixed(1), known); err != nil {
		return err
	}
	if t.decode, err = t.server.flow(t.ctx, t.prompt, t.gen, t.flow.prices); err != nil {
		return err
	}
	t.decode.transferred = true
	return nil
}

// disaggregated is the steady state of replicas that prefill, and of those that decode.
func (t *Steadies) disaggregated(rate float64, l *Layout) (*Steady, error) {
	replicas, prefillers := float64(l.Replicas), float64(l.Prefillers)
	rest, err := t.open(t.decode, rate, l.Replicas)
	if err != nil {
		return nil, err
	}
	rest.E2E += t.server.Predictor.SequenceBytes(t.prompt.MeanLength()).Over(l.Link)
	first, err := t.open(t.prefill, rate, l.Prefillers)
	if err != nil {
		return nil, err
	}
	st := &Steady{TTFT: first.TTFT, E2E: first.TTFT + rest.E2E, TPOT: rest.E2E.Times(1 / (t.gen.MeanLength() - 1)),
		Energy: first.Energy + rest.Energy, apiLoad: rest.apiLoad}
	if st, err = t.decode.complete(st, rate, l.Replicas+l.Prefillers); err != nil {
		return nil, err
	}
	mean := func(a, b float64) float64 { return (a*prefillers + b*replicas) / (prefillers + replicas) }
	st.Cache, st.Utilization = mean(first.Cache, rest.Cache), mean(first.Utilization, rest.Utilization)
	// By Little's law; those that are handed over have their first token.
	st.Waiting, st.Running = rate*float64(st.TTFT), rate*float64(st.E2E-st.TTFT)
	return st, nil
}
