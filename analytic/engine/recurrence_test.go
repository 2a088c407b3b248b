package engine_test

import (
	"slices"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
)

// mixerKernels lists the kernels of a layer with a recurrence, from its projections to that of its results.
func mixerKernels(t *testing.T, model, engine, gpu string, prompt float64) (all []analytic.Kernel) {
	t.Helper()
	c := testCase(t, model, gpu, 1, 1)
	c.Machine = casetest.Machine(t, gpu, engine)
	p, err := analytic.NewPredictor(c)
	if err != nil {
		t.Fatal(err)
	}
	s := p.Step(1, prompt, 0, 1)
	if prompt == 1 {
		s = p.Step(1, 1, 1024, 1)
	}
	p.Walk(&s, func(l *analytic.Lowering, _ []roofline.Cost) {
		if all != nil {
			return // another kind of layer
		}
		for i := range l.Kernels {
			if b := l.Ops[l.Kernels[i].Main].Block; b != nil && b.Scan != nil {
				all = append(all, l.Kernels[i])
			}
		}
	})
	return all
}

// TestRecurrenceLaunches counts by hand what the host launches of a recurrence over a prompt: by vLLM three launches for each kernel that
// Python writes and four for those of state-space models, by SGLang two, one for each other, a CUDA graph after them, and two calls. A
// graph of a decode step has all of its kernels.
func TestRecurrenceLaunches(t *testing.T) {
	const delta, ssd = "qwen3.5-9b", "nemotron-3-nano-30b-a3b"
	for _, x := range []struct {
		engine, model, gpu string
		launches           float64
	}{
		{"vllm", delta, "h200", 3 + 3 + 7 + 4}, {"vllm", delta, "l40s", 3 + 3 + 7 + 3*6 + 1},
		{"vllm+gdn-triton", delta, "h200", 3 + 3 + 7 + 3*6 + 1}, {"vllm", ssd, "h200", 3 + 4*5},
		{"sglang", delta, "h200", 2 + 6 + 2*6}, {"sglang@0.5.23", delta, "h200", 2 + 10 + 10}, {"sglang@0.5.23", delta, "b200", 2 + 6 + 2*6},
	} {
		var launches, calls float64
		for _, k := range mixerKernels(t, x.model, x.engine, x.gpu, 256) {
			if !k.Graphed {
				launches, calls = launches+k.Launches+k.Helpers, calls+k.Calls
			}
		}
		if launches != x.launches+1 || calls != 1 { // a CUDA graph is one launch
			t.Errorf("%s, %s on %s: %v launches and %v calls, want %v and 1", x.engine, x.model, x.gpu, launches, calls, x.launches+1)
		}
		for _, k := range mixerKernels(t, x.model, x.engine, x.gpu, 1) {
			if !k.Graphed {
				t.Errorf("%s, %s: a kernel of class %v of a decode step is in no graph", x.engine, x.model, k.Class)
			}
		}
	}
}

// TestRecurrenceClasses holds that convolutions and the gated delta rule have classes of their own, which state-space models do
// not share.
func TestRecurrenceClasses(t *testing.T) {
	for _, x := range []struct {
		model  string
		prompt float64
		want   []roofline.Class
		not    []roofline.Class
	}{
		{"qwen3.5-9b", 256, []roofline.Class{roofline.Convolution, roofline.ChunkedScan}, []roofline.Class{roofline.StateScan}},
		{"qwen3.5-9b", 1, []roofline.Class{roofline.ConvolutionStep, roofline.ScanStep}, []roofline.Class{roofline.Convolution}},
		{"kimi-k3", 256, []roofline.Class{roofline.Convolution, roofline.ChannelScan}, []roofline.Class{roofline.ChunkedScan}},
		{"kimi-k3", 1, []roofline.Class{roofline.ConvolutionStep, roofline.ScanStep}, []roofline.Class{roofline.StateScan}},
		{"nemotron-3-nano-30b-a3b", 256, []roofline.Class{roofline.Convolution, roofline.StateScan}, []roofline.Class{roofline.ChunkedScan}},
		{"nemotron-3-nano-30b-a3b", 1, []roofline.Class{roofline.ConvolutionStep}, []roofline.Class{roofline.ScanStep}},
	} {
		var got []roofline.Class
		for _, k := range mixerKernels(t, x.model, "vllm", "h200", x.prompt) {
			got = append(got, k.Class)
		}
		for _, c := range x.want {
			if !slices.Contains(got, c) {
				t.Errorf("%s, %v tokens: classes %v, want %v", x.model, x.prompt, got, c)
			}
		}
		for _, c := range x.not {
			if slices.Contains(got, c) {
				t.Errorf("%s, %v tokens: classes %v, want no %v", x.model, x.prompt, got, c)
			}
		}
	}
}

// TestMeasuredRecurrences holds that recurrences are said to be unmeasured where the engine has no constants of them on the generation.
func TestMeasuredRecurrences(t *testing.T) {
	for _, x := range []struct {
		model, engine, gpu string
		measured           bool
	}{
		{"qwen3.5-9b", "vllm", "h200", true}, {"qwen3.5-9b", "vllm", "h100-nvl", true}, {"qwen3.5-9b", "sglang", "b200", true},
		{"qwen3.5-9b", "vllm", "l40s", false}, {"qwen3.5-9b", "vllm", "a100-sxm-80gb", false}, {"qwen3.5-9b", "vllm", "mi300x", false},
		{"kimi-k3", "vllm", "b200", true}, {"nemotron-3-nano-30b-a3b", "vllm", "h200", false}, {"mamba2-2.7b", "vllm", "h200", false},
	} {
		c := testCase(t, x.model, x.gpu, 1, 1)
		c.Machine = casetest.Machine(t, x.gpu, x.engine)
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		if said := strings.Contains(strings.Join(p.Unmeasured(), "; "), "recurrences"); said == x.measured {
			t.Errorf("%s by %s on %s: %q", x.model, x.engine, x.gpu, p.Unmeasured())
		}
	}
}

// TestFlashInferScans holds that SGLang has FlashInfer's constants of the gated delta rule on Hopper since 0.5.20, and Triton's before and
// on other GPUs.
func TestFlashInferScans(t *testing.T) {
	value := func(engine, gpu string) float64 {
		return casetest.Machine(t, gpu, engine).Cal.Constants[roofline.ScanCompute]
	}
	near(t, "0.5.23 on an H200", value("sglang@0.5.23", "h200"), value("vllm", "h200"), 1e-9)
	near(t, "0.5.16 on an H200", value("sglang@0.5.16", "h200"), value("sglang", "h200"), 1e-9)
	near(t, "0.5.23 on a B200", value("sglang@0.5.23", "b200"), value("sglang", "b200"), 1e-9)
	if a, b := value("sglang@0.5.23", "h200"), value("sglang", "h200"); a == b {
		t.Errorf("both are %v", a)
	}
}
