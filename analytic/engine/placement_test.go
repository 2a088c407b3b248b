package engine_test

import (
	"fmt"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/unit"
)

func placed(t *testing.T, c *analytic.Case, p engine.Placement) *engine.Placed {
	t.Helper()
	at, err := p.At(c)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestExpertsOnHost compares with llama-bench on an H200 in a virtual machine, with all experts of qwen3-30b-a3b on the host
// (experiments/h200-llamacpp-host), and with the sizes of its buffers there: 784 MiB of CUDA0 and 16,907 of CUDA_Host.
func TestExpertsOnHost(t *testing.T) {
	for _, x := range []struct {
		threads, gen, prompt, step int
		rate                       float64
	}{
		{4, 32, 1, 512, 16.42}, {12, 32, 1, 512, 32.71}, {16, 32, 1, 512, 38.43}, {12, 1, 4096, 512, 3737}, {12, 1, 4096, 2048, 7279},
		{12, 1, 4096, 4096, 8355}, {12, 1, 31, 512, 163}, {12, 1, 32, 512, 335}, {12, 1, 128, 512, 885},
	} {
		c := casetest.AtHome(t, "qwen3-30b-a3b", "q4_k_m", "h200", "h200-vm", analytic.Workload{Batch: 1, PromptLen: x.prompt, GenLen: x.gen})
		host := c.Machine.GPU.Host
		host.Threads = x.threads
		var err error
		if c.Machine, err = analytic.Calibrated(c.Machine.GPU.On(&host), c.Machine.Engine, nil); err != nil {
			t.Fatal(err)
		}
		c.Popularity = &operator.Popularity{Zipf: 4}
		e := placed(t, c, engine.Placement{Experts: 48, Step: x.step}).Estimate
		got := float64(x.prompt) / float64(e.TTFT.Expected)
		if x.gen > 1 {
			got = 1 / float64(e.TPOT.Expected)
		}
		near(t, fmt.Sprintf("%+v", x), got, x.rate, 0.25)
		if span := e.TTLT; span.High > span.Expected.Times(1.5) || span.Low < span.Expected.Times(0.5) {
			t.Errorf("%+v: %+v is wider than the errors of kernels and host", x, span)
		}
		near(t, "MiB of weights on the GPU", float64(e.Memory.Weights)/(1<<20), 784, 0.01)
		near(t, "MiB of weights on the host", float64(e.Memory.HostWeights)/(1<<20), 16907, 0.001)
	}
}

// TestPlacementLog compares with the buffers that llama-bench logged on the other H200, with all experts of olmoe-1b-7b as pages of the
// file and prompts of 32 tokens (experiments/h200-llamacpp-host/placement.txt). The pages are those from the first of the host's tensors to
// the last, with some of the GPU's between.
func TestPlacementLog(t *testing.T) {
	c := casetest.AtHome(t, "olmoe-1b-7b", "q4_k_m", "h200", "h200-vm", analytic.Workload{Batch: 1, PromptLen: 32, GenLen: 1})
	m := placed(t, c, engine.Placement{Experts: 16, Step: 512, Pageable: true}).Estimate.Memory
	for _, x := range []struct {
		name    string
		is      unit.Bytes
		logged  float64 // MiB
		allowed float64
	}{
		{"weights on the GPU", m.Weights, 241.35, 0.05}, {"weights on the host", m.HostWeights, 3936.02, 0.05},
		{"the KV cache", m.KV, 32, 0.001}, {"the GPU's compute buffer", m.Activations, 108.77, 0.05},
	} {
		near(t, "MiB of "+x.name, float64(x.is)/(1<<20), x.logged, x.allowed)
	}
}

// TestPlacements works out where weights lie by llama.cpp's options.
func TestPlacements(t *testing.T) {
	c := casetest.AtHome(t, "qwen3-30b-a3b", "q4_k_m", "rtx-4090", "ddr5-6000x2", analytic.Workload{Batch: 1, PromptLen: 512, GenLen: 16})
	whole := placed(t, c, engine.Placement{}).Estimate
	layers := func(n int) *int { return &n }
	for _, x := range []struct {
		p           engine.Placement
		least, most float64 // share of the weights on the host
	}{
		{engine.Placement{}, 0, 0.02}, // the embedding
		{engine.Placement{Experts: 48}, 0.95, 0.97},
		{engine.Placement{Experts: 24}, 0.46, 0.49},
		{engine.Placement{Overrides: []string{`_exps=CPU`}}, 0.95, 0.97},
		{engine.Placement{Overrides: []string{`blk\.\d\.=CUDA0,_exps=CPU`}}, 0.74, 0.78}, // but for the first ten layers
		{engine.Placement{Layers: layers(0)}, 1, 1},
		{engine.Placement{Layers: layers(1)}, 0.98, 0.99}, // the output alone is on the GPU
		{engine.Placement{Layers: layers(25)}, 0.47, 0.51},
		{engine.Placement{Layers: layers(49)}, 0, 0.02},
	} {
		at := placed(t, c, x.p)
		m := at.Estimate.Memory
		share := float64(m.HostWeights / (m.HostWeights + m.Weights))
		if share < x.least || share > x.most {
			t.Errorf("%+v: %.3f of the weights are on the host, want %v to %v", x.p, share, x.least, x.most)
		}
		near(t, "all weights", float64(m.HostWeights+m.Weights), float64(whole.Memory.HostWeights+whole.Memory.Weights), 1e-6)
		if at.Estimate.TPOT.Expected < whole.TPOT.Expected {
			t.Errorf("%+v: TPOT is %v, and %v with all weights on the GPU", x.p, at.Estimate.TPOT.Expected, whole.TPOT.Expected)
		}
	}
	if _, err := (&engine.Placement{Overrides: []string{"up_exps=CPU"}}).At(c); err == nil {
		t.Error("half of what is one operator lies on the host")
	}
}

// TestOffloadedPrompts holds what decides the time of prompts: copies for each pass from 32 tokens on, their rate, and where they are off.
func TestOffloadedPrompts(t *testing.T) {
	c := casetest.AtHome(t, "qwen3-30b-a3b", "q4_k_m", "rtx-4090", "ddr5-6000x2", analytic.Workload{Batch: 1, PromptLen: 4096, GenLen: 1})
	took := func(p engine.Placement) float64 {
		p.Experts = 48
		return float64(placed(t, c, p).Estimate.TTFT.Expected)
	}
	small, large := took(engine.Placement{Step: 512}), took(engine.Placement{Step: 4096})
	if small < 4*large || small > 8*large {
		t.Errorf("passes of 512 take %v s, one of 4096 %v: they copy the weights 8 times", small, large)
	}
	if paged := took(engine.Placement{Step: 512, Pageable: true}); paged < 3*small {
		t.Errorf("weights as pages of the file take %v s, pinned %v", paged, small)
	}
	c.Workload.PromptLen = 31
	few := took(engine.Placement{})
	near(t, "31 tokens where no weights are copied", took(engine.Placement{Stays: true}), few, 1e-9)
	c.Workload.PromptLen = 32
	if copied := took(engine.Placement{}); copied == took(engine.Placement{Stays: true}) {
		t.Errorf("32 tokens take %v s with and without copies of weights", copied)
	}
}

// TestOffloaded holds vLLM's --cpu-offload-gb to bytes over PCIe: every step reads the weights that lie on the host, and nothing else
// changes.
func TestOffloaded(t *testing.T) {
	c := onEngine(t, "llama3.1-8b", "vllm", analytic.Workload{Batch: 1, PromptLen: 512, GenLen: 16})
	c.Machine = casetest.Machine(t, "rtx-4090", "vllm")
	before := predict(t, c)
	away, err := engine.Offloaded(c, 4<<30)
	if err != nil {
		t.Fatal(err)
	}
	after := predict(t, &away)
	near(t, "weights on the host", float64(after.Memory.HostWeights), 4<<30, 0.1)
	near(t, "all weights", float64(after.Memory.HostWeights+after.Memory.Weights), float64(before.Memory.Weights), 1e-9)
	read := float64(after.Memory.HostWeights) / (0.84 * float64(c.Machine.GPU.PCIe))
	near(t, "TPOT", float64(after.TPOT.Expected), float64(before.TPOT.Expected)+read, 0.01)
	near(t, "KV cache", float64(after.Memory.KV), float64(before.Memory.KV), 1e-9)
}
