package serving

import (
	"context"
	"fmt"
	"math"

	"llmprof/unit"
)

// A Layout is how many replicas a server has.
type Layout struct {
	Replicas   int              // that decode, and prefill unless Prefillers do
	Prefillers int              // that prefill and hand the cache over
	Link       unit.BytesPerSec // by which one GPU hands it over
}

// Steadies are the steady states of a server at any rate or with any number of clients, with any number of replicas, which
// share the times of its steps. It is for one goroutine, and for the time until its context ends: what is asked then is the error of that.
type Steadies struct {
	ctx      context.Context
	server   Server
	flow     *flow // of replicas that prefill and decode
	prompt   Lengths
	gen      Lengths
	firsts   map[[2]float64]*Steady // of prefillers, by their rate and number
	prefill  *flow                  // of replicas that only prefill
	decode   *flow                  // of replicas that get the cache of every prompt
	known    stepCosts
	priced   *prices // steps of simulated waves
	stepwise bool    // they are simulated step by step
	events   *int    // that closed loops may still be simulated for; nil where these are not bounded
}

// Steadies prepares for steady states with requests of these lengths.
func (s *Server) Steadies(ctx context.Context, prompt, gen Lengths) (*Steadies, error) {
	return s.steadies(ctx, prompt, gen, stepCosts{})
}

func (s *Server) steadies(ctx context.Context, prompt, gen Lengths, known stepCosts) (*Steadies, error) {
	f, err := s.flowWith(ctx, prompt, gen, known)
	if err != nil {
		return nil, err
	}
	return &Steadies{ctx: ctx, server: *s, flow: f, prompt: prompt, gen: gen, firsts: map[[2]float64]*Steady{}, known: known}, nil
}

// WithBudget is the steady states of the server with steps of so many tokens at most. Both share the times of their steps.
func (t *Steadies) WithBudget(tokens int) (*Steadies, error) {
	other := t.server
	other.Scheduler.Budget = tokens
	return other.steadies(t.ctx, t.prompt, t.gen, t.known)
}

// WithLimit is the steady states of the server with so many sequences at once at most. Both share the times of their steps.
func (t *Steadies) WithLimit(sequences int) (*Steadies, error) {
	other := t.server
	other.Scheduler.MaxSeqs = sequences
	return other.steadies(t.ctx, t.prompt, t.gen, t.known)
}

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
		clear(t.firsts)
		*err = ended
	}
}

// Rate is the steady state with Poisson arrivals at a rate. A rate that is not stable is an error that names the largest that is.
func (t *Steadies) Rate(rate float64, l Layout) (*Steady, error) {
	if err := t.Stable(rate, l); err != nil {
		return nil, err
	}
	st, err := t.Unpreempted(rate, l)
	if err == nil {
		st.Capacity, err = t.Capacity(l)
	}
	return st, err
}

// check refuses rates and layouts that no steady state is of, and prepares for the layout.
func (t *Steadies) check(rate float64, l *Layout) error {
	if err := CheckRate(rate); err != nil {
		return err
	}
	switch {
	case l.Prefillers == 0:
		return nil
	case t.gen.MeanLength() < 2:
		return fmt.Errorf("answers of %g tokens leave nothing to decode elsewhere", t.gen.MeanLength())
	case l.Link <= 0:
		return fmt.Errorf("replicas that prefill hand the KV cache over: the rate of their link is not known")
	}
	return t.pools()
}

// Unpreempted is Rate without its check that the rate is stable with preemption, which takes longer than the state itself: Stable checks
// it. A rate beyond the capacity without preemption is an error here too.
func (t *Steadies) Unpreempted(rate float64, l Layout) (st *Steady, err error) {
	defer t.halted(&err)
	if err := t.check(rate, &l); err != nil {
		return nil, err
	}
	if l.Prefillers > 0 {
		return t.disaggregated(rate, &l)
	}
	if st, err = t.open(t.flow, rate, l.Replicas); err != nil {
		return nil, err
	}
	return t.flow.complete(st, rate, l.Replicas)
}

// open is the steady state of one of the replicas of one kind.
func (t *Steadies) open(f *flow, rate float64, replicas int) (*Steady, error) {
	if c := f.unpreempted(); rate >= f.units(replicas)*c.Rate {
		return nil, t.overloaded(f, rate, replicas, c)
	}
	f.behindRouter(f.units(replicas))
	st := f.open(rate / f.units(replicas))
	if st == nil { // sequences that decode leave too little of the steps to the prompts for a product form
		return nil, fmt.Errorf("%g requests a second: prompts often come faster than steps of %d tokens take them beside what decodes, of "+
			"which no closed form is known; llmprof simulate has it", rate, t.server.Scheduler.Budget)
	}
	st.pipelined = f.server.Predictor.Par.MicroBatches > 1
	st.brief = st.pipelined && f.shortAnswers(rate/f.units(replicas))
	return st, nil
}

// Capacity is the largest stable rate of a layout.
func (t *Steadies) Capacity(l Layout) (c Capacity, err error) {
	defer t.halted(&err)
	if l.Prefillers == 0 {
		return t.flow.capacityOf(l.Replicas), nil
	}
	if err := t.pools(); err != nil {
		return Capacity{}, err
	}
	c = t.decode.capacityOf(l.Replicas)
	if first := t.prefill.prefillCapacity(l.Prefillers); first.Rate < c.Rate {
		return first, nil
	}
	return c, nil
}

// UnpreemptedCapacity is the largest rate of so many replicas that prefill and decode where no sequence is preempted. It takes less work
// than Capacity.
func (t *Steadies) UnpreemptedCapacity(replicas int) float64 {
	return t.flow.unpreempted().Rate * t.flow.units(replicas)
}

// Stable refuses a rate that a layout cannot answer.
func (t *Steadies) Stable(rate float64, l Layout) (err error) {
	defer t.halted(&err)
	if err := t.check(rate, &l); err != nil {
		return err
	}
	f := t.flow
	if l.Prefillers > 0 {
		f = t.decode
	}
	if c := f.capacity(); rate >= f.units(l.Replicas)*c.Rate {
		return t.overloaded(f, rate, l.Replicas, c)
	}
	return nil
}

// Concurrency is the steady state of a closed loop of clients that have one request each at a time, without the capacity.
func (t *Steadies) Concurrency(clients, replicas int) (st *Steady, err error) {
	defer t.halted(&err)
	if err := CheckClients(clients); err != nil {
		return nil, err
	}
	limit := crowd * t.flow.most * int(math.Ceil(t.flow.units(replicas)))
	if st, err = t.loop(min(clients, limit), replicas); err != nil {
		return nil, err
	}
	if more := float64(clients-limit) / t.flow.units(replicas); more > 0 {
		longer := unit.Seconds(more / st.Rate)
		st.TTFT, st.E2E, st.Waiting = st.TTFT+longer, st.E2E+longer, st.Waiting+more
	}
	return t.flow.complete(st, st.Rate*t.flow.units(replicas), replicas)
}

// crowd is how many times as many clients as sequences run at once keep a server busy at all times. Those beyond wait for longer and
// change nothing else.
const crowd = 6

// loop is the steady state of one queue of a closed loop. Requests that are alike stay together in waves, unless their drafts are accepted
// at random.
func (t *Steadies) loop(clients, replicas int) (*Steady, error) {
	if t.gen.Kind == "fixed" && t.prompt.Kind == "fixed" && t.gen.Mean > 1 && !t.server.gainsVary() {
		return t.waves(clients, replicas)
	}
	return t.closed(clients, replicas)
}

// Clients is Concurrency with the capacity.
func (t *Steadies) Clients(clients int, l Layout) (*Steady, error) {
	if l.Prefillers > 0 {
		return nil, fmt.Errorf("%d replicas that prefill: the steady state of clients that wait has no closed form; simulate it", l.Prefillers)
	}
	st, err := t.Concurrency(clients, l.Replicas)
	if err == nil {
		st.Capacity, err = t.Capacity(l)
	}
	return st, err
}

// Idle is the state of a request that meets hardly any other: no load has shorter times.
func (t *Steadies) Idle() *Steady {
	t.flow.behindRouter(1)
	return t.flow.product(1e-6)
}

// overloaded says that so many replicas of one kind cannot answer a rate.
func (t *Steadies) overloaded(f *flow, rate float64, replicas int, c Capacity) error {
	where, why := "", ""
	switch {
	case f.handed && replicas == 1:
		where = " in the replica that decodes"
	case f.handed:
		where = fmt.Sprintf(" in each of %d replicas that decode", replicas)
	case replicas > 1:
		where = fmt.Sprintf(" in each of %d replicas", replicas)
	}
	if c.Bound == preemption {
		why = ": once its KV cache is full, sequences that outgrow it are computed again"
	}
	return fmt.Errorf("%g requests a second are more than the server can answer: the largest stable rate is %.3g, bound by %s (%d "+
		"sequences at once%s)%s",
		rate, f.units(replicas)*c.Rate, c.Bound, c.Running, where, why)
}
