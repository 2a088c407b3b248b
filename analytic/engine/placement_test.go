package engine_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/models"
)

// atHome is a case of llama.cpp on a GPU in a host.
func atHome(t *testing.T, model, weights, gpu, host string, w analytic.Workload) *analytic.Case {
	t.Helper()
	m := casetest.Model(t, model)
	m, err := models.Quantize(m, weights)
	if err != nil {
		t.Fatal(err)
	}
	h, err := hardware.HostOf(host)
	if err != nil {
		t.Fatal(err)
	}
	g := casetest.GPU(t, gpu).On(&h)
	e, err := engine.Parse("llama.cpp")
	if err != nil {
		t.Fatal(err)
	}
	machine, err := analytic.Calibrated(g, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := models.StoredScheme(m)
	return &analytic.Case{Model: m, Machine: machine, Scheme: s.For(g), Workload: w, Parallel: analytic.Parallelism{GPUsPerNode: 1}}
}

func placed(t *testing.T, c *analytic.Case, p engine.Placement) *engine.Placed {
	t.Helper()
	at, err := p.At(c)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestExpertsOnHost compares with llama.cpp on an H200 in a virtual machine, with all experts of qwen3-30b-a3b on the host.
func TestExpertsOnHost(t *testing.T) {
	for _, x := range []struct {
		threads, gen, prompt, step int
		want                       float64
	}{{4, 32, 1, 512, 16.42}, {12, 32, 1, 512, 32.71}, {16, 32, 1, 512, 38.43}, {12, 1, 4096, 512, 3737}, {12, 1, 4096, 2048, 7279}, {12, 1, 4096, 4096, 8355},
		{12, 1, 31, 512, 163}, {12, 1, 32, 512, 335}, {12, 1, 128, 512, 885}} {
		c := atHome(t, "qwen3-30b-a3b", "q4_k_m", "h200", "h200-vm", analytic.Workload{Batch: 1, PromptLen: x.prompt, GenLen: x.gen})
		c.Machine.GPU.Host.Threads = x.threads
		h := c.Machine.GPU.Host
		c.Machine, _ = analytic.Calibrated(c.Machine.GPU.On(&h), c.Machine.Engine, nil)
		c.Popularity = &operator.Popularity{Zipf: 4}
		at := placed(t, c, engine.Placement{Experts: 48, Step: x.step})
		got := float64(x.prompt) / float64(at.Estimate.TTFT.Expected)
		if x.gen > 1 {
			got = 1 / float64(at.Estimate.TPOT.Expected)
		}
		m := at.Estimate.Memory
		t.Logf("%+v: %.1f (%+.0f %%) GPU %.0f MiB host %.0f", x, got, 100*(got/x.want-1), float64(m.Weights)/(1<<20), float64(m.HostWeights)/(1<<20))
	}
}
