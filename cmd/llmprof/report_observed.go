package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/report"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/models"
	"llmprof/plots"
	compare "llmprof/validate"
)

// observed compares each measured result with the prediction of what it was
// measured on, as "llmprof validate" does. It is nil without such results.
func (a *app) observed(p *paper, ans *answer, results []stored) (*validation, error) {
	v := &validation{}
	var all []compare.Observation
	refused := map[string]error{}
	for i := range results {
		r := &results[i]
		if r.measured == nil {
			continue
		}
		name := filepath.Base(r.file)
		v.files = append(v.files, name)
		some, err := compare.Reduce(cmp.Or(r.origin, name), r.measured)
		if err == nil && len(some) == 0 {
			err = errors.New("it holds no time and no energy")
		}
		if err != nil {
			refused[name] = err
		}
		all = append(all, some...)
	}
	if len(v.files) == 0 {
		return nil, nil //nolint:nilnil // there is nothing to compare, which is no error
	}
	constants, err := newCalibrations(p.calibration)
	if err != nil {
		return nil, err
	}
	scorer, err := a.scorer(p.hardware, constants)
	if err != nil {
		return nil, err
	}
	table := scorer.Model
	scorer.Model = func(name string) (*models.Model, error) {
		if name == ans.Model.Name { // of a directory or the hub
			return ans.Model, nil
		}
		return table(name)
	}
	v.scorer, v.total, v.score = scorer, len(all), scorer.Score(all)
	v.dims = differing(v.score.Rows, compare.ByEngine, compare.ByGPU, compare.ByTP, compare.ByModel)
	for _, name := range v.files {
		if err := refused[name]; err != nil {
			v.score.Refuse(name, err)
		}
	}
	return v, nil
}

// differing are the dimensions that rows are not all alike in.
func differing(rows []compare.Row, dims ...compare.Dimension) (some []compare.Dimension) {
	for _, d := range dims {
		if groups := compare.Summarize(rows, d); len(groups) > len(compare.Summarize(rows)) {
			some = append(some, d)
		}
	}
	return some
}

// section is the comparison as a part of the report.
func (v *validation) section(files bool) (report.Section, error) {
	s := report.Section{ID: "observed", Title: "Predicted and observed"}
	statement := render.Notes{Items: []string{
		fmt.Sprintf("%d of %d figures of %d measured results are compared, each with the prediction for the model, GPU, engine, split and lengths that it "+
			"was measured with, by the constants of \"llmprof validate\".", len(v.score.Rows), v.total, len(v.files)),
		"Error: predicted over observed, less 1. Inside: what was observed, of repeats the median, is in the predicted 90 % interval. " +
			"Noise: half the width of the observations' own 95 % interval.",
	}}
	s.Parts = []report.Part{
		{Block: statement},
		{Block: v.summaryTable("Error in %, of observations that nothing was fitted on", false)},
		{Block: v.summaryTable("Scored separately: a constant was fitted on these", true)},
	}
	for _, draw := range []struct {
		name   string
		figure func() (*plots.Figure, error)
		wanted bool
	}{{"accuracy", v.scatter, v.hasTimes()}, {"follow", v.follow, v.canFollow()}} {
		if !draw.wanted {
			continue
		}
		if _, err := draw.figure(); err != nil { // more engines or batches than one picture keeps apart
			s.Parts = append(s.Parts, report.Part{Block: render.Notes{Items: []string{"Not drawn: " + err.Error()}}})
			continue
		}
		picture, err := view.Picture(draw.name, draw.figure, files)
		if err != nil {
			return s, fmt.Errorf("picture %s: %w", draw.name, err)
		}
		s.Parts = append(s.Parts, report.Part{Picture: picture})
	}
	if len(v.score.Rows) > 0 {
		s.Parts = append(s.Parts, report.Part{Block: v.observedTable(), Sortable: true})
	}
	s.Parts = append(s.Parts,
		report.Part{Block: render.Notes{Title: "Not compared", Items: v.skipped()}},
		report.Part{Block: render.Notes{Title: "To be looked at", Items: v.findings()}})
	return s, nil
}

// hasTimes reports whether there is a TTFT or a TPOT to draw.
func (v *validation) hasTimes() bool {
	return slices.ContainsFunc(v.score.Rows, func(r compare.Row) bool { return r.Metric == compare.TTFT || r.Metric == compare.TPOT })
}

// canFollow reports whether one model was observed at two prompts or batches.
func (v *validation) canFollow() bool {
	_, ok := v.longest()
	return ok
}

// An aspect is something that rows may have in common: then the title says it
// once, and no column says it again and again.
type aspect struct {
	title string
	left  bool
	of    func(*compare.Row) any
	name  func(any) string // in the title
}

func (v *validation) aspects() []aspect {
	text := func(x any) string { return fmt.Sprint(x) }
	return []aspect{
		{"model", true, func(r *compare.Row) any { return r.Model }, text},
		{"GPU", true, func(r *compare.Row) any { return r.GPU }, func(x any) string { return v.gpuName(fmt.Sprint(x)) }},
		{"engine", true, func(r *compare.Row) any { return r.Runs() }, text},
		{"TP", false, func(r *compare.Row) any { return r.TP }, func(x any) string { return fmt.Sprintf("TP %v", x) }},
		{"batch", false, func(r *compare.Row) any { return r.Batch }, func(x any) string { return fmt.Sprintf("batch %v", x) }},
		{"prompt", false, func(r *compare.Row) any { return r.Prompt }, func(x any) string { return fmt.Sprintf("prompt %v", x) }},
		{"generated", false, func(r *compare.Row) any { return r.Gen }, func(x any) string { return fmt.Sprintf("%v generated", x) }},
	}
}

// observedTable has a row for each TTFT, TPOT, TTLT and J/token that was observed.
func (v *validation) observedTable() render.Table {
	var rows []*compare.Row
	for i := range v.score.Rows {
		if m := v.score.Rows[i].Metric; m != compare.EnergyPerPrompt && m != compare.EnergyPerRequest {
			rows = append(rows, &v.score.Rows[i])
		}
	}
	t := render.Table{Columns: []render.Column{{Title: "metric", Left: true}}}
	var differ []aspect
	for _, a := range v.aspects() {
		if first := a.of(rows[0]); !slices.ContainsFunc(rows, func(r *compare.Row) bool { return a.of(r) != first }) {
			if t.Title != "" {
				t.Title += ", "
			}
			t.Title += a.name(first)
			continue
		}
		differ = append(differ, a)
		t.Columns = append(t.Columns, render.Column{Title: a.title, Left: a.left})
	}
	t.Columns = append(t.Columns, render.Column{Title: "floor"}, render.Column{Title: "low"}, render.Column{Title: "expected"}, render.Column{Title: "high"},
		render.Column{Title: "observed"}, render.Column{Title: "error in %"}, render.Column{Title: "interval", Left: true})
	for _, r := range rows {
		cells := []any{short(r.Metric)}
		for _, a := range differ {
			cells = append(cells, a.of(r))
		}
		t.Rows = append(t.Rows, render.Row{Cells: append(cells, quantity(r.Metric, r.Floor), quantity(r.Metric, r.PredictedLow),
			quantity(r.Metric, &r.Predicted), quantity(r.Metric, r.PredictedHigh), quantity(r.Metric, &r.Value), render.Percent(r.Error), insideCell(r))})
	}
	return t
}

// insideCell says where the observation is.
func insideCell(r *compare.Row) any {
	inside, ok := r.Inside()
	switch {
	case r.FasterThanFloor:
		return render.Painted{Value: "faster than the floor", Color: render.Bad}
	case !ok:
		return nil // an energy has none
	case inside:
		return render.Painted{Value: "inside", Color: render.Good}
	}
	return render.Painted{Value: "outside", Color: render.Bad}
}
