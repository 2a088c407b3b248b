//go:build !js

package view

import (
	"fmt"

	"llmprof/plots/render"
	"llmprof/validate"
)

// RegressionSchema names the form of a comparison of repeated results.
const RegressionSchema = "llmprof.compare-repeated/v1"

// A Regression is results of processes before and after.
type Regression struct {
	Over    float64 // rise that is allowed, as a share
	Changes []validate.Change
	Alone   []string // figures with too few processes
	Sides   [2]Side  // operators before and after, where results have them
	Top     int
}

// A RegressionDocument is a comparison of repeated results for programs.
type RegressionDocument struct {
	Schema    string               `json:"schema"`
	Over      float64              `json:"fail_over"`    // rise that is allowed, as a share
	Alarms    float64              `json:"false_alarms"` // share of comparisons of one release that raise an alarm, at most
	Changes   []ChangeJSON         `json:"changes"`      // figures with two processes or more before and after, the greatest rise first
	Alone     []string             `json:"alone"`        // figures with less
	Operators []OperatorDifference `json:"operators"`    // operators of results that have them, the greatest difference first
}

// A ChangeJSON is a figure of a workload before and after.
type ChangeJSON struct {
	Metric string    `json:"metric"`
	Phase  string    `json:"phase"` // "prefill", "decode" or "both"
	Model  string    `json:"model"`
	Batch  int       `json:"batch"`
	Prompt int       `json:"prompt_len"`
	Gen    int       `json:"gen_len"`
	Base   []float64 `json:"base"`  // value of each process before
	New    []float64 `json:"new"`   // value of each process after
	Ratio  float64   `json:"ratio"` // geometric mean after over that before
	Low    float64   `json:"low"`   // ends of the interval of the ratio
	High   float64   `json:"high"`
	Slower bool      `json:"slower"` // an alarm
}

// Document is the comparison for programs.
func (r *Regression) Document() *RegressionDocument {
	d := &RegressionDocument{Schema: RegressionSchema, Over: r.Over, Alarms: validate.FalseAlarms, Changes: []ChangeJSON{},
		Alone: append([]string{}, r.Alone...), Operators: append([]OperatorDifference{}, r.operators().Operators()...)}
	for _, c := range r.Changes {
		d.Changes = append(d.Changes, ChangeJSON{string(c.Metric), c.Metric.Phase(), c.Model, c.Batch, c.Prompt, c.Gen, c.Base, c.New,
			c.Ratio, c.Low,
			c.High, c.Slower})
	}
	return d
}

func (r *Regression) operators() *Comparison { return &Comparison{Sides: r.Sides[:], Top: r.Top} }

// Page is the comparison for people.
func (r *Regression) Page() *render.Document {
	t := render.Table{Title: "After over before", Columns: []render.Column{{Title: "figure", Left: true}, {Title: "phase", Left: true},
		{Title: "workload", Left: true}, {Title: "processes"}, {Title: "ratio"}, {Title: "low"}, {Title: "high"}, {Title: "", Left: true}}}
	for _, c := range r.Changes {
		kind, verdict := render.Plain, ""
		if c.Slower {
			kind, verdict = render.Total, "slower"
		}
		t.Rows = append(t.Rows, render.Row{Kind: kind, Cells: []any{string(c.Metric), c.Metric.Phase(), c.String(),
			fmt.Sprintf("%d, %d", len(c.Base), len(c.New)), fmt.Sprintf("%.3f", c.Ratio), fmt.Sprintf("%.3f", c.Low),
			fmt.Sprintf("%.3f", c.High), verdict}})
	}
	d := &render.Document{Title: "Repeated results before and after", Blocks: []render.Block{t}}
	if ops := r.operators().operatorTable(); len(ops.Rows) > 0 {
		d.Blocks = append(d.Blocks, ops)
	}
	notes := []string{fmt.Sprintf("A figure is slower where its ratio is above %.3g and its interval above 1. Intervals are of processes: of "+
		"comparisons of one release with itself, %g %% at most raise an alarm.", 1+r.Over, 100*validate.FalseAlarms)}
	d.Blocks = append(d.Blocks, render.Notes{Title: "Notes", Items: append(notes, r.Alone...)})
	return d
}

// Table is the comparison for programs, a figure a row.
func (r *Regression) Table() *render.Table {
	t := render.Keyed("metric", "phase", "model", "batch", "prompt_len", "gen_len", "processes_base", "processes_new", "ratio",
		"low", "high", "slower")
	for _, c := range r.Changes {
		t.Add(string(c.Metric), c.Metric.Phase(), c.Model, c.Batch, c.Prompt, c.Gen, len(c.Base), len(c.New), c.Ratio, c.Low, c.High, c.Slower)
	}
	return t
}
