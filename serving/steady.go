package serving

import "llmprof/unit"

// A Steady is the steady state of a server under a load: means over its requests and over time.
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

	apiLoad   float64 // share of its time that the API server is busy, where requests are not followed through it
	pipelined bool    // several batches are on their way through the stages of a replica
}

// nearFull is the share of the largest stable rate beyond which a KV cache that fills at times makes TTFT uncertain.
const nearFull = 0.85

// filledPipeline is the share of the largest stable rate beyond which batches of a pipeline often wait for each other (go test ./serving
// -run SteadyPipeline).
const filledPipeline = 0.4

// Warning says what makes a steady state uncertain; nil if nothing does.
func (st *Steady) Warning() *unit.Warning {
	c := &st.Capacity
	if st.apiLoad > groupsArrivals {
		return new(unit.Warn("frontend_busy", "the API server is busy for %.0f %% of its time, and lets requests come to the engine in groups: "+
			"means may be several times as long as simulated or as short; llmprof simulate --rate has them",
			100*min(st.apiLoad, 1)))
	}
	if st.pipelined && st.Rate > filledPipeline*c.Rate {
		return new(unit.Warn("pipeline_waits", "the batches of a pipeline often wait for each other: the mean TTFT is up to half as long again "+
			"as simulated, TPOT a sixth; llmprof simulate --rate has them"))
	}
	if st.Rate <= nearFull*c.Rate || c.Bound != preemption && c.Bound != "KV blocks" {
		return nil
	}
	return new(unit.Warn("cache_full", "%.3g requests/s are %.0f %% of the largest stable rate: the KV cache is full at times, and rare long "+
		"queues are much of the mean TTFT, which may be several times as long; llmprof simulate --rate has them",
		st.Rate, 100*st.Rate/c.Rate))
}
