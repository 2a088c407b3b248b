package main

import (
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/validate"
)

// A validation is the comparison of the results that a report was given.
type validation struct {
	files  []string
	total  int
	dims   []validate.Dimension
	scorer *validate.Scorer
	score  *validate.Score
}

// view is the comparison in the form that package view shows.
func (v *validation) view() *view.Validation {
	return &view.Validation{Files: v.files, Observations: v.total, By: v.dims, Scorer: v.scorer, Score: v.score}
}

func (v *validation) summaryTable(title string, fitted bool) render.Table {
	return v.view().SummaryTable(title, fitted)
}

func (v *validation) scatter() (*plots.Figure, error) { return v.view().Scatter() }

func (v *validation) follow() (*plots.Figure, error) { return v.view().Follow() }

func (v *validation) longest() (shown *view.Validation, ok bool) {
	shown = v.view()
	return shown, shown.CanFollow()
}

func (v *validation) gpuName(key string) string { return v.view().GPUName(key) }

func (v *validation) skipped() []string { return v.view().Skipped() }

func (v *validation) findings() []string { return v.view().Findings() }

func short(m validate.Metric) string { return view.MetricTitle(m) }

func quantity(m validate.Metric, v *float64) any { return view.Quantity(m, v) }

func rawBlocks(r *result.Result) []render.Block { return view.ProcessBlocks(r) }
