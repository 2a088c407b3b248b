package engine_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/unit"
)

// TestTracedExperts holds the experts of gpt-oss-20b, with their choice and the sum of their results, to what traces of a model with half
// of its layers by vLLM 0.33 on an H200 have (experiments/h200-experts). With 128 tokens half of the experts have a second tile.
func TestTracedExperts(t *testing.T) {
	for _, x := range []struct {
		work analytic.Workload
		want unit.Seconds
	}{
		{analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 4}, 59.8e-6},
		{analytic.Workload{Batch: 32, PromptLen: 128, GenLen: 4}, 195e-6},
		{analytic.Workload{Batch: 128, PromptLen: 128, GenLen: 4}, 294e-6},
		{analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 1}, 650e-6},
		{analytic.Workload{Batch: 1, PromptLen: 8192, GenLen: 1}, 3588e-6},
	} {
		c := onEngine(t, "gpt-oss-20b", "vllm@0.33.0", x.work)
		c.Scheme = scheme(t, "mxfp4", c.Machine.GPU)
		r := explain(t, c)
		lines := r.DecodeOps
		if x.work.GenLen == 1 {
			lines = r.PrefillOps
		}
		var sum unit.Seconds
		for _, o := range []string{"top_k", "experts_gate_up", "experts_activation", "experts_down"} {
			sum += line(t, lines, o).Expected
		}
		t.Logf("%+v: %v", x.work, sum/24)
		near(t, "experts of a layer", sum/24, x.want, 0.1)
	}
}

// TestPowerOfExperts holds the power of experts in MXFP4 to what OpenAI's Triton kernels drew on an H200 for so many tokens, with the
// router and the choice of experts, in a CUDA graph of layers of gpt-oss-20b's shape (experiments/h200-experts).
func TestPowerOfExperts(t *testing.T) {
	for tokens, want := range map[int]unit.Watts{4: 503, 8: 584, 16: 610, 32: 662, 64: 672, 128: 614} {
		c := onEngine(t, "gpt-oss-20b", "vllm@0.33.0", analytic.Workload{Batch: tokens, PromptLen: 128, GenLen: 4})
		c.Scheme = scheme(t, "mxfp4", c.Machine.GPU)
		lines := explain(t, c).DecodeOps
		var energy unit.Joules
		var time unit.Seconds
		for _, o := range []string{"router", "top_k", "experts_gate_up", "experts_activation", "experts_down"} {
			l := line(t, lines, o)
			energy, time = energy+l.Energy, time+l.Expected
		}
		near(t, "power", c.Machine.Waiting+unit.Watts(float64(energy)/float64(time)), want, 0.1)
	}
}
