package main

import "llmprof/unit"

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
	a.logf("matrix products reach %g of the peak, %g of the bandwidth, after %v", c.GEMM.Compute, c.GEMM.Memory, c.GEMM.Fixed)
	a.logf("an engine's own products of few rows reach %g of the bandwidth, after %v, and take %g of the time of their weights more for each row", c.Own.Memory, c.Own.Fixed, c.Own.Row)
	a.logf("a large product held at the power limit reaches %g of the peak; waiting draws %g of what lies between idle power and limit", c.Sustained, c.Power.Waiting)
	a.logf("attention reaches %g of the peak, %g of the bandwidth, after %v", c.Attention.Compute, c.Attention.Memory, c.Attention.Fixed)
	a.logf("element-wise kernels reach %g of the FP32 peak, %g of the bandwidth, after %v", c.Element.Compute, c.Element.Memory, c.Element.Fixed)
	a.logf("links reach %g of their rate after %v and %v a GPU, the network %g after %v",
		c.Link, c.LinkBase, c.LinkPerGPU, c.InterNode, c.InterNodeBase)
	e := &ans.Machine.Engine
	a.logf("engine %s: %s", e.Name, e.Source)
	a.logf("engine %s: %v of the host a step, %v a launch, %v of memory", e.Name, e.Host, e.Launch, e.Reserve)
}
