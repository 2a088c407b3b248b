package view

import (
	"fmt"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/serving"
)

// A Load is the steady state of a server under a load.
type Load struct {
	Rate        *float64
	Concurrency *int
	Server      *serving.Server
	Steady      *serving.Steady
}

// block is the steady state for people.
func (l *Load) block() render.Block {
	s, name := l.Steady, ""
	if l.Rate != nil {
		name = fmt.Sprintf("Under load: %g requests a second", *l.Rate)
	} else {
		name = fmt.Sprintf("Under load: %d clients, one request each at a time", *l.Concurrency)
	}
	rows := []render.Field{
		{Name: "TTFT", Lines: []string{s.TTFT.String() + " mean"}},
		{Name: "TPOT", Lines: []string{s.TPOT.String() + " mean"}},
		{Name: "E2E", Lines: []string{s.E2E.String() + " mean"}},
		{Name: "Throughput", Lines: []string{fmt.Sprintf("%s requests/s, %s generated tokens/s", three(s.Rate), three(s.Throughput))}},
		{Name: "Running", Lines: []string{fmt.Sprintf("%s sequences decode, %s requests wait for their first token", three(s.Running), three(s.Waiting))}},
		{Name: "In use", Lines: []string{fmt.Sprintf("%.0f %% of the time, %.1f %% of the KV cache of %d tokens", 100*s.Utilization, 100*s.Cache, l.Server.Tokens())}},
		{Name: "A request", Lines: []string{three(float64(s.Energy)) + " J" + l.dollars()}},
		{Name: "At most", Lines: []string{fmt.Sprintf("%s requests/s, bound by %s", three(s.Capacity.Rate), s.Capacity.Bound)}},
	}
	return render.Fields{Title: name, Rows: rows}
}

func (l *Load) dollars() string {
	if l.Steady.Cost <= 0 {
		return ""
	}
	return fmt.Sprintf(", %.3g $", float64(l.Steady.Cost))
}

type loadJSON struct {
	Rate        *float64     `json:"request_rate_hz"`
	Concurrency *int         `json:"concurrency"`
	Scheduler   string       `json:"scheduler"`
	TTFT        float64      `json:"ttft_s"`
	TPOT        float64      `json:"tpot_s"`
	E2E         float64      `json:"e2e_s"`
	Requests    float64      `json:"requests_s"`
	Generated   float64      `json:"generated_tok_s"`
	Running     float64      `json:"running"`
	Waiting     float64      `json:"waiting"`
	Utilization float64      `json:"utilization"`
	KVTokens    int          `json:"kv_cache_tokens"`
	KV          float64      `json:"kv_cache_share"`
	Energy      float64      `json:"energy_j_request"`
	Cost        *float64     `json:"cost_usd_request"`
	Capacity    capacityJSON `json:"capacity"`
}

type capacityJSON struct {
	Requests float64 `json:"requests_s"`
	Bound    string  `json:"bound"`
	Running  int     `json:"running_replica"`
}

// document is the steady state for programs; nil if none was asked for.
func (l *Load) document() *loadJSON {
	if l == nil {
		return nil
	}
	s := l.Steady
	return &loadJSON{
		Rate: l.Rate, Concurrency: l.Concurrency, Scheduler: l.Server.Scheduler.Name, TTFT: float64(s.TTFT), TPOT: float64(s.TPOT), E2E: float64(s.E2E),
		Requests: s.Rate, Generated: s.Throughput, Running: s.Running, Waiting: s.Waiting, Utilization: s.Utilization, KVTokens: l.Server.Tokens(), KV: s.Cache,
		Energy: float64(s.Energy), Cost: OrNull(float64(s.Cost)), Capacity: capacityJSON{s.Capacity.Rate, s.Capacity.Bound, s.Capacity.Running},
	}
}
