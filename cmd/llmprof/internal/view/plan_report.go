//go:build !js

package view

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/plan"
	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/plots/report"
	"llmprof/unit"
)

// ReportPage is the plan for a meeting: the choice and what stands behind it. In print it is one sheet, without manifests. With files, its
// picture is a file beside it.
func (p *Plan) ReportPage(files bool) (*report.Page, error) {
	picture, err := Picture("deployments", p.Chart, files)
	if err != nil {
		return nil, err
	}
	r := &p.Shown[0]
	page := &report.Page{
		Title: fmt.Sprintf("%s: %d × %s", strings.Join(p.models(), ", "), r.GPUs, r.Card.GPU.Name), Lead: p.title(), Sheet: true,
		Cards: p.cards(r), Warnings: Texts(p.warnings()),
	}
	sure := render.Fields{}
	p.choice(&sure)
	page.Sections = []report.Section{
		{ID: "choice", Title: "Choice", Parts: []report.Part{{Block: sure}}},
		{ID: "deployments", Title: "Deployments that qualify", Parts: []report.Part{{Block: p.rows(nil), Sortable: true}, {Picture: picture}}},
		{ID: "latency", Title: "Latency under load", Parts: []report.Part{p.percentiles(r), p.loads()}},
		{ID: "rejected", Title: "Ruled out", Parts: []report.Part{{Block: p.nearest()}}},
		{ID: "assumptions", Title: "Assumptions and sources", Parts: []report.Part{{Block: p.sources(r)}}},
	}
	p.launches(page, "Launch with ")
	page.Drop()
	return page, nil
}

// launches adds how the first row is started to a report.
func (p *Plan) launches(page *report.Page, title string) {
	for i := range p.Launch {
		s := report.Section{ID: fmt.Sprintf("launch-%d", len(page.Sections)), Title: title + p.Launch[i].Engine}
		if i == 0 { // It is the only one that is printed.
			s.ID = fmt.Sprintf("first-launch-%d", len(page.Sections))
		}
		for _, block := range launch(&p.Launch[i], "") {
			s.Parts = append(s.Parts, report.Part{Block: block})
		}
		page.Sections = append(page.Sections, s)
	}
}

// cards are the headline figures of a row.
func (p *Plan) cards(r *plan.Row) []report.Card {
	all := []report.Card{{Name: "Choice", Value: fmt.Sprintf("%d × %s", r.GPUs, r.Card.GPU.Key),
		Detail: []string{Split(r), fmt.Sprintf("weights %s, KV cache %v", r.Scheme, r.Formats.KV)}}}
	if r.PerHour > 0 {
		all = append(all, report.Card{Name: "Cost", Value: fmt.Sprintf("$%.0f a month", float64(r.PerMonth())), Detail: []string{
			fmt.Sprintf("$%.2f an hour", float64(r.PerHour)), fmt.Sprintf("$%.2f a million generated tokens", float64(r.PerMillion))}})
	}
	all = append(all, p.timeCard(r, plan.TTFT, "Time to first token (TTFT)", r.TTFT),
		p.timeCard(r, plan.TPOT, "Time per token (TPOT)", r.TPOT))
	if load := p.Request.Load; r.Capacity > 0 && load.Concurrency == 0 {
		came := load.Rate + load.Throughput/p.Request.Gen.MeanLength()
		all = append(all, report.Card{Name: "Headroom", Value: fmt.Sprintf("%.2g × the load", r.Capacity/came),
			Detail: []string{fmt.Sprintf("up to %.3g requests/s", r.Capacity)}})
	}
	a := p.accuracy(r)
	c := report.Card{Name: "Rests on", Value: several(a.N, "observation"), Bad: a.N == 0, Detail: []string{"of the engine on this GPU"}}
	if a.N > 0 {
		c.Detail = append(c.Detail, fmt.Sprintf("median error %.1f %%", 100**a.MedianAPE))
	}
	return append(all, c)
}

// timeCard is a time of a row beside what was asked of it: at the percentile that was asked for, else at the 95th.
func (p *Plan) timeCard(r *plan.Row, of plan.Figure, name string, mean unit.Seconds) report.Card {
	c := report.Card{Name: name, Value: asAsked(mean), Detail: []string{"mean"}}
	i := slices.IndexFunc(p.Request.Targets, func(t plan.Target) bool { return t.Of == of })
	if s := r.Simulated; s != nil {
		tail := plan.Target{Of: of, At: 0.95}
		if i >= 0 && p.Request.Targets[i].At > 0 {
			tail.At = p.Request.Targets[i].At
		}
		value := asAsked(unit.Seconds(s.Rounded(&tail)))
		if i >= 0 && p.Request.Targets[i].At == 0 {
			c.Detail = []string{fmt.Sprintf("mean; %s at the 95th percentile", value)}
		} else {
			c.Value, c.Detail = value, []string{fmt.Sprintf("at the %.0fth percentile, mean %s", 100*tail.At, short(mean))}
		}
	}
	for i := range p.Request.Targets {
		if t := &p.Request.Targets[i]; t.Of == of {
			c.Detail = append(c.Detail, fmt.Sprintf("asked: %v at most %s", t, asAsked(t.Most)))
		}
	}
	return c
}

// percentiles are what users of a row see.
func (p *Plan) percentiles(r *plan.Row) (part report.Part) {
	s := r.Simulated
	if s == nil {
		return part
	}
	ms := func(title, key string) render.Column {
		return render.Column{Title: title, Key: key, Unit: "ms", Fixed: true, By: 1e-3}
	}
	how := "simulated"
	if s.Path {
		how = "followed along the sample path of one replica"
	}
	t := render.Table{Title: fmt.Sprintf("%d requests of the load, %s at the slow end of the interval", s.Requests, how),
		Columns: []render.Column{{Title: "", Left: true}, ms("mean", "mean"), ms("p50", "p50"), ms("p90", "p90"), ms("p95", "p95"),
			ms("p99", "p99"), {Title: "p99 by seed", Key: "seed"}}}
	for _, of := range []plan.Figure{plan.TTFT, plan.TPOT, plan.ITL, plan.E2E} {
		if s.Mean[of] == 0 {
			continue
		}
		cells := []any{of.String()}
		for _, share := range []float64{0, 0.5, 0.9, 0.95, 0.99} {
			cells = append(cells, millis(unit.Seconds(s.Rounded(&plan.Target{Of: of, At: share}))))
		}
		_, spread := s.Of(&plan.Target{Of: of, At: 0.99})
		t.Add(append(cells, fmt.Sprintf("± %.0f %%", 100*spread))...)
	}
	return report.Part{Block: t}
}

// loads are the rows under multiples of the load.
func (p *Plan) loads() (part report.Part) {
	t := render.Table{Title: "Mean times under multiples of the load", Columns: []render.Column{{Title: "", Left: true}}}
	for _, times := range plan.Loads {
		for _, of := range []string{"TTFT", "TPOT"} {
			t.Columns = append(t.Columns, render.Column{Title: fmt.Sprintf("%s at %g ×", of, times), Unit: "ms", Fixed: true, By: 1e-3})
		}
	}
	for i := range p.Shown[:min(len(p.Shown), mostLoads)] {
		r := &p.Shown[i]
		if len(r.Loads) == 0 {
			continue
		}
		cells := []any{fmt.Sprintf("%d × %s", r.GPUs, r.Card.GPU.Key)}
		for _, l := range r.Loads {
			cells = append(cells, Known(l.TTFT, l.Why == ""), Known(l.TPOT, l.Why == "" && l.TPOT > 0))
		}
		t.Add(cells...)
	}
	if len(t.Rows) == 0 {
		return part
	}
	return report.Part{Block: t}
}

// A sheet has room for so many rows under other loads, and for so many cards that were ruled out.
const (
	mostLoads    = 4
	mostRuledOut = 4
)

// nearest are the cards that came nearest without qualifying.
func (p *Plan) nearest() render.Block {
	f := p.rejected()
	f.Title = ""
	if more := len(f.Rows) - mostRuledOut; more > 0 {
		f.Rows = f.Rows[:mostRuledOut]
		f.Add("Others", fmt.Sprintf("%d more: --rejected says why", more))
	}
	if len(f.Rows) == 0 {
		return nil
	}
	return f
}

// sources are what the choice assumes, and where that is from.
func (p *Plan) sources(r *plan.Row) render.Fields {
	c, profile := &r.Card.Machine.Cal, r.Card.Machine.Engine.Profile()
	var f render.Fields
	f.Add("Times", "At the "+map[bool]string{true: "expected end", false: "slow end"}[p.Request.Expected]+" of 90 % intervals: mean times "+
		"are steady states, percentiles are simulated with several seeds.")
	f.Add("Prices", p.prices()...)
	f.Add("Model", r.Card.Model.Name+": "+r.Card.Model.Source)
	f.Add("GPU", r.Card.GPU.Name+": "+r.Card.GPU.Source)
	f.Add("Constants", c.Name+": "+c.Source)
	f.Add("Engine", profile.Name+": "+profile.Source)
	return f
}

// prices are those of an hour of one GPU of the rows, by their sources.
func (p *Plan) prices() (lines []string) {
	var sources []string
	of := map[string][]string{}
	for i := range p.Shown {
		r := &p.Shown[i]
		o := r.Card.Offer(r.GPUs)
		if o == nil {
			continue
		}
		if !slices.Contains(sources, o.Source) {
			sources = append(sources, o.Source)
		}
		if text := fmt.Sprintf("%s $%.2f", r.Card.GPU.Key, float64(o.Hour)); !slices.Contains(of[o.Source], text) {
			of[o.Source] = append(of[o.Source], text)
		}
	}
	for _, source := range sources {
		lines = append(lines, strings.Join(of[source], ", ")+": "+source)
	}
	return lines
}

// Sheet is the chart with the answer in words below, for a picture that is handed on alone.
func (p *Plan) Sheet() (*plots.Figure, error) {
	f, err := p.Chart()
	if err != nil {
		return nil, err
	}
	var words render.Fields
	p.choice(&words)
	notes := []string{p.Shown[0].String() + "."}
	for _, x := range words.Rows {
		notes = append(notes, x.Name+": "+strings.Join(x.Lines, "; ")+".")
	}
	f.Note(notes...)
	return f, nil
}
