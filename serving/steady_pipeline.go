package serving

import (
	"context"

	"llmprof/unit"
)

// Requests with short answers are prompts above all, which follow each other through the stages of a pipeline: no turn of all batches says what one meets.
// They are simulated.

// simulates reports whether requests of a pipeline are simulated at a rate. Replicas that share experts or get the cache of prompts are not.
func (f *flow) simulates(rate float64) bool { return !f.handed && f.peers == 1 && f.shortAnswers(rate) }

// simulated is the steady state of one replica at a rate, simulated behind a router that gives it every so many requests.
func (t *Steadies) simulated(f *flow, rate float64) (*Steady, error) {
	jobs, one := f.jobs(rate), t.server
	one.Replicas = 1
	if t.priced == nil {
		t.priced = one.prices()
		t.priced.known = map[mixture]Cost{}
	}
	l := Load{Arrival: Arrival{Kind: "gamma", Rate: rate, Burstiness: float64(f.stages)}, Prompt: t.prompt, Gen: t.gen, Requests: jobs, Seed: 1}
	source, err := l.Source()
	if err != nil {
		return nil, err
	}
	r, err := Simulate(context.Background(), &one, source, Options{Warmup: jobs / 16, stepwise: t.stepwise, priced: t.priced})
	if err != nil {
		return nil, err
	}
	st := &Steady{TTFT: unit.Seconds(r.TTFT.Mean()), E2E: unit.Seconds(r.E2E.Mean()), Utilization: r.Busy, Energy: r.Energy.Times(1 / float64(r.Completed))}
	if r.TPOT.N > 0 {
		st.TPOT = unit.Seconds(r.TPOT.Mean())
	}
	st.Running, st.Waiting = rate*float64(st.E2E-st.TTFT), rate*float64(st.TTFT) // by Little's law
	st.otherBlocks = max(r.MeanCache-st.Running*f.held, 0)
	return st, nil
}
