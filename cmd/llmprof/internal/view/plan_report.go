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
	all := []report.Card{{Name: "Choice", Value: board(r),
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
	how := "simulated"
	if s.Path {
		how = "followed along the sample path of one replica"
	}
	t := render.Table{Title: fmt.Sprintf("%d requests of the load, %s at the slow end of the interval", s.Requests, how),
		Columns: []render.Column{{Title: "", Left: true}, inMillis("mean", "mean"), inMillis("p50", "p50"), inMillis("p90", "p90"),
			inMillis("p95", "p95"), inMillis("p99", "p99"), {Title: "p99 by seed", Key: "seed"}}}
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
			t.Columns = append(t.Columns, inMillis(fmt.Sprintf("%s at %g ×", of, times), ""))
		}
	}
	for i := range p.Shown[:min(len(p.Shown), mostLoads)] {
		r := &p.Shown[i]
		if len(r.Loads) == 0 {
			continue
		}
		cells := []any{board(r)}
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
	source := func(r *plan.Row) string {
		if o := r.Card.Offer(r.GPUs); o != nil {
			return o.Source
		}
		return ""
	}
	for _, from := range distinct(p.Shown, source) {
		prices := distinct(p.Shown, func(r *plan.Row) string {
			if source(r) != from {
				return ""
			}
			return fmt.Sprintf("%s $%.2f", r.Card.GPU.Key, float64(r.Card.Offer(r.GPUs).Hour))
		})
		lines = append(lines, strings.Join(prices, ", ")+": "+from)
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

// Chart is the Pareto plot of the rows of the table.
func (p *Plan) Chart() (*plots.Figure, error) {
	cost := "$ a million tokens"
	if p.Request.Load.IsSet() {
		cost = "$ an hour"
	}
	several := len(p.models()) > 1
	var all []plots.Deployment
	for _, r := range p.Shown {
		d := plots.Deployment{Group: r.Card.GPU.Key, PerUser: r.PerUser(), PerGPU: r.Throughput / float64(r.GPUs), Cost: float64(r.PerMillion),
			Latency: float64(r.E2E)}
		if several {
			d.Group = r.Card.Model.Name + " on " + d.Group
		}
		if p.Request.Load.IsSet() {
			d.Cost = float64(r.PerHour)
		}
		all = append(all, d)
	}
	return plots.Pareto(p.title(), cost, all)
}

// Chart is the Pareto plot of the fleets of the table, each with the speed and the latency of its slowest model.
func (f *Fleet) Chart() (*plots.Figure, error) {
	var all []plots.Deployment
	for i := range f.Fleets {
		x := &f.Fleets[i]
		d := plots.Deployment{Group: gpusOfFleet(x), Cost: float64(x.PerHour), PerUser: x.Rows[0].PerUser()}
		for _, r := range x.Rows {
			d.PerUser, d.Latency = min(d.PerUser, r.PerUser()), max(d.Latency, float64(r.E2E))
			d.PerGPU += r.Throughput / float64(x.GPUs)
		}
		all = append(all, d)
	}
	return plots.Pareto(strings.Join(f.models(), " and ")+"; speed and latency of the slowest model", "$ an hour of a fleet", all)
}

func (f *Fleet) models() (all []string) {
	for _, p := range f.Plans {
		all = append(all, p.models()...)
	}
	return all
}

// ReportPage is the fleet for a meeting: what it costs, and of each model the deployment and what stands behind it. With files, its picture
// is a file beside it.
func (f *Fleet) ReportPage(files bool) (*report.Page, error) {
	picture, err := Picture("deployments", f.Chart, files)
	if err != nil {
		return nil, err
	}
	first := &f.Fleets[0]
	var lead []string
	page := &report.Page{Title: fmt.Sprintf("%s: %d GPUs", strings.Join(f.models(), ", "), first.GPUs), Sheet: true, Warnings: f.warnings(),
		Cards: []report.Card{{Name: "Cost", Value: fmt.Sprintf("$%.0f a month", float64(first.PerMonth())), Detail: []string{
			fmt.Sprintf("$%.2f an hour", float64(first.PerHour)), gpusOfFleet(first)}}}}
	section := func(id, title string, parts ...report.Part) {
		page.Sections = append(page.Sections, report.Section{ID: id, Title: title, Parts: parts})
	}
	var plans []*Plan
	for i := range f.Plans {
		p := f.Chosen(i)
		lead = append(lead, p.title())
		plans = append(plans, p)
		card := p.cards(&p.Shown[0])[0]
		card.Name = p.models()[0]
		page.Cards = append(page.Cards, card)
	}
	page.Lead = strings.Join(lead, "; ")
	section("fleets", "Fleets", report.Part{Block: *f.Table(), Sortable: true}, report.Part{Picture: picture})
	for i, p := range plans {
		var sure render.Fields
		p.choice(&sure)
		section(fmt.Sprintf("model-%d", i+1), p.models()[0], report.Part{Block: sure}, p.percentiles(&p.Shown[0]))
	}
	section("assumptions", "Assumptions and sources", report.Part{Block: sourcesOf(plans)})
	for _, p := range plans {
		p.launches(page, fmt.Sprintf("Launch %s with ", p.models()[0]))
	}
	page.Drop()
	return page, nil
}

// sourcesOf are what the first rows of several plans assume, and where that is from, each once.
func sourcesOf(plans []*Plan) (all render.Fields) {
	for _, p := range plans {
		for _, f := range p.sources(&p.Shown[0]).Rows {
			i := slices.IndexFunc(all.Rows, func(x render.Field) bool { return x.Name == f.Name })
			if i < 0 {
				all.Add(f.Name, f.Lines...)
				continue
			}
			for _, line := range f.Lines {
				if !slices.Contains(all.Rows[i].Lines, line) {
					all.Rows[i].Lines = append(all.Rows[i].Lines, line)
				}
			}
		}
	}
	return all
}
