package view

import (
	"fmt"
	"strings"

	"llmprof/analytic"
	"llmprof/deployment"
	"llmprof/unit"
)

// homeRates is the rates of a variant in a line.
func homeRates(r *deployment.HomeRates) string {
	return fmt.Sprintf("%s: %s tok/s, prompts %s", r.Name, unit.Significant(r.Generate, 2), unit.Significant(r.Prefill, 2))
}

// homeLines are what the short answer says of the memory of the host.
func (e *Estimate) homeLines(add func(name string, lines ...string)) {
	h := e.Home
	if h == nil {
		return
	}
	rate := func(v float64, s analytic.Span) string {
		value, interval := roundedNumber(v, v*float64(s.Expected/s.High), v*float64(s.Expected/s.Low))
		return fmt.Sprintf("%s tok/s (%s)", value, interval)
	}
	own := deployment.RatesOf("", &e.Estimate, e.Workload.Batch)
	text := "prompts " + rate(own.Prefill, e.TTFT)
	if own.Generate > 0 {
		text = "generation " + rate(own.Generate, e.TPOT) + ", " + text
	}
	add("Speed", text)
	add("Host", fmt.Sprintf("%s of %s in its memory (weights %s, KV cache %s); %s, %v", e.giga(h.Weights+h.KV), e.sized(h.RAM),
		e.giga(h.Weights), e.giga(h.KV), h.Host, h.Bandwidth))
	add("Command", h.Command)
	if h.Own != nil {
		add("Own --fit", homeRates(h.Own))
	}
	var worth []string
	for i := range h.Worth {
		worth = append(worth, homeRates(&h.Worth[i]))
	}
	if len(worth) > 0 {
		add("Worth", strings.Join(worth, "; "))
	}
}
