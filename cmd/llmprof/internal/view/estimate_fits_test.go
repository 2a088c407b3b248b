package view

import (
	"regexp"
	"strconv"
	"strings"
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
		advised, ok := strings.CutPrefix(hint, "it fits with ")
		if !ok {
			t.Errorf("%v: nothing is advised: %q", c, hint)
			continue
		}
		for flags := range strings.SplitSeq(advised, ", or with ") {
			changed := e.Case
			apply(t, &changed, flags)
			mustFit(t, flags, &changed)
		}
	}
}

// apply changes a case by flags: --tp 2, --weights fp8.
func apply(t *testing.T, c *analytic.Case, flags string) {
	t.Helper()
	for _, f := range regexp.MustCompile(`--(tp|pp|batch|weights) (\S+)`).FindAllStringSubmatch(flags, -1) {
		var err error
		switch f[1] {
		case "tp":
			c.Parallel.TP, err = strconv.Atoi(f[2])
		case "pp":
			c.Parallel.PP, err = strconv.Atoi(f[2])
		case "batch":
			c.Workload.Batch, err = strconv.Atoi(f[2])
		case "weights":
			kv := c.Scheme.KV
			c.Scheme, err = models.ParseScheme(f[2])
			c.Scheme.KV = kv
			c.Scheme = c.Scheme.For(c.Machine.GPU)
		}
		testkit.Must(t, err)
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
