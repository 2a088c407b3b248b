//go:build !js

package view

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/plots/report"
)

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
