package main

import (
	"fmt"

	"llmprof/analytic"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/report"
	"llmprof/plots"
)

// lead is the configuration in a line.
func (ans *answer) lead() string { return plots.Caption(&ans.Case) }

// cards are the headline figures.
func (ans *answer) cards() []report.Card {
	cards := []report.Card{
		spanCard("Time to first token (TTFT)", ans.TTFT),
		{Name: "Throughput", Value: rate(ans.Throughput) + " tok/s", Detail: []string{
			fmt.Sprintf("generated, %s a GPU", rate(ans.Throughput/float64(ans.GPUs))), ans.utilization()}},
		ans.energyCard(), ans.memoryCard(),
	}
	if ans.Tokens > 0 {
		cards = append([]report.Card{cards[0], spanCard("Time per token (TPOT)", ans.TPOT), spanCard("Time to last token (TTLT)", ans.TTLT)}, cards[1:]...)
	}
	if ans.Price > 0 {
		cards = append(cards, report.Card{Name: "Cost", Value: ans.Money.PerMillionGenerated.String(), Detail: []string{
			"a million generated tokens", fmt.Sprintf("at %v a GPU", ans.Price)}})
	}
	return cards
}

func spanCard(name string, s analytic.Span) report.Card {
	return report.Card{Name: name, Value: s.Expected.String(), Detail: []string{
		fmt.Sprintf("90 %%: %v to %v", s.Low, s.High), fmt.Sprintf("floor %v", s.Floor)}}
}

func (ans *answer) energyCard() report.Card {
	e := &ans.Energy
	if ans.Tokens == 0 {
		return report.Card{Name: "Energy", Value: e.PerRequest.String() + " a request", Detail: []string{"all GPUs together"}}
	}
	return report.Card{Name: "Energy", Value: e.PerToken.String() + " a token", Detail: []string{
		fmt.Sprintf("%v a prompt, %v a request", e.PerPrompt, e.PerRequest), "all GPUs together"}}
}

func (ans *answer) memoryCard() report.Card {
	m := &ans.Memory
	c := report.Card{Name: "Memory of one GPU", Value: fmt.Sprintf("%v of %v", m.Total, m.Capacity), Bad: !m.Fits(),
		Detail: []string{fmt.Sprintf("max batch %d", m.MaxBatch)}}
	if !m.Fits() {
		c.Detail = append(c.Detail, fmt.Sprintf("does not fit: %v too much", m.Total-m.Capacity))
	}
	return c
}

// assumptions are what the figures rest on.
func (ans *answer) assumptions() render.Notes {
	return render.Notes{Title: "How the figures come about", Items: ans.method()}
}

// sources are where every table's figure was read.
func (ans *answer) sources() render.Fields {
	c, e := &ans.Machine.Cal, ans.Machine.Engine.Profile()
	f := render.Fields{Rows: []render.Field{
		{Name: "Model", Lines: []string{ans.Model.Name + ": " + ans.Model.Source}},
		{Name: "GPU", Lines: append([]string{ans.gpu.Name + ": " + ans.gpu.Source}, ans.gpu.Traps...)},
		{Name: "Calibration", Lines: []string{c.Name + ": " + c.Source}},
		{Name: "Engine", Lines: []string{e.Name + ": " + e.Source}},
		{Name: "Formats", Lines: []string{ans.Scheme.Name + ": " + ans.schemeWhy}},
	}}
	if ans.Price > 0 {
		f.Rows = append(f.Rows, render.Field{Name: "Price", Lines: []string{ans.priceWhy}})
	}
	return f
}
