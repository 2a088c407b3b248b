package view

import (
	"fmt"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/deployment"
	"llmprof/plots/render"
	"llmprof/roofline"
	"llmprof/unit"
)

// An Estimate is an answer as it is shown.
type Estimate struct {
	*deployment.Answer
	Top    int  // only so many operators of each phase are shown, the longest; 0 for all
	Binary bool // the short answer has memory in GiB
}

// Text is a warning with settings by their flags; "" for none.
func Text(w *unit.Warning) string {
	if w == nil {
		return ""
	}
	return w.In(settings.Flag)
}

// Texts are warnings with settings by their flags.
func Texts(all []unit.Warning) []string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = Text(&all[i])
	}
	return texts
}

// Table is every operator of both phases, one a row, in SI units.
func (e *Estimate) Table() *render.Table {
	type row struct {
		Phase string `json:"phase"`
		opJSON
	}
	var rows []row
	for _, o := range e.phaseOf(&e.Prefill, e.PrefillOps).Ops {
		rows = append(rows, row{"prefill", o})
	}
	for _, o := range e.phaseOf(&e.Decode, e.DecodeOps).Ops {
		rows = append(rows, row{"decode", o})
	}
	return flat(rows, "phase", "layer", "layers", "name", "flops", "vector_flops", "weight_bytes", "kv_bytes", "state_bytes", "act_bytes",
		"wire_bytes",
		"intensity_flop_per_byte=intensity", "bound", "floor_s", "expected_s", "share", "energy_j", "in")
}

// Inputs says what the estimate was computed from, one input a line.
func (e *Estimate) Inputs() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	m, g, c := e.Model, e.Machine.GPU, &e.Machine.Cal
	add("model %s from %s: %d parameters, %d active", m.Name, m.Source, m.Params(), m.ActiveParams())
	add("GPU %s (%s), compute capability %s, generation %s: %s", g.Name, g.Key, g.ComputeCapability, g.Generation, g.Source)
	for _, f := range unit.Formats() {
		if run, rate := e.Machine.Runs(f); run == f {
			add("peak in %v: %v", f, f.Rate(rate))
		} else {
			add("peak in %v: none, computed in %v", f, run)
		}
	}
	for _, t := range g.Traps {
		add("%s: %s", g.Key, t)
	}
	add("calibration %s: %s", c.Name, c.Source)
	for _, k := range roofline.All() {
		if v := c.Constants[k]; v > 0 && k.Info().Quantity.Timed() {
			add("%s %v: %s", k, unit.Seconds(v), k.Info().Help)
		} else if v > 0 {
			add("%s %.4g: %s", k, v, k.Info().Help)
		}
	}
	profile := e.Machine.Engine.Profile()
	add("engine %s: %s; %v of memory", profile.Name, profile.Source, profile.Reserve)
	return lines
}

// several is a number with what is counted, in the plural but for one.
func several[N int | float64](n N, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%v %ss", n, one)
}
