package view

import (
	"fmt"
	"strings"

	"llmprof/deployment"
	"llmprof/plots/render"
	"llmprof/serving"
	"llmprof/unit"
)

// A Load is a steady state as it is shown.
type Load struct{ *deployment.Load }

// block is the steady state for people.
func (l *Load) block() render.Fields {
	s, name := l.Steady, "Under load: "+loadWords(l.Rate, l.Concurrency)
	if l.Prompt.Kind != "fixed" || l.Gen.Kind != "fixed" {
		name += fmt.Sprintf(", prompts of %s and answers of %s tokens", LengthWords(&l.Prompt), LengthWords(&l.Gen))
	}
	high := func(of func(*serving.Steady) unit.Seconds) []string {
		if of(s) == 0 {
			return []string{"n/a: answers of one token have none"}
		}
		text := of(s).String() + " mean"
		if l.High != nil {
			text += fmt.Sprintf(", %v at the slow end of the 90 %% interval", of(l.High))
		}
		return []string{text}
	}
	throughput := fmt.Sprintf("%s requests/s, %s generated tokens/s", three(s.Rate), three(s.Throughput))
	if l.Rate == nil && l.High != nil { // at a rate the throughput is the load
		throughput += fmt.Sprintf("; %s and %s at the slow end", three(l.High.Rate), three(l.High.Throughput))
	}
	request, gpus := three(float64(s.Energy))+" J", fmt.Sprint(gpusOf(l.Server))
	if s.Cost > 0 {
		request += fmt.Sprintf(", $%s per thousand", three(1000*float64(s.Cost)))
	}
	if hour := l.hour(); hour > 0 {
		gpus += fmt.Sprintf(", $%.2f/h", float64(hour))
	}
	rows := []render.Field{
		{Name: "TTFT", Lines: high(func(s *serving.Steady) unit.Seconds { return s.TTFT })},
		{Name: "TPOT", Lines: high(func(s *serving.Steady) unit.Seconds { return s.TPOT })},
		{Name: "E2E", Lines: high(func(s *serving.Steady) unit.Seconds { return s.E2E })},
		{Name: "Throughput", Lines: []string{throughput}},
		{Name: "Running", Lines: []string{fmt.Sprintf("%s sequences decode, %s requests wait for their first token", three(s.Running), three(
			s.Waiting))}},
		{Name: "In use", Lines: []string{fmt.Sprintf("%.0f %% of the time, %.1f %% of the KV cache of %d tokens", 100*s.Utilization, 100*s.Cache,
			l.Server.Tokens())}},
		{Name: "A request", Lines: []string{request}},
		{Name: "GPUs", Lines: []string{gpus}},
		{Name: "At most", Lines: []string{fmt.Sprintf("%s requests/s, bound by %s", three(s.Capacity.Rate), s.Capacity.Bound)}},
	}
	return render.Fields{Title: name, Rows: append(rows, drafts("Drafts", l.Server)...)}
}

// loadWords are a rate, or clients.
func loadWords(rate *float64, clients *int) string {
	if rate != nil {
		return several(*rate, "request") + " a second"
	}
	return several(*clients, "client") + ", one request each at a time"
}

// hour is the price of all replicas for an hour; 0 where none is known.
func (l *Load) hour() unit.Dollars {
	_, price := l.Server.Predictor.Replica()
	return unit.Dollars(float64(price) * float64(gpusOf(l.Server)))
}

// A loadJSON is the steady state under a load.
type loadJSON struct {
	Rate        *float64         `json:"request_rate_hz" jsonschema:"exclusiveMinimum=0"`
	Concurrency *int             `json:"concurrency" jsonschema:"minimum=1"`
	PromptLens  string           `json:"prompt_lengths" jsonschema:"minLength=1"` // tokens of prompts, as --prompt-len gives them
	GenLens     string           `json:"gen_lengths" jsonschema:"minLength=1"`    // tokens of answers, as --gen-len gives them
	Scheduler   string           `json:"scheduler" jsonschema:"minLength=1"`
	Speculation *speculationJSON `json:"speculation"` // null where nothing is drafted
	TTFT        float64          `json:"ttft_s" jsonschema:"exclusiveMinimum=0"`
	TPOT        *float64         `json:"tpot_s" jsonschema:"exclusiveMinimum=0"` // null of answers of one token
	E2E         float64          `json:"e2e_s" jsonschema:"exclusiveMinimum=0"`
	Requests    float64          `json:"requests_s" jsonschema:"exclusiveMinimum=0"`
	Generated   float64          `json:"generated_tok_s" jsonschema:"exclusiveMinimum=0"`
	Running     float64          `json:"running" jsonschema:"minimum=0"`               // sequences that decode, of all replicas
	Waiting     float64          `json:"waiting" jsonschema:"minimum=0"`               // requests without their first token
	Utilization float64          `json:"utilization" jsonschema:"minimum=0,maximum=1"` // share of the time in which a replica runs a step
	KVTokens    int              `json:"kv_cache_tokens" jsonschema:"minimum=1"`       // that the KV cache of a replica holds
	KV          float64          `json:"kv_cache_share" jsonschema:"minimum=0,maximum=1"`
	Energy      float64          `json:"energy_j_request" jsonschema:"minimum=0"`
	Cost        *float64         `json:"cost_usd_request"`            // null where no price is known
	GPUs        int              `json:"gpus" jsonschema:"minimum=1"` // GPUs of all replicas, with those that only prefill
	Hour        *float64         `json:"cost_usd_hour"`               // of these; null where no price is known
	Capacity    serving.Capacity `json:"capacity"`
	High        *highJSON        `json:"high"`    // null where the slow end is not stable
	Metrics     []MetricDocument `json:"metrics"` // its figures as a list
}

// A highJSON is the slow end of the 90 % interval.
type highJSON struct {
	TTFT      float64  `json:"ttft_s" jsonschema:"exclusiveMinimum=0"`
	TPOT      *float64 `json:"tpot_s" jsonschema:"exclusiveMinimum=0"` // null of answers of one token
	E2E       float64  `json:"e2e_s" jsonschema:"exclusiveMinimum=0"`
	Generated float64  `json:"generated_tok_s" jsonschema:"exclusiveMinimum=0"`
}

// Document is the steady state for programs, as an estimate has it; nil if none was asked for.
func (l *Load) Document() any { return l.document() }

func (l *Load) document() *loadJSON {
	if l.Load == nil {
		return nil
	}
	s := l.Steady
	j := &loadJSON{
		Metrics: metricDocuments(s.Metrics(l.High)),
		Rate:    l.Rate, Concurrency: l.Concurrency, PromptLens: l.Prompt.String(), GenLens: l.Gen.String(), Scheduler: l.Server.Scheduler.Name,
		Speculation: speculationOf(l.Server), TTFT: float64(s.TTFT), TPOT: unit.OrNull(float64(s.TPOT)), E2E: float64(s.E2E),
		Requests: s.Rate, Generated: s.Throughput, Running: s.Running, Waiting: s.Waiting, Utilization: s.Utilization,
		KVTokens: l.Server.Tokens(), KV: s.Cache,
		Energy: float64(s.Energy), Cost: unit.OrNull(float64(s.Cost)), GPUs: gpusOf(l.Server), Hour: unit.OrNull(float64(l.hour())),
		Capacity: s.Capacity,
	}
	if h := l.High; h != nil {
		j.High = &highJSON{float64(h.TTFT), unit.OrNull(float64(h.TPOT)), float64(h.E2E), h.Throughput}
	}
	return j
}

// Words are the names and the texts of the steady state.
func (l *Load) Words() (all [][2]string) {
	for _, row := range l.block().Rows {
		all = append(all, [2]string{row.Name, strings.Join(row.Lines, " ")})
	}
	return all
}
