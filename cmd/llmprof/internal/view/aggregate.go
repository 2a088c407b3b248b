//go:build !js

package view

import (
	"fmt"
	"slices"
	"strings"

	"llmprof/internal/stats"
	"llmprof/measure/aggregate"
	"llmprof/plots/render"
	"llmprof/unit"
)

// AggregatePage shows one experiment whole, and several as a table with their warnings.
func AggregatePage(r *aggregate.Report) *render.Document {
	d := &render.Document{}
	if len(r.Experiments) == 1 {
		d = experimentPage(&r.Experiments[0])
	} else {
		var warned []string
		for _, e := range r.Experiments {
			for _, w := range e.Method.Warnings {
				warned = append(warned, e.ID+": "+w)
			}
		}
		d.Blocks = append(d.Blocks, experimentTable(r), render.Notes{Title: "Warnings", Items: warned})
	}
	for i := range r.Cycles {
		d.Blocks = append(d.Blocks, cycleTable(&r.Cycles[i]))
	}
	return d
}

func cycleTable(c *aggregate.Cycles) render.Table {
	t := render.Table{Title: fmt.Sprintf("%d cycles of %s", c.N, c.Experiment), Columns: []render.Column{
		{Title: "metric", Left: true}, {Title: "mean"}, {Title: "±95 %"}, {Title: "std"}, {Title: "min"}, {Title: "max"}, {Title: "CV, %"},
		{Title: "class", Left: true},
	}}
	for i := range c.Metrics {
		m := &c.Metrics[i]
		var half any
		if m.CIHigh != nil {
			half = digits(*m.CIHigh - m.Mean)
		}
		t.Add(m.Name, digits(m.Mean), half, as[digits](m.Std), digits(m.Min), digits(m.Max), as[render.Percent](m.CV), Cell(m.Class))
	}
	return t
}

func experimentTable(r *aggregate.Report) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "id", Left: true}, {Title: "model", Left: true, Max: 24}, {Title: "processes"}, {Title: "tok/s"}, {Title: "TTFT", Unit: "s"},
		{Title: "TPOT", Unit: "s"},
		{Title: "energy", Unit: "J"}, {Title: "J/out token"}, {Title: "FLOP/s", Drop: 1}, {Title: "warnings", Drop: 2},
	}}
	for _, e := range r.Experiments {
		t.Add(e.ID, e.ModelName, e.Method.NumProcesses, as[render.Tenths](e.Totals.TokensPerS), Cell(of(e.Latency.TTFT, median)),
			Cell(of(e.Latency.TPOT, median)),
			as[unit.Joules](e.Totals.EnergyJ), as[unit.Joules](e.AIPerf.PerOutputToken), as[unit.FLOPsPerSec](e.Efficiency.FLOPsPerSecond),
			len(e.Method.Warnings))
	}
	return t
}

func experimentPage(e *aggregate.Aggregate) *render.Document {
	w := &e.Workload
	gpus := "none named"
	if len(e.GPUs) > 0 {
		gpus = fmt.Sprintf("%d × %s", len(e.GPUs), e.GPUs[0])
	}
	checks := fmt.Sprintf("%d, which ran together for %v", e.Method.NumProcesses, unit.Seconds(e.Method.OverlapS))
	if e.Method.NumProcesses == 1 {
		checks = fmt.Sprintf("1, for %v", unit.Seconds(e.Method.ShortestS))
	}
	frame := render.Fields{Rows: []render.Field{
		{Name: "Model", Lines: []string{e.ModelName}},
		{Name: "Engine", Lines: []string{strings.TrimSpace(e.Engine + " " + e.EngineVersion)}},
		{Name: "GPUs", Lines: []string{gpus}},
		{Name: "Workload", Lines: []string{fmt.Sprintf("batch %d, prompt %d, generate %d, weights %s", w.Batch, w.PromptLen, w.GenLen,
			w.Weights)}},
		{Name: "Processes", Lines: []string{checks}},
	}}
	times := render.Table{Title: "Times, over the samples of all processes", Columns: timeColumns()}
	for _, t := range []named[*stats.Summary]{{"TTFT", e.Latency.TTFT}, {"TPOT", e.Latency.TPOT}, {"TTLT", e.Latency.TTLT},
		{"step", e.Latency.Step}} {
		if t.of != nil {
			times.Rows = append(times.Rows, timeRow(t.name, t.of, nil))
		}
	}
	notes := slices.Concat(e.Method.Warnings, e.Warnings)
	if len(e.Marks) > 0 {
		notes = slices.Insert(notes, 0, "marked: "+strings.Join(e.Marks, ", "))
	}
	return &render.Document{Title: e.ID, Blocks: []render.Block{
		frame, times, figureTable(e), render.Notes{Title: "Warnings", Items: notes},
	}}
}

// figureTable shows the main figures of an experiment, and for a missing one the reason.
func figureTable(e *aggregate.Aggregate) render.Table {
	t := render.Table{Title: "Figures", Columns: []render.Column{
		{Title: "metric", Left: true}, {Title: "value"}, {Title: "", Left: true, Max: 60},
	}}
	for _, f := range []struct {
		key, title string
		value      any
	}{
		{"totals.total_input_tokens", "input tokens", as[whole](e.Totals.InputTokens)},
		{"totals.total_output_tokens", "output tokens", as[whole](e.Totals.OutputTokens)},
		{"totals.tokens_per_second", "output tokens per second", as[render.Tenths](e.Totals.TokensPerS)},
		{"totals.total_energy_j", "energy", as[unit.Joules](e.Totals.EnergyJ)},
		{"energy_breakdown.adjusted_j", "energy, idle left out", as[unit.Joules](e.Breakdown.AdjustedJ)},
		{"efficiency.joules_per_token", "energy per token, input and output", as[unit.Joules](e.Efficiency.JoulesPerToken)},
		{"aiperf.energy_per_output_token_j", "GPU energy per output token", as[unit.Joules](e.AIPerf.PerOutputToken)},
		{"aiperf.energy_per_request_j", "GPU energy per request", as[unit.Joules](e.AIPerf.PerRequest)},
		{"aiperf.average_gpu_power_w", "GPU power, all together", as[unit.Watts](e.AIPerf.AverageGPUPower)},
		{"totals.total_flops", "FLOPs", as[unit.FLOPs](e.Totals.FLOPs)},
		{"efficiency.flops_per_second", "FLOPs per second", as[unit.FLOPsPerSec](e.Efficiency.FLOPsPerSecond)},
	} {
		why := ""
		if f.value == nil {
			why = reasonFor(e, f.key)
		}
		t.Add(f.title, f.value, why)
	}
	return t
}

type whole float64

// String is the number in decimal digits.
func (c whole) String() string { return fmt.Sprintf("%.0f", float64(c)) }

// reasonFor says why a figure is missing: the reason recorded for its key, or for a
// key that contains it.
func reasonFor(e *aggregate.Aggregate, key string) string {
	for ; key != ""; key = key[:max(strings.LastIndexByte(key, '.'), 0)] {
		if why := e.Reasons[key]; why != "" {
			return why
		}
	}
	return ""
}

// AggregateTable has a row for each experiment, and a column for each figure under its key in the JSON.
func AggregateTable(r *aggregate.Report) *render.Table { return flat(r.Experiments) }
