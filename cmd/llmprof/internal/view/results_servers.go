//go:build !js

package view

import (
	"fmt"
	"slices"
	"strconv"

	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/plots/render"
	"llmprof/unit"
)

// ServerFigures are the figures of a result that only a server has.
type ServerFigures struct {
	Concurrency *int          `json:"concurrency"` // null where requests came at a rate without a limit
	Rate        *float64      `json:"request_rate_hz"`
	Requests    int           `json:"requests"`
	Failed      int           `json:"failed"`
	Completed   float64       `json:"completed_hz"`
	Goodput     *float64      `json:"goodput_hz"`
	Generated   *float64      `json:"generated_tok_s"`
	Prompt      *float64      `json:"prompt_tokens"` // mean by the server's count
	Output      *float64      `json:"generated_tokens"`
	TTFTTail    *unit.Seconds `json:"ttft_p99_s"`
	TPOTTail    *unit.Seconds `json:"tpot_p99_s"`
	Seed        uint64        `json:"seed"`
}

// Server is nil for a result that is not of a server.
func Server(r *result.Result) *ServerFigures {
	s := r.Serving
	if s == nil {
		return nil
	}
	l := &ServerFigures{
		Concurrency: unit.OrNull(s.Concurrency), Rate: s.RateHz, Requests: s.Requests, Failed: s.Requests - s.Completed, Completed: s.RequestRate,
		Prompt: meanOf(s.PromptTokens), Output: meanOf(s.GeneratedTokens), TTFTTail: tailOf(r.TTFT), TPOTTail: tailOf(r.TPOT),
		Seed: r.Provenance.Seed,
	}
	if r.Throughput != nil {
		l.Generated = r.Throughput.Generated
	}
	if s.Goodput != nil {
		l.Goodput = &s.Goodput.PerSecond
	}
	return l
}

func meanOf(s *stats.Summary) *float64 {
	if s == nil {
		return nil
	}
	return &s.Mean
}

// tailOf is the 99th percentile of a time, nil where there is none.
func tailOf(t *result.Times) *unit.Seconds {
	if t == nil {
		return nil
	}
	return new(unit.Seconds(t.P99))
}

// load says how requests arrived.
func (l *ServerFigures) load() string {
	switch {
	case l.Rate == nil && l.Concurrency == nil:
		return "–"
	case l.Rate == nil:
		return fmt.Sprintf("%d at a time", *l.Concurrency)
	case l.Concurrency == nil:
		return fmt.Sprintf("%g/s", *l.Rate)
	}
	return fmt.Sprintf("%g/s, at most %d", *l.Rate, *l.Concurrency)
}

// ServerTable lists the results of servers for people, with a column of their IDs if
// ids is set.
func ServerTable(rows []ResultRow, ids bool) render.Table {
	t := render.Table{Title: "Servers", Columns: []render.Column{
		{Title: "id", Left: true}, {Title: "model", Left: true, Max: 24, Drop: 1}, {Title: "tokens", Drop: 6},
		{Title: "load"}, {Title: "req/s"}, {Title: "good/s", Drop: 4}, {Title: "tok/s", Drop: 5}, {Title: "TTFT"}, {Title: "p99", Drop: 3},
		{Title: "TPOT"},
		{Title: "failed"}, {Title: "marks", Left: true, Drop: 2, Max: 24},
	}}
	for _, r := range rows {
		s := r.Server
		if s == nil {
			continue
		}
		failed := any(s.Failed)
		if s.Failed > 0 {
			failed = render.Painted{Value: fmt.Sprintf("%d of %d", s.Failed, s.Requests), Color: render.Bad}
		}
		t.Add(r.name(), r.Model, lengthOf(s.Prompt, r.PromptLen)+"+"+lengthOf(s.Output, r.GenLen), s.load(), Rate(s.Completed),
			rateOrNone(s.Goodput),
			rateOrNone(s.Generated), Cell(r.TTFT), Cell(s.TTFTTail), Cell(r.TPOT), failed, joined(r.Marks))
	}
	if !slices.ContainsFunc(rows, func(r ResultRow) bool { return r.Server != nil && r.Server.Goodput != nil }) {
		t.LeaveOut(5) // good/s
	}
	if !ids {
		t.LeaveOut(0) // id
	}
	return t
}

// lengthOf is the mean number of tokens that the server counted, else the number asked for.
func lengthOf(counted *float64, asked int) string {
	if counted == nil {
		return strconv.Itoa(asked)
	}
	return fmt.Sprintf("%.4g", *counted)
}

func rateOrNone(v *float64) any {
	if v == nil {
		return nil
	}
	return Rate(*v)
}
