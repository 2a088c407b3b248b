//go:build !js

package view

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/plots/render"
	"llmprof/unit"
	"llmprof/validate"
)

// A Validation is predictions beside observations.
type Validation struct {
	Files        []string // files of the observations; none for the embedded observations
	Observations int      // number of observations, with those that are not scored
	By           []validate.Dimension
	Worst        int     // number of rows in the list of the largest errors
	FailOver     float64 // limit of a group's median error, in percent; 0 for none

	Scorer    *validate.Scorer
	Score     *validate.Score
	Operators []validate.ResultOperators
	Sources   []validate.Source
	Live      *validate.Comparison // nil unless the observations were measured for the comparison
}

// Page shows the validation to people.
func (v *Validation) Page() *render.Document {
	d := &render.Document{
		Title: v.title(),
		Blocks: []render.Block{
			v.SummaryTable("Error in %, of observations that nothing was fitted on", false),
			v.SummaryTable("Scored separately: a constant was fitted on these", true),
			v.worstTable(),
			render.Notes{Title: "Not compared", Items: v.Skipped()},
			render.Notes{Title: "To be looked at", Items: v.Findings()},
		},
	}
	d.Blocks = append(d.Blocks, v.operatorBlocks()...)
	if v.Live != nil {
		d.Blocks = append(d.Blocks, missingNotes(v.Live), liveFields(v.Live))
	} else {
		d.Blocks = append(d.Blocks, v.sourceFields())
	}
	return d
}

func (v *Validation) title() string {
	if n := v.Score.Pooled; n > 0 {
		return fmt.Sprintf("%d observations, %d of them compared with their predictions, as medians of %d configurations", v.Observations, n,
			len(v.Score.Rows))
	}
	return fmt.Sprintf("%d observations, %d of them compared with their predictions", v.Observations, len(v.Score.Rows))
}

// SummaryTable has a row for each group and metric, and a row for each metric over
// all groups, of observations that a constant was fitted on or of the others.
func (v *Validation) SummaryTable(title string, fitted bool) render.Table {
	groups, all := validate.Summarize(v.Score.Rows, v.By...), validate.Summarize(v.Score.Rows)
	other := func(s validate.Summary) bool { return s.Fitted != fitted }
	groups, all = slices.DeleteFunc(groups, other), slices.DeleteFunc(all, other)
	t := render.Table{Title: title, Columns: []render.Column{{Title: "metric", Left: true}}}
	for _, d := range v.By {
		t.Columns = append(t.Columns, render.Column{Title: string(d), Left: d != validate.ByTP && d != validate.ByBatch})
	}
	t.Columns = append(t.Columns, render.Column{Title: "n"}, render.Column{Title: "bias", Drop: 1}, render.Column{Title: "median"},
		render.Column{Title: "mean", Drop: 2}, render.Column{Title: "p90"}, render.Column{Title: "inside"},
		render.Column{Title: "repeat", Drop: 2}, render.Column{Title: "noise", Drop: 3})
	for i := range groups {
		t.Add(v.summaryCells(&groups[i])...)
	}
	if len(v.By) == 0 {
		return t // the groups are all of a metric
	}
	for i := range all {
		cells := v.summaryCells(&all[i])
		cells[0] = "all " + MetricTitle(all[i].Metric)
		t.Rows = append(t.Rows, render.Row{Kind: render.Total, Cells: cells})
	}
	return t
}

func (v *Validation) summaryCells(s *validate.Summary) []any {
	cells := []any{MetricTitle(s.Metric)}
	for _, d := range v.By {
		cells = append(cells, groupCell(s, d))
	}
	return append(cells, s.N, render.Percent(s.Bias), render.Percent(s.MedianAPE), render.Percent(s.MeanAPE),
		render.Percent(s.P90APE), as[render.Percent](s.Coverage), as[render.Percent](s.Repeat), as[render.Percent](s.Noise))
}

// MetricTitle is the name of a metric in tables, as "TTFT" or "J/token".
func MetricTitle(m validate.Metric) string {
	switch m {
	case validate.EnergyPerPrompt:
		return "J/prompt"
	case validate.EnergyPerToken:
		return "J/token"
	case validate.EnergyPerRequest:
		return "J/request"
	}
	return strings.ToUpper(strings.TrimSuffix(string(m), "_s"))
}

func groupCell(s *validate.Summary, d validate.Dimension) any {
	switch d {
	case validate.ByEngine:
		return Cell(s.Engine)
	case validate.ByGPU:
		return Cell(s.GPU)
	case validate.ByTP:
		return Cell(s.TP)
	case validate.ByModel:
		return Cell(s.Model)
	case validate.ByFFN:
		return Cell(s.FFN)
	case validate.ByKind:
		return Cell(s.Kind)
	case validate.ByHost:
		return Cell(s.InHost)
	case validate.ByServer:
		return Cell(s.Server)
	case validate.ByBatch:
		return Cell(s.Batch)
	}
	return Cell(s.Source)
}

func (v *Validation) worstTable() render.Table {
	t := render.Table{Title: "Farthest off", Columns: []render.Column{
		{Title: "metric", Left: true}, {Title: "model", Left: true, Max: 18}, {Title: "GPU", Left: true, Max: 14, Drop: 1},
		{Title: "engine", Left: true, Max: 13},
		{Title: "TP"}, {Title: "batch"}, {Title: "tokens"}, {Title: "floor", Drop: 3}, {Title: "predicted"}, {Title: "observed"}, {Title: "%"},
		{Title: "source", Left: true, Drop: 2, Max: 24},
	}}
	for _, r := range v.Score.Worst(v.Worst) {
		t.Add(MetricTitle(r.Metric), r.Model, r.GPU, r.Runs(), r.TP, r.Batch, fmt.Sprintf("%d+%d", r.Prompt, r.Gen), Quantity(r.Metric, r.Floor),
			Quantity(r.Metric, &r.Predicted), Quantity(r.Metric, &r.Value), render.Percent(r.Error), r.Source)
	}
	return t
}

// Quantity gives a figure the unit of its metric.
func Quantity(m validate.Metric, v *float64) any {
	switch {
	case v == nil:
		return nil
	case m.Energy():
		return unit.Joules(*v)
	}
	return unit.Seconds(*v)
}

// Skipped counts the observations that are not compared, by reason and source, with
// an example of each.
func (v *Validation) Skipped() []string {
	type group struct{ reason, source string }
	count := map[group]int{}
	example := map[group]string{}
	var order []group
	for _, s := range v.Score.Skipped {
		g := group{string(s.Reason), s.Source}
		if count[g] == 0 {
			order = append(order, g)
			example[g] = s.Detail
			if s.Observation != nil {
				example[g] = s.Observation.String() + ": " + s.Detail
			}
		}
		count[g]++
	}
	var items []string
	for _, g := range order {
		items = append(items, fmt.Sprintf("%d of %s: %s (%s)", count[g], g.source, g.reason, example[g]))
	}
	return items
}

// Findings are contradictions and impossible figures among the observations.
func (v *Validation) Findings() []string {
	var items []string
	for _, f := range v.Score.Findings {
		items = append(items, f.Kind+": "+f.Detail)
	}
	return items
}

// sourceFields list the sources of the compared observations that come with the program.
func (v *Validation) sourceFields() render.Fields {
	f := render.Fields{Title: "Sources"}
	if len(v.Files) > 0 {
		return f
	}
	for _, s := range v.Sources {
		n := 0
		for i := range v.Score.Rows {
			if v.Score.Rows[i].Source == s.Key {
				n++
			}
		}
		if n > 0 {
			f.Add(s.Key, fmt.Sprintf("%d of %s (%s): %s", n, s.Title, s.Licence, s.How), s.URL)
		}
	}
	return f
}

// Table has a row for each scored observation.
func (v *Validation) Table() *render.Table {
	t := render.Keyed("metric", "model", "gpu", "engine", "mode", "tp", "batch", "prompt_len", "gen_len", "weights", "load", "fitted",
		"observed", "observed_low",
		"observed_high", "predicted", "low", "high", "floor", "error", "source", "id", "marks", "note")
	for _, r := range v.Score.Rows {
		t.Add(string(r.Metric), r.Model, r.GPU, r.Engine, r.Mode, r.TP, r.Batch, r.Prompt, r.Gen, r.Weights, string(r.Load), r.Fitted, r.Value,
			Cell(r.Low), Cell(r.High), r.Predicted, Cell(r.PredictedLow), Cell(r.PredictedHigh), Cell(r.Floor), r.Error,
			r.Source, r.ID, strings.Join(r.Marks, " "), r.Note)
	}
	return t
}
