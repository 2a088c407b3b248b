package view

import (
	"fmt"
	"strconv"

	"llmprof/roofline"
	"llmprof/unit"
)

// Inputs says what the estimate was computed from, one input a line.
func (e *Estimate) Inputs() []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	m, g, c := e.Model, e.Machine.GPU, &e.Machine.Cal
	add("model %s from %s: %d parameters, %d active", m.Name, m.Source, m.Params(), m.ActiveParams())
	add("GPU %s (%s), compute capability %s, generation %s: %s", g.Name, g.Key, g.ComputeCapability, g.Generation, g.Source)
	for _, f := range unit.Formats() {
		if run, rate := e.Machine.Runs(f); run == f {
			add("peak in %v: %v", f, rate)
		} else {
			add("peak in %v: none, computed in %v", f, run)
		}
	}
	for _, t := range g.Traps {
		add("%s: %s", g.Key, t)
	}
	add("calibration %s: %s", c.Name, c.Source)
	for _, k := range roofline.All() {
		if v := c.Constants[k]; v > 0 {
			add("%s %s: %s", k, constantText(k, v), k.Info().Help)
		}
	}
	profile := e.Machine.Engine.Profile()
	add("engine %s: %s; %v of memory", profile.Name, profile.Source, profile.Reserve)
	return lines
}

// constantText is the value of a constant with its unit.
func constantText(k roofline.Constant, v float64) string {
	if k.Info().Quantity.Timed() {
		return unit.Seconds(v).String()
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
