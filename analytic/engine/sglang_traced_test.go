package engine_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/unit"
)

// TestTracedKernels holds operators of a layer to what traces of models of 8 and 12 layers by SGLang 0.5.23 on an H200 have (layers.py of
// experiments/h200-sglang): experts with their choice and the sum of their results, attention with the copy of its queries.
func TestTracedKernels(t *testing.T) {
	experts := []string{"top_k", "experts_gate_up", "experts_activation", "experts_down"}
	for _, x := range []struct {
		name, model, scheme string
		work                analytic.Workload
		layers              float64
		operators           []string
		want                unit.Seconds
		off                 float64
	}{
		{"experts of a sequence", "gpt-oss-20b", "mxfp4", analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 6}, 24, experts, 72e-6, 0.1},
		{"experts of 8 sequences", "gpt-oss-20b", "mxfp4", analytic.Workload{Batch: 8, PromptLen: 128, GenLen: 6}, 24, experts, 149e-6, 0.1},
		{"experts of 128 sequences", "gpt-oss-20b", "mxfp4", analytic.Workload{Batch: 128, PromptLen: 128, GenLen: 6}, 24, experts, 254e-6, 0.1},
		{"experts of prompts", "gpt-oss-20b", "mxfp4", analytic.Workload{Batch: 8, PromptLen: 1024, GenLen: 1}, 24, experts, 4052e-6, 0.1},
		{"experts without a tuned configuration", "deepseek-v2-lite", "bf16", analytic.Workload{Batch: 8, PromptLen: 1024, GenLen: 1}, 26,
			experts, 3240e-6, 0.15},
		{"attention over compressed keys", "deepseek-v2-lite", "bf16", analytic.Workload{Batch: 1, PromptLen: 8192, GenLen: 1}, 27,
			[]string{"latent_attention"}, 1830e-6, 0.1},
		{"attention of short prompts", "deepseek-v2-lite", "bf16", analytic.Workload{Batch: 8, PromptLen: 1024, GenLen: 1}, 27,
			[]string{"latent_attention"}, 393e-6, 0.1},
		{"attention of a long prompt", "llama3.1-8b", "bf16", analytic.Workload{Batch: 1, PromptLen: 8192, GenLen: 1}, 32,
			[]string{"attention"}, 1075e-6, 0.15},
		{"attention of 128 sequences", "llama3.1-8b", "bf16", analytic.Workload{Batch: 128, PromptLen: 128, GenLen: 6}, 32,
			[]string{"attention"}, 57e-6, 0.15},
	} {
		c := onEngine(t, x.model, "sglang@0.5.23", x.work)
		c.Scheme = scheme(t, x.scheme, c.Machine.GPU)
		r := explain(t, c)
		lines := r.DecodeOps
		if x.work.GenLen == 1 {
			lines = r.PrefillOps
		}
		var sum unit.Seconds
		for _, o := range x.operators {
			sum += line(t, lines, o).Expected
		}
		near(t, x.name, sum.Times(1/x.layers), x.want, x.off)
	}
}
