package view

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"llmprof/deployment"
	"llmprof/plots/render"
	"llmprof/serving"
	"llmprof/unit"
)

// A Simulation is what a server did under one load or several.
type Simulation struct {
	Deployment *deployment.Deployment
	Server     *serving.Server
	Seed       uint64
	Trace      *TraceRead // nil where loads are drawn
	Points     []SimulatedPoint
	Found      string // result of the search for a knee; "" if none was made
	Warnings   []unit.Warning
}

// A TraceRead says what a trace was taken for.
type TraceRead struct {
	File   string `json:"file" jsonschema:"minLength=1"`
	Format string `json:"format" jsonschema:"minLength=1"`
	Unit   string `json:"time_unit" jsonschema:"enum=s,enum=ms,enum=us,enum=ns,enum=date"` // s, ms, us, ns or date
	Block  int    `json:"block_tokens"`                                                    // tokens that a hash is of; 0 without hashes
	Text   string `json:"decided" jsonschema:"minLength=1"`                                // the same in words, with what it was decided by
}

// A SimulatedPoint is one load with what it came to.
type SimulatedPoint struct {
	Name   string
	Load   *serving.Load // nil of a trace
	Result *serving.Result
}

// Add adds a load. What is wrong with it is a warning.
func (s *Simulation) Add(ctx context.Context, name string, l *serving.Load, r *serving.Result) {
	s.Points = append(s.Points, SimulatedPoint{name, l, r})
	s.Warnings = append(s.Warnings, r.Warnings(ctx, s.Server, name, l)...)
}

// LoadName is a short name of a load.
func LoadName(l *serving.Load) string {
	if l.Arrival.Kind == "closed" {
		return fmt.Sprint(l.Arrival.Concurrency)
	}
	return fmt.Sprintf("%g/s", l.Arrival.Rate)
}

// quantiles are the figures of a distribution that the page and the table have: those of which there are intervals.
var quantiles = func() (all []named[float64]) {
	for _, share := range serving.Percentiles {
		all = append(all, named[float64]{fmt.Sprintf("p%.0f", 100*share), share})
	}
	return all
}()

// Page is the result for people.
func (s *Simulation) Page() *render.Document {
	var knee render.Fields
	if text := s.Knee(); text != "" {
		knee.Add("knee", text)
	}
	return &render.Document{Title: fmt.Sprintf("%s under load on %d × %s", s.Deployment.Model.Name, gpusOf(s.Server), s.Deployment.GPU.Name),
		Blocks: []render.Block{render.Fields{Rows: s.head()}, s.latencies(), s.intervals(), s.rates(), knee,
			render.Notes{Title: "Notes", Items: s.notes()}}}
}

// notes are the warnings, and what the requests that count are.
func (s *Simulation) notes() []string {
	warned := Texts(s.Warnings)
	i := slices.IndexFunc(s.Points, func(p SimulatedPoint) bool { return p.Result.Counted() < p.Result.Completed })
	switch {
	case i < 0:
		return warned
	case s.Points[i].Result.Transient == nil:
		return append(warned, "Latency and throughput are of the requests after those that --warmup leaves out.")
	}
	return append(warned, "Latency and throughput are of the requests counted: those in the steady state by "+serving.Method+
		", not those that fill the server and those that are answered when no more come. --warmup 0 counts all.")
}

func gpusOf(s *serving.Server) int {
	each, _ := s.Predictor.Replica()
	return each * (s.Replicas + s.Prefillers)
}

func (s *Simulation) head() []render.Field {
	r := &s.Server.Scheduler
	rules := fmt.Sprintf("%s: at most %d tokens a step and %d sequences, KV blocks of %d tokens", r.Name, r.Budget, r.MaxSeqs, r.Block)
	if r.Receives > 1 {
		rules += fmt.Sprintf(", new requests every %d decode steps", r.Receives)
	}
	if r.Streams > 1 {
		rules += fmt.Sprintf(", %d tokens sent at once", r.Streams)
	}
	rows := []render.Field{
		{Name: "engine", Lines: []string{s.Deployment.Machine.Engine.Profile().Name}},
		{Name: "scheduler", Lines: []string{rules}},
		{Name: "KV cache", Lines: []string{fmt.Sprintf("%d tokens in each replica", s.Server.Tokens())}},
	}
	if s.Trace != nil {
		rows = append(rows, render.Field{Name: "trace", Lines: []string{s.Trace.Text}})
	}
	if s.Server.Replicas > 1 || s.Server.Prefillers > 0 {
		replicas := fmt.Sprintf("%d", s.Server.Replicas)
		if s.Server.Prefillers > 0 {
			replicas = fmt.Sprintf("%d that prefill, %d that decode", s.Server.Prefillers, s.Server.Replicas)
		}
		rows = append(rows, render.Field{Name: "replicas", Lines: []string{replicas}})
	}
	return append(rows, drafts("drafts", s.Server)...)
}

// drafts says what drafts the tokens that a server verifies; nothing where it does not speculate.
func drafts(name string, s *serving.Server) []render.Field {
	if s.Drafts == 0 {
		return nil
	}
	by := "n-grams, which take no time"
	switch {
	case s.Modules > 0:
		by = "the model's own MTP layer"
	case s.Drafter != nil:
		by = s.Drafter.Model.Name
	}
	return []render.Field{{Name: name, Lines: []string{fmt.Sprintf(
		"%s a step by %s; each is right with a probability of %g if those before it are",
		several(s.Drafts, "token"), by, s.Acceptance)}}}
}

func (s *Simulation) latencies() render.Table {
	t := render.Table{Title: "Latency", Columns: []render.Column{{Title: "load", Left: true}, {Title: "time", Left: true}, {Title: "mean"}}}
	for _, q := range quantiles {
		t.Columns = append(t.Columns, render.Column{Title: q.name})
	}
	for _, p := range s.Points {
		for i, k := range p.Result.Sketches() {
			name := ""
			if i == 0 {
				name = p.Name
			}
			cells := []any{name, strings.ToUpper(serving.Times[i]), as[unit.Seconds](finite(k.Mean()))}
			for _, q := range quantiles {
				cells = append(cells, as[unit.Seconds](finite(k.Quantile(q.of))))
			}
			t.Add(cells...)
		}
	}
	return t
}

// intervals is where percentiles lie, all of them of one load, and the median and the 99th of several.
func (s *Simulation) intervals() render.Table {
	t := render.Table{Title: "90 % intervals, and by how many % each cause alone changes the percentile", Columns: []render.Column{
		{Title: "load", Left: true}, {Title: "time", Left: true}, {Title: "low"}, {Title: "high"}, {Title: "constants"}, {Title: "host"},
		{Title: "seed"},
	}}
	part := func(e serving.Ends) string { return fmt.Sprintf("%+.0f %+.0f", 100*(e.Low-1), 100*(e.High-1)) }
	for _, p := range s.Points {
		name := p.Name
		for i, k := range p.Result.Sketches() {
			for j, q := range quantiles {
				if p.Result.Intervals == nil || k.N == 0 || len(s.Points) > 1 && j%3 > 0 {
					continue
				}
				x, at := &p.Result.Intervals[i][j], k.Quantile(q.of)
				whole := x.Whole()
				t.Add(name, strings.ToUpper(serving.Times[i])+" "+q.name, unit.Seconds(at*whole.Low), unit.Seconds(at*whole.High),
					part(x.Constants), part(x.Host), part(x.Seed))
				name = ""
			}
		}
	}
	return t
}

func (s *Simulation) rates() render.Table {
	t := render.Table{Title: "Throughput", Columns: []render.Column{
		{Title: "load", Left: true}, {Title: "requests/s"}, {Title: "goodput/s", Drop: 2}, {Title: "tokens/s"}, {Title: "completed"},
		{Title: "counted", Drop: 5}, {Title: "preempted"},
		{Title: "running", Drop: 1}, {Title: "busy %"}, {Title: "KV cache %"}, {Title: "J/request", Drop: 3}, {Title: "$/M tokens", Drop: 4},
	}}
	for _, p := range s.Points {
		r := p.Result
		t.Add(p.Name, three(r.Rate()), Known(three(r.Goodput()), r.Limited), three(r.Throughput()), r.Completed, r.Counted(), r.Preempted,
			three(r.MeanRunning), render.Percent(r.Busy), render.Percent(r.MeanCache),
			three(float64(r.Energy)/float64(max(r.Completed, 1))), s.dollars(r))
	}
	return t
}

// three is a number with three digits, and with all before the point where it is larger.
func three(v float64) string {
	if v >= 999.5 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// dollars are those of a million generated tokens.
func (s *Simulation) dollars(r *serving.Result) any {
	_, price := s.Server.Predictor.Replica()
	if price <= 0 {
		return nil
	}
	return fmt.Sprintf("%.2f", float64(price)*float64(gpusOf(s.Server))/3600/r.Throughput()*1e6)
}

// Knee is where more load brings latency and little throughput: the last load whose
// throughput for its mean E2E time is the best of all (Kleinrock's power). It is "" where there are too few loads to tell.
func (s *Simulation) Knee() string {
	if s.Found != "" || len(s.Points) < 3 {
		return s.Found
	}
	best, most := 0, 0.0
	for i, p := range s.Points {
		if power := p.Result.Rate() / p.Result.E2E.Mean(); power > most {
			best, most = i, power
		}
	}
	p := &s.Points[best]
	return fmt.Sprintf("%s: %.3g requests/s at a mean E2E of %v, the most throughput for the time", p.Name, p.Result.Rate(),
		unit.Seconds(p.Result.E2E.Mean()))
}
