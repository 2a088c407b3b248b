package main

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/measure/aggregate"
	"llmprof/measure/stats"
	"llmprof/unit"
)

// experimentTable is an experiment a row.
func experimentTable(r *aggregate.Report) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "id", Left: true}, {Title: "model", Left: true, Max: 24}, {Title: "processes"}, {Title: "tok/s"}, {Title: "TTFT", Unit: "s"}, {Title: "TPOT", Unit: "s"},
		{Title: "energy", Unit: "J"}, {Title: "J/out token"}, {Title: "FLOP/s", Drop: 1}, {Title: "warnings", Drop: 2},
	}}
	for i := range r.Experiments {
		e := &r.Experiments[i]
		t.Rows = append(t.Rows, render.Row{Cells: []any{
			e.ID, e.ModelName, e.Method.NumProcesses, tenths(e.Totals.TokensPerS), middle(e.Latency.TTFT), middle(e.Latency.TPOT),
			as[unit.Joules](e.Totals.EnergyJ), as[unit.Joules](e.AIPerf.PerOutputToken), as[unit.FLOPsPerSec](e.Efficiency.FLOPsPerSecond), len(e.Method.Warnings),
		}})
	}
	return t
}

// as is a figure with its unit, nil where there is none.
func as[T ~float64](v *float64) any {
	if v == nil {
		return nil
	}
	return T(*v)
}

func tenths(v *float64) any {
	if v == nil {
		return nil
	}
	return render.Tenths(*v)
}

func middle(s *stats.Summary) any {
	if s == nil {
		return nil
	}
	return unit.Seconds(s.Median)
}

func aggregatePage(e *aggregate.Aggregate) *render.Document {
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
		{Name: "Workload", Lines: []string{fmt.Sprintf("batch %d, prompt %d, generate %d, weights %s", w.Batch, w.PromptLen, w.GenLen, w.Weights)}},
		{Name: "Processes", Lines: []string{checks}},
	}}
	times := render.Table{Title: "Times, over the samples of all processes", Columns: timeColumns()}
	for _, t := range []struct {
		title string
		s     *stats.Summary
	}{{"TTFT", e.Latency.TTFT}, {"TPOT", e.Latency.TPOT}, {"TTLT", e.Latency.TTLT}, {"step", e.Latency.Step}} {
		if t.s != nil {
			times.Rows = append(times.Rows, timeRow(t.title, t.s, nil))
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

// figureTable shows the figures that people ask for first; a missing one with
// its reason.
func figureTable(e *aggregate.Aggregate) render.Table {
	t := render.Table{Title: "Figures", Columns: []render.Column{
		{Title: "metric", Left: true}, {Title: "value"}, {Title: "", Left: true, Max: 60},
	}}
	for _, f := range []struct {
		key, title string
		value      any
	}{
		{"totals.total_input_tokens", "input tokens", as[counted](e.Totals.InputTokens)},
		{"totals.total_output_tokens", "output tokens", as[counted](e.Totals.OutputTokens)},
		{"totals.tokens_per_second", "output tokens a second", tenths(e.Totals.TokensPerS)},
		{"totals.total_energy_j", "energy", as[unit.Joules](e.Totals.EnergyJ)},
		{"energy_breakdown.adjusted_j", "energy, idle left out", as[unit.Joules](e.Breakdown.AdjustedJ)},
		{"efficiency.joules_per_token", "energy a token, input and output", as[unit.Joules](e.Efficiency.JoulesPerToken)},
		{"aiperf.energy_per_output_token_j", "GPU energy an output token", as[unit.Joules](e.AIPerf.PerOutputToken)},
		{"aiperf.energy_per_request_j", "GPU energy a request", as[unit.Joules](e.AIPerf.PerRequest)},
		{"aiperf.average_gpu_power_w", "GPU power, all together", as[unit.Watts](e.AIPerf.AverageGPUPower)},
		{"totals.total_flops", "FLOPs", as[unit.FLOPs](e.Totals.FLOPs)},
		{"efficiency.flops_per_second", "FLOPs a second", as[unit.FLOPsPerSec](e.Efficiency.FLOPsPerSecond)},
	} {
		why := ""
		if f.value == nil {
			why = reasonFor(e, f.key)
		}
		t.Rows = append(t.Rows, render.Row{Cells: []any{f.title, f.value, why}})
	}
	return t
}

// counted is a number of things, whole.
type counted float64

// String is the number without a fraction.
func (c counted) String() string { return fmt.Sprintf("%.0f", float64(c)) }

// reasonFor is why a figure is missing, by its key or one above it.
func reasonFor(e *aggregate.Aggregate, key string) string {
	for ; key != ""; key = key[:max(strings.LastIndexByte(key, '.'), 0)] {
		if why := e.Reasons[key]; why != "" {
			return why
		}
	}
	return ""
}

// A flat is one value of a struct under the keys that lead to it.
type flat struct {
	key   string
	value any
}

// flatten lists the values of a struct that is written as JSON, lists and maps
// left out; all structs of a type give the same keys.
func flatten(path string, v any) []flat {
	var list []flat
	r := reflect.ValueOf(v).Elem()
	for i := range r.NumField() {
		f, name := r.Field(i), r.Type().Field(i)
		key, _, _ := strings.Cut(name.Tag.Get("json"), ",")
		if key == "" {
			continue
		}
		key = strings.TrimPrefix(path+"."+key, ".")
		switch {
		case f.Kind() == reflect.Slice || f.Kind() == reflect.Map:
		case f.Kind() == reflect.Struct && f.Type().PkgPath() != "time":
			list = append(list, flatten(key, f.Addr().Interface())...)
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.Struct:
			inner := f
			if f.IsNil() {
				inner = reflect.New(f.Type().Elem())
			}
			for _, below := range flatten(key, inner.Interface()) {
				if f.IsNil() {
					below.value = nil
				}
				list = append(list, below)
			}
		default:
			list = append(list, flat{key, plainCell(f)})
		}
	}
	return list
}

// plainCell is a value as a table takes it.
func plainCell(f reflect.Value) any {
	if f.Kind() == reflect.Pointer {
		if f.IsNil() {
			return nil
		}
		f = f.Elem()
	}
	switch v := f.Interface().(type) {
	case bool:
		return fmt.Sprint(v)
	case uint64:
		return fmt.Sprint(v)
	case interface{ Format(string) string }:
		return v.Format("2006-01-02T15:04:05.999999999Z07:00")
	}
	return f.Interface()
}
