//go:build !js

package view

import (
	"fmt"
	"slices"

	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/plots/report"
	"llmprof/validate"
)

// Section is the comparison as a part of the report.
func (v *Validation) Section(files bool) (report.Section, error) {
	s := report.Section{ID: "observed", Title: "Predicted and observed"}
	statement := render.Notes{Items: []string{
		fmt.Sprintf("%d of %d figures of %d measured results are compared, each with the prediction for the model, GPU, engine, split and "+
			"lengths that it "+
			"was measured with, by the constants of \"llmprof validate\".", len(v.Score.Rows), v.Observations, len(v.Files)),
		"Error: predicted over observed, less 1. Inside: what was observed, of repeats the median, is in the predicted 90 % interval. " +
			"Noise: half the width of the observations' own 95 % interval.",
	}}
	s.Parts = []report.Part{
		{Block: statement},
		{Block: v.SummaryTable("Error in %, of observations that nothing was fitted on", false)},
		{Block: v.SummaryTable("Scored separately: a constant was fitted on these", true)},
	}
	_, follows := v.longest()
	timed := slices.ContainsFunc(v.Score.Rows, func(r validate.Row) bool { return r.Metric == validate.TTFT || r.Metric == validate.TPOT })
	for _, draw := range []struct {
		name   string
		figure func() (*plots.Figure, error)
		wanted bool
	}{{"accuracy", v.Scatter, timed}, {"follow", v.Follow, follows}} {
		if !draw.wanted {
			continue
		}
		if _, err := draw.figure(); err != nil { // more engines or batches than one picture keeps apart
			s.Parts = append(s.Parts, report.Part{Block: render.Notes{Items: []string{"Not drawn: " + err.Error()}}})
			continue
		}
		picture, err := Picture(draw.name, draw.figure, files)
		if err != nil {
			return s, fmt.Errorf("picture %s: %w", draw.name, err)
		}
		s.Parts = append(s.Parts, report.Part{Picture: picture})
	}
	if len(v.Score.Rows) > 0 {
		s.Parts = append(s.Parts, report.Part{Block: v.observedTable(), Sortable: true})
	}
	s.Parts = append(s.Parts,
		report.Part{Block: render.Notes{Title: "Not compared", Items: v.Skipped()}},
		report.Part{Block: render.Notes{Title: "To be looked at", Items: v.Findings()}})
	return s, nil
}

// An aspect is something that rows may have in common: then the title says it
// once, and no column says it again and again.
type aspect struct {
	title string
	left  bool
	of    func(*validate.Row) any
	name  func(any) string // in the title
}

func (v *Validation) aspects() []aspect {
	text := func(x any) string { return fmt.Sprint(x) }
	return []aspect{
		{"model", true, func(r *validate.Row) any { return r.Model }, text},
		{"GPU", true, func(r *validate.Row) any { return r.GPU }, func(x any) string { return v.Scorer.GPUName(fmt.Sprint(x)) }},
		{"engine", true, func(r *validate.Row) any { return r.Runs() }, text},
		{"TP", false, func(r *validate.Row) any { return r.TP }, func(x any) string { return fmt.Sprintf("TP %v", x) }},
		{"batch", false, func(r *validate.Row) any { return r.Batch }, func(x any) string { return fmt.Sprintf("batch %v", x) }},
		{"prompt", false, func(r *validate.Row) any { return r.Prompt }, func(x any) string { return fmt.Sprintf("prompt %v", x) }},
		{"generated", false, func(r *validate.Row) any { return r.Gen }, func(x any) string { return fmt.Sprintf("%v generated", x) }},
	}
}

// observedTable has a row for each TTFT, TPOT, TTLT and J/token that was observed.
func (v *Validation) observedTable() render.Table {
	var rows []*validate.Row
	for i := range v.Score.Rows {
		if m := v.Score.Rows[i].Metric; m != validate.EnergyPerPrompt && m != validate.EnergyPerRequest {
			rows = append(rows, &v.Score.Rows[i])
		}
	}
	t := render.Table{Columns: []render.Column{{Title: "metric", Left: true}}}
	var differ []aspect
	for _, a := range v.aspects() {
		if first := a.of(rows[0]); !slices.ContainsFunc(rows, func(r *validate.Row) bool { return a.of(r) != first }) {
			if t.Title != "" {
				t.Title += ", "
			}
			t.Title += a.name(first)
			continue
		}
		differ = append(differ, a)
		t.Columns = append(t.Columns, render.Column{Title: a.title, Left: a.left})
	}
	t.Columns = append(t.Columns, render.Column{Title: "floor"}, render.Column{Title: "low"}, render.Column{Title: "expected"},
		render.Column{Title: "high"},
		render.Column{Title: "observed"}, render.Column{Title: "error in %"}, render.Column{Title: "interval", Left: true})
	for _, r := range rows {
		cells := []any{MetricTitle(r.Metric)}
		for _, a := range differ {
			cells = append(cells, a.of(r))
		}
		t.Rows = append(t.Rows, render.Row{Cells: append(cells, Quantity(r.Metric, r.Floor), Quantity(r.Metric, r.PredictedLow),
			Quantity(r.Metric, &r.Predicted), Quantity(r.Metric, r.PredictedHigh), Quantity(r.Metric, &r.Value), render.Percent(r.Error),
			insideCell(r))})
	}
	return t
}

// insideCell says where the observation is.
func insideCell(r *validate.Row) any {
	inside, ok := r.Inside()
	switch {
	case r.FasterThanFloor:
		return render.Painted{Value: "faster than the floor", Color: render.Bad}
	case !ok:
		return nil // an energy has none
	}
	return judged(inside, "inside", "outside")
}
