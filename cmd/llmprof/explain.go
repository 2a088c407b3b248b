package main

import (
	"strconv"

	"llmprof/roofline"
	"llmprof/unit"
)

// explain says what the estimate was computed from, for --verbose.
func (a *app) explain(ans *answer) {
	m, g, c := ans.Model, ans.gpu, &ans.Machine.Cal
	a.logf("model %s from %s: %d parameters, %d active", m.Name, m.Source, m.Params(), m.ActiveParams())
	a.logf("GPU %s (%s), compute capability %s, generation %s: %s", g.Name, g.Key, g.ComputeCapability, g.Generation, g.Source)
	for _, f := range unit.Formats() {
		if run, rate := ans.Machine.Runs(f); run == f {
			a.logf("peak in %v: %v", f, rate)
		} else {
			a.logf("peak in %v: none, computed in %v", f, run)
		}
	}
	for _, t := range g.Traps {
		a.logf("%s: %s", g.Key, t)
	}
	a.logf("calibration %s: %s", c.Name, c.Source)
	for _, k := range roofline.All() {
		if v := c.Constants[k]; v > 0 {
			a.logf("%s %s: %s", k, constantText(k, v), k.Info().Help)
		}
	}
	e := ans.Machine.Engine.Profile()
	a.logf("engine %s: %s; %v of memory", e.Name, e.Source, e.Reserve)
}

// constantText is the value of a constant with its unit.
func constantText(k roofline.Constant, v float64) string {
	if k.Info().Quantity.Timed() {
		return unit.Seconds(v).String()
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
