package serving

import (
	"fmt"
	"math"

	"llmprof/unit"
)

// Replicas that prefill and replicas that decode are two queues in tandem: the second has the first's departures as its arrivals, which
// are taken for a Poisson process, and the KV cache of a prompt goes over a link between both.

// pools prepares the two kinds of replicas of a disaggregated server.
func (t *Steadies) pools() error {
	if t.prefill != nil {
		return nil
	}
	first := t.server
	first.Drafts, first.Drafter = 0, nil
	known := t.known
	if t.server.Drafts > 0 {
		known = stepCosts{}
	}
	prefill, err := first.flowWith(t.ctx, t.prompt, Fixed(1), known)
	if err != nil {
		return err
	}
	decode, err := t.server.flowWith(t.ctx, t.prompt, t.gen, t.known)
	if err != nil {
		return err
	}
	decode.handed = true
	t.prefill, t.decode = prefill, decode
	return nil
}

// disaggregated is the steady state of replicas that prefill, and of those that decode.
func (t *Steadies) disaggregated(rate float64, l *Layout) (*Steady, error) {
	replicas, prefillers := l.Replicas, l.Prefillers
	rest, err := t.handedOver(rate, l)
	if err != nil {
		return nil, err
	}
	first, err := t.firstTokens(rate/t.prefill.units(prefillers), prefillers)
	if err != nil {
		return nil, err
	}
	st := &Steady{TTFT: first.TTFT, E2E: first.TTFT + rest.E2E, TPOT: rest.E2E.Times(1 / (t.gen.MeanLength() - 1)), Running: rest.Running,
		Energy: first.Energy + rest.Energy, apiLoad: rest.apiLoad, pipelined: rest.pipelined}
	if st, err = t.decode.complete(st, rate, replicas); err != nil {
		return nil, err
	}
	st.Cache = (st.Cache*float64(replicas) + rate*float64(first.TTFT)*t.prefill.begins/t.prefill.units(1)) / float64(replicas+prefillers)
	// By Little's law; those that are handed over have their first token.
	st.Waiting, st.Running = rate*float64(st.TTFT), rate*float64(st.E2E-st.TTFT)
	st.Utilization = (first.Utilization*float64(prefillers) + rest.Utilization*float64(replicas)) / float64(replicas+prefillers)
	if gpus, price := t.server.Predictor.Replica(); price > 0 {
		st.Cost = unit.Dollars(float64(price) * float64(gpus*(replicas+prefillers)) / 3600 / rate)
	}
	return st, nil
}

// handedOver is the time from the first token on: the cache goes over the link, waits for the
// end of the step that runs, and decodes in steps that no prompt lengthens.
func (t *Steadies) handedOver(rate float64, l *Layout) (*Steady, error) {
	st, err := t.open(t.decode, rate, l.Replicas)
	if err != nil {
		return nil, err
	}
	st.E2E += t.server.Predictor.SequenceBytes(t.prompt.MeanLength()).Over(l.Link)
	return st, nil
}

// firstTokens is a replica that only prefills: each of its steps has the prompts that came before it was formed. These are followed: a
// queue that is served in groups of any size has no closed form.
func (t *Steadies) firstTokens(rate float64, replicas int) (*Steady, error) {
	key := [2]float64{rate, float64(replicas)}
	if st, ok := t.firsts[key]; ok {
		return st, nil
	}
	if c := t.prefill.prefillCapacity(replicas); rate*t.prefill.units(replicas) >= c.Rate {
		return nil, fmt.Errorf("%g requests a second are more than the server can answer: the largest stable rate is %.3g, bound by prefill "+
			"(replicas that prefill: %d)",
			rate*t.prefill.units(replicas), c.Rate, replicas)
	}
	t.prefill.behindRouter(math.Ceil(t.prefill.units(replicas)))
	st := t.prefill.sampled(rate, nil)
	t.firsts[key] = st
	return st, nil
}
