package view

import (
	"fmt"
	"regexp"
	"testing"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/models"
)

func estimate(t *testing.T, model, gpu string, batch int) *Estimate {
	t.Helper()
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	m, err := models.Resolver{Table: table}.Resolve(t.Context(), model)
	testkit.Must(t, err)
	g, err := hardware.Find(llmprof.HardwareTOML, gpu)
	testkit.Must(t, err)
	native, err := engine.Parse("native")
	testkit.Must(t, err)
	machine, err := analytic.NewMachine(&g, hardware.DefaultCalibration(&g), native)
	testkit.Must(t, err)
	e := &Estimate{ModelName: model, GPUName: gpu}
	e.Case = analytic.Case{
		Model: m, Machine: machine, Scheme: models.StoredScheme(m).For(&g),
		Workload: analytic.Workload{Batch: batch, PromptLen: 1024, GenLen: 128},
		Parallel: analytic.Parallelism{TP: 1, PP: 1, EP: 1, DP: 1, MicroBatches: 1, GPUsPerNode: g.GPUsPerNode},
	}
	if e.Report, err = breakdown.Explain(&e.Case); err != nil {
		t.Fatal(err)
	}
	return e
}

// TestWhatFits checks that what is advised fits, and that nothing is advised where
// the case fits.
func TestWhatFits(t *testing.T) {
	if text := estimate(t, "llama3.1-8b", "h100", 1).WhatFits(); text != "" {
		t.Errorf("llama3.1-8b fits on an h100: %s", text)
	}
	for _, c := range []struct {
		model, gpu string
		batch      int
	}{{"llama2-70b", "a100", 1}, {"llama2-70b", "h200", 512}, {"deepseek-v3", "h100", 8}, {"mixtral-8x7b", "l4", 4}} {
		e := estimate(t, c.model, c.gpu, c.batch)
		hint := e.WhatFits()
		found := regexp.MustCompile(`--(tp|pp|batch|weights) (\S+?)\b(?:,|\s|$)`).FindAllStringSubmatch(hint, -1)
		if len(found) == 0 {
			t.Errorf("%v: nothing is advised: %q", c, hint)
		}
		split, other := e.Case, e.Case
		for _, f := range found {
			switch f[1] {
			case "tp":
				_, _ = fmt.Sscan(f[2], &split.Parallel.TP)
			case "pp":
				_, _ = fmt.Sscan(f[2], &split.Parallel.PP)
			case "batch":
				_, _ = fmt.Sscan(f[2], &other.Workload.Batch)
				mustFit(t, hint, &other)
			case "weights":
				narrow := e.Case
				s, err := models.ParseScheme(f[2])
				testkit.Must(t, err)
				s.KV = e.Scheme.KV
				narrow.Scheme = s.For(e.Machine.GPU)
				mustFit(t, hint, &narrow)
			}
		}
		if split.Parallel != e.Parallel {
			mustFit(t, hint, &split)
		}
	}
}

// mustFit fails where a case that was advised does not fit.
func mustFit(t *testing.T, hint string, c *analytic.Case) {
	t.Helper()
	e, err := analytic.Predict(c)
	if err != nil {
		t.Errorf("%s: %v", hint, err)
	} else if e.Memory.Total > e.Memory.Capacity {
		t.Errorf("%s: %v of %v", hint, e.Memory.Total, e.Memory.Capacity)
	}
}
