//go:build !js

package view

import (
	"fmt"

	"llmprof/analytic"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/report"
	"llmprof/plots"
)

// ReportPage is the page of an estimate. The sections beside it come between those of
// the estimate and the assumptions; with files, its pictures are files beside it.
func (e *Estimate) ReportPage(beside []report.Section, files bool) (*report.Page, error) {
	pictures, err := e.pictures(files)
	if err != nil {
		return nil, err
	}
	operators := []report.Part{{Block: e.prefillTable(), Sortable: true}}
	if e.Tokens > 0 {
		operators = append(operators, report.Part{Block: e.decodeTable(), Sortable: true})
	}
	page := &report.Page{Title: e.title(), Lead: plots.Caption(&e.Case), Cards: e.cards(), Warnings: e.Warnings}
	page.Sections = []report.Section{
		{ID: "times", Title: "Times, energy and cost", Parts: []report.Part{{Block: e.times()}, {Block: e.rates()}, pictures["roofline"]}},
		{ID: "operators", Title: "Operators", Parts: append(operators, pictures["breakdown"], pictures["graph"])},
		{ID: "memory", Title: "Memory", Parts: []report.Part{{Block: e.memoryTable()}, {Block: e.limits()}, pictures["memory-batch"], pictures["memory-context"]}},
		{ID: "sweeps", Title: "Batch, context and split", Parts: []report.Part{pictures["sweep-batch"], pictures["sweep-context"], pictures["sweep-tp"]}},
	}
	page.Sections = append(page.Sections, beside...)
	page.Sections = append(page.Sections,
		report.Section{ID: "assumptions", Title: "Assumptions", Parts: []report.Part{{Block: e.setup()}, {Block: render.Notes{Title: "How the figures come about", Items: e.method()}}}},
		report.Section{ID: "sources", Title: "Sources", Parts: []report.Part{{Block: e.sources()}}})
	page.Drop()
	return page, nil
}

// cards are the headline figures.
func (e *Estimate) cards() []report.Card {
	cards := []report.Card{
		spanCard("Time to first token (TTFT)", e.TTFT),
		{Name: "Throughput", Value: Rate(e.Throughput) + " tok/s", Detail: []string{
			fmt.Sprintf("generated, %s per GPU", Rate(e.Throughput/float64(e.GPUs))), e.utilization()}},
		e.energyCard(), e.memoryCard(),
	}
	if e.Tokens > 0 {
		cards = append([]report.Card{cards[0], spanCard("Time per token (TPOT)", e.TPOT), spanCard("Time to last token (TTLT)", e.TTLT)}, cards[1:]...)
	}
	if e.Price > 0 {
		cards = append(cards, report.Card{Name: "Cost", Value: e.Money.PerMillionGenerated.String(), Detail: []string{
			"per million generated tokens", fmt.Sprintf("at %v per GPU", e.Price)}})
	}
	return cards
}

func spanCard(name string, s analytic.Span) report.Card {
	return report.Card{Name: name, Value: s.Expected.String(), Detail: []string{
		fmt.Sprintf("90 %%: %v to %v", s.Low, s.High), fmt.Sprintf("floor %v", s.Floor)}}
}

func (e *Estimate) energyCard() report.Card {
	energy := &e.Energy
	if e.Tokens == 0 {
		return report.Card{Name: "Energy", Value: energy.PerRequest.String() + " per request", Detail: []string{"over all GPUs"}}
	}
	return report.Card{Name: "Energy", Value: energy.PerToken.String() + " per token", Detail: []string{
		fmt.Sprintf("%v per prompt, %v per request", energy.PerPrompt, energy.PerRequest), "over all GPUs"}}
}

func (e *Estimate) memoryCard() report.Card {
	m := &e.Memory
	c := report.Card{Name: "Memory of one GPU", Value: m.Total.String(), Bad: !m.Fits(),
		Detail: []string{fmt.Sprintf("of %v that %s may take", m.Usable, e.Machine.Engine.Profile().Name), fmt.Sprintf("max batch %d", m.MaxBatch)}}
	if !m.Fits() {
		c.Detail = append(c.Detail, fmt.Sprintf("does not fit: %v short", m.Total-m.Usable))
	}
	return c
}

// sources are where every table's figure was read.
func (e *Estimate) sources() render.Fields {
	c, profile := &e.Machine.Cal, e.Machine.Engine.Profile()
	f := render.Fields{Rows: []render.Field{
		{Name: "Model", Lines: []string{e.Model.Name + ": " + e.Model.Source}},
		{Name: "GPU", Lines: append([]string{e.Machine.GPU.Name + ": " + e.Machine.GPU.Source}, e.Machine.GPU.Traps...)},
		{Name: "Calibration", Lines: []string{c.Name + ": " + c.Source}},
		{Name: "Engine", Lines: []string{profile.Name + ": " + profile.Source}},
		{Name: "Formats", Lines: []string{e.Scheme.Name + ": " + e.SchemeReason}},
	}}
	if e.Price > 0 {
		f.Add("Price", e.PriceSource)
	}
	return f
}
