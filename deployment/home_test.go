package deployment

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit/casetest"
)

// TestFit holds the placement that is found to the memory of both sides, and to others.
func TestFit(t *testing.T) {
	c := casetest.AtHome(t, "gpt-oss-120b", "mxfp4_moe", "rtx-4090", "ddr5-6000x2", analytic.Workload{Batch: 1, PromptLen: 2048, GenLen: 128})
	best, err := bestPlacement(c, false)
	if err != nil || best == nil {
		t.Fatal(best, err)
	}
	m := best.Estimate.Memory
	if !m.Fits() || m.HostWeights > c.Machine.GPU.Host.RAM {
		t.Errorf("%+v does not fit", m)
	}
	own, err := fullest(c, engine.Placement{Pageable: true}, fitMargin)
	if err != nil || own == nil {
		t.Fatal(own, err)
	}
	if own.Experts < best.Experts-6 || own.Estimate.TTLT.Expected < best.Estimate.TTLT.Expected {
		t.Errorf("llama.cpp's own --fit leaves experts of %d layers on the host and takes %v, the best placement %d and %v", own.Experts,
			own.Estimate.TTLT.Expected, best.Experts, best.Estimate.TTLT.Expected)
	}
	for n := range 37 {
		p := engine.Placement{Experts: n, Step: best.Step}
		at, err := p.At(c)
		if err != nil {
			t.Fatal(err)
		}
		if at.Estimate.Memory.Fits() && at.Estimate.TTLT.Expected < best.Estimate.TTLT.Expected {
			t.Errorf("--n-cpu-moe %d takes %v, less than %v of the best, %d", n, at.Estimate.TTLT.Expected, best.Estimate.TTLT.Expected,
				best.Experts)
		}
	}
	c = casetest.AtHome(t, "llama3.1-70b", "q4_k_m", "rtx-4090", "ddr5-6000x2", c.Workload)
	if best, err = bestPlacement(c, false); err != nil || best == nil || best.Layers == nil || *best.Layers < 30 || *best.Layers > 50 {
		t.Errorf("a dense model of 42 GB: %+v, %v", best, err)
	}
	small := c.Machine.GPU.Host
	small.RAM = 8e9
	if c.Machine, err = analytic.Calibrated(c.Machine.GPU.On(&small), c.Machine.Engine, nil); err != nil {
		t.Fatal(err)
	}
	if best, err = bestPlacement(c, false); err != nil || best != nil {
		t.Errorf("42 GB in 24 and 8: %+v, %v", best, err)
	}
}
