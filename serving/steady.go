package serving

import "llmprof/unit"

// A Steady is the steady state of a server under a load, as a row of a table: means over its requests and over time.
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
	Cost        unit.Dollars // cost of a request; 0 where no price is known
	Capacity    Capacity

	apiLoad float64 // share of its time that the API server is busy, where requests are not followed through it
}

// Metrics are the figures of a steady state as a list, over which tables, JSON and sweeps iterate. High is the state at the slow end of the
// interval, nil where there is none.
func (st *Steady) Metrics(high *Steady) []unit.Metric {
	if high == nil {
		high = &Steady{}
	}
	all := []unit.Metric{
		{Key: "load_ttft_s", Title: "TTFT", Unit: "s", Value: float64(st.TTFT), High: float64(high.TTFT)},
		{Key: "load_tpot_s", Title: "TPOT", Unit: "s", Value: float64(st.TPOT), High: float64(high.TPOT)},
		{Key: "load_e2e_s", Title: "E2E", Unit: "s", Value: float64(st.E2E), High: float64(high.E2E)},
		{Key: "load_requests_s", Title: "requests/s", Unit: "req/s", Value: st.Rate},
		{Key: "load_tok_s", Title: "tokens/s", Unit: "tok/s", Value: st.Throughput},
		{Key: "load_running", Title: "running", Value: st.Running},
		{Key: "load_waiting", Title: "waiting", Value: st.Waiting},
		{Key: "load_utilization", Title: "in use", Unit: "share", Value: st.Utilization},
		{Key: "load_kv_share", Title: "KV cache in use", Unit: "share", Value: st.Cache},
		{Key: "load_j_request", Title: "J/request", Unit: "J", Value: float64(st.Energy)},
		{Key: "load_usd_request", Title: "$/request", Unit: "$", Value: float64(st.Cost)},
		{Key: "capacity_requests_s", Title: "requests/s at most", Unit: "req/s", Value: st.Capacity.Rate, Bound: st.Capacity.Bound},
	}
	for i := range all {
		switch m := &all[i]; {
		case m.Value != 0:
		case m.Unit == "$":
			m.Reason = "no price is known"
		case m.Key == "load_tpot_s":
			m.Reason = "one token is generated"
		}
	}
	return all
}

// nearFull is the share of the largest stable rate beyond which a KV cache that fills at times makes TTFT uncertain.
const nearFull = 0.85

// Warning says what makes a steady state uncertain; nil if nothing does.
func (st *Steady) Warning() *unit.Warning {
	c := &st.Capacity
	if st.apiLoad > groupsArrivals {
		return new(unit.Warn("frontend_busy", "the API server is busy for %.0f %% of its time, and lets requests come to the engine in groups: "+
			"means may be several times as long as simulated or as short; llmprof simulate {rate} has them",
			100*min(st.apiLoad, 1)))
	}
	if st.Rate <= nearFull*c.Rate || c.Bound != preemption && c.Bound != "KV blocks" {
		return nil
	}
	return new(unit.Warn("cache_full", "%.3g requests/s are %.0f %% of the largest stable rate: the KV cache is full at times, and rare long "+
		"queues are much of the mean TTFT, which may be several times as long; llmprof simulate {rate} has them",
		st.Rate, 100*st.Rate/c.Rate))
}
