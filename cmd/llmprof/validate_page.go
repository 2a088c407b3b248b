package main

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/unit"
	compare "llmprof/validate"
)

// result is the comparison in its forms.
func (v *validation) result() result {
	return result{page: v.page, table: v.table, data: v.json}
}

// page is the comparison for people.
func (v *validation) page() *render.Document {
	d := &render.Document{
		Title: fmt.Sprintf("%d observations, %d of them compared with their predictions", v.total, len(v.score.Rows)),
		Blocks: []render.Block{
			v.summaryTable("Error in %, of observations that nothing was fitted on", false),
			v.summaryTable("Scored apart: a constant was fitted on these", true),
			v.worstTable(),
			render.Notes{Title: "Not compared", Items: v.skipped()},
			render.Notes{Title: "To be looked at", Items: v.findings()},
			v.sourceFields(),
		},
	}
	d.Blocks = append(d.Blocks, v.operatorBlocks()...)
	return d
}

// summaryTable has a group a row, and a row for all of a metric; of what tells
// groups apart only what was asked for has a column.
func (v *validation) summaryTable(title string, fitted bool) render.Table {
	groups, all := compare.Summarize(v.score.Rows, v.dims...), compare.Summarize(v.score.Rows)
	other := func(s compare.Summary) bool { return s.Fitted != fitted }
	groups, all = slices.DeleteFunc(groups, other), slices.DeleteFunc(all, other)
	t := render.Table{Title: title, Columns: []render.Column{{Title: "metric", Left: true}}}
	for _, d := range v.dims {
		t.Columns = append(t.Columns, render.Column{Title: string(d), Left: d != compare.ByTP && d != compare.ByBatch})
	}
	t.Columns = append(t.Columns, render.Column{Title: "n"}, render.Column{Title: "bias"}, render.Column{Title: "median"},
		render.Column{Title: "mean"}, render.Column{Title: "p90"}, render.Column{Title: "inside"}, render.Column{Title: "noise", Drop: 1})
	for i := range groups {
		t.Rows = append(t.Rows, render.Row{Cells: v.summaryCells(&groups[i])})
	}
	for i := range all {
		cells := v.summaryCells(&all[i])
		cells[0] = "all " + short(all[i].Metric)
		t.Rows = append(t.Rows, render.Row{Kind: render.Total, Cells: cells})
	}
	return t
}

func (v *validation) summaryCells(s *compare.Summary) []any {
	cells := []any{short(s.Metric)}
	for _, d := range v.dims {
		cells = append(cells, groupCell(s, d))
	}
	return append(cells, s.N, render.Percent(s.Bias), render.Percent(s.MedianAPE), render.Percent(s.MeanAPE),
		render.Percent(s.P90APE), share(s.Coverage), share(s.Noise))
}

// short is a metric as people call it.
func short(m compare.Metric) string {
	switch m {
	case compare.EnergyPerPrompt:
		return "J/prompt"
	case compare.EnergyPerToken:
		return "J/token"
	case compare.EnergyPerRequest:
		return "J/request"
	}
	return strings.ToUpper(strings.TrimSuffix(string(m), "_s"))
}

// share is a share in percent, nil where there is none.
func share(s *float64) any {
	if s == nil {
		return nil
	}
	return render.Percent(*s)
}

func groupCell(s *compare.Summary, d compare.Dimension) any {
	switch d {
	case compare.ByEngine:
		return cell(s.Engine)
	case compare.ByGPU:
		return cell(s.GPU)
	case compare.ByTP:
		return cell(s.TP)
	case compare.ByModel:
		return cell(s.Model)
	case compare.ByBatch:
		return cell(s.Batch)
	}
	return cell(s.Source)
}

// worstTable lists the observations that are farthest off.
func (v *validation) worstTable() render.Table {
	t := render.Table{Title: "Farthest off", Columns: []render.Column{
		{Title: "metric", Left: true}, {Title: "model", Left: true, Max: 18}, {Title: "GPU", Left: true, Max: 14, Drop: 1}, {Title: "engine", Left: true, Max: 13},
		{Title: "TP"}, {Title: "batch"}, {Title: "tokens"}, {Title: "floor", Drop: 3}, {Title: "predicted"}, {Title: "observed"}, {Title: "%"},
		{Title: "source", Left: true, Drop: 2, Max: 24},
	}}
	for _, r := range v.score.Worst(v.worst) {
		t.Rows = append(t.Rows, render.Row{Cells: []any{
			short(r.Metric), r.Model, r.GPU, r.Runs(), r.TP, r.Batch, fmt.Sprintf("%d+%d", r.Prompt, r.Gen), quantity(r.Metric, r.Floor),
			quantity(r.Metric, &r.Predicted), quantity(r.Metric, &r.Value), render.Percent(r.Error), r.Source,
		}})
	}
	return t
}

// quantity is a figure in the unit of its metric.
func quantity(m compare.Metric, v *float64) any {
	switch {
	case v == nil:
		return nil
	case m.Energy():
		return unit.Joules(*v)
	}
	return unit.Seconds(*v)
}

// skipped counts what is not compared, by reason and source, with an example.
func (v *validation) skipped() []string {
	type group struct{ reason, source string }
	count := map[group]int{}
	example := map[group]string{}
	var order []group
	for _, s := range v.score.Skipped {
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

func (v *validation) findings() []string {
	var items []string
	for _, f := range v.score.Findings {
		items = append(items, f.Kind+": "+f.Detail)
	}
	return items
}

// sourceFields say where the compared observations are from, if they came with
// the program.
func (v *validation) sourceFields() render.Fields {
	f := render.Fields{Title: "Sources"}
	if len(v.files) > 0 {
		return f
	}
	for _, s := range v.sources {
		n := 0
		for i := range v.score.Rows {
			if v.score.Rows[i].Source == s.Key {
				n++
			}
		}
		if n > 0 {
			f.Rows = append(f.Rows, render.Field{Name: s.Key, Lines: []string{fmt.Sprintf("%d of %s (%s): %s", n, s.Title, s.Licence, s.How), s.URL}})
		}
	}
	return f
}

// table is every comparison, one a row.
func (v *validation) table() *render.Table {
	t := &render.Table{}
	for _, key := range []string{
		"metric", "model", "gpu", "engine", "mode", "tp", "batch", "prompt_len", "gen_len", "weights", "load", "fitted", "observed", "observed_low",
		"observed_high", "predicted", "low", "high", "floor", "error", "source", "id", "marks", "note",
	} {
		t.Columns = append(t.Columns, render.Column{Key: key})
	}
	for i := range v.score.Rows {
		r := &v.score.Rows[i]
		t.Rows = append(t.Rows, render.Row{Cells: []any{
			string(r.Metric), r.Model, r.GPU, r.Engine, r.Mode, r.TP, r.Batch, r.Prompt, r.Gen, r.Weights, string(r.Load), r.Fitted, r.Value,
			cell(r.Low), cell(r.High), r.Predicted, cell(r.PredictedLow), cell(r.PredictedHigh), cell(r.Floor), r.Error,
			r.Source, r.ID, strings.Join(r.Marks, " "), r.Note,
		}})
	}
	return t
}
