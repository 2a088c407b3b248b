package engine_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
	"llmprof/unit"
)

var experts = []string{"top_k", "experts_gate_up", "experts_activation", "experts_down"}

// TestTracedKernels holds operators of a layer to what traces of models of 8 and 12 layers by SGLang 0.5.23 on an H200 have (layers.py of
// experiments/h200-sglang): experts with their choice and the sum of their results, attention with the copy of its queries.
func TestTracedKernels(t *testing.T) {
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
		got := sumOf(t, c, x.operators).Expected.Times(1 / x.layers)
		t.Logf("%s: %v, want %v", x.name, got, x.want)
		near(t, x.name, got, x.want, x.off)
	}
}

// sumOf is the sum of some operators of a decode step, or of the prompts of a case that generates one token.
func sumOf(t *testing.T, c *analytic.Case, operators []string) (sum breakdown.Operator) {
	t.Helper()
	r := explain(t, c)
	lines := r.DecodeOps
	if c.Workload.GenLen == 1 {
		lines = r.PrefillOps
	}
	for _, name := range operators {
		o := line(t, lines, name)
		sum.Expected, sum.Energy = sum.Expected+o.Expected, sum.Energy+o.Energy
	}
	return sum
}

// TestCompressedInGraphs holds that latent attention of prompts runs over compressed keys in CUDA graphs alone: without them, and before
// 0.5.22, a prompt takes less than half as long in it.
func TestCompressedInGraphs(t *testing.T) {
	attention := func(name string, g engine.Graphs) unit.Seconds {
		c := onEngine(t, "deepseek-v2-lite", name, analytic.Workload{Batch: 1, PromptLen: 8192, GenLen: 1})
		e, err := engine.WithGraphs(c.Machine.Engine, g)
		testkit.Must(t, err)
		c.Machine, err = analytic.NewMachine(c.Machine.GPU, c.Machine.Cal, e)
		testkit.Must(t, err)
		return line(t, explain(t, c).PrefillOps, "latent_attention").Expected
	}
	graphs := attention("sglang@0.5.23", engine.Graphs{Most: 64})
	near(t, "with graphs of fewer sequences", graphs, attention("sglang@0.5.23", engine.Graphs{}), 1e-9)
	for name, g := range map[string]engine.Graphs{"sglang@0.5.23": {Eager: true}, "sglang@0.5.21": {}} {
		if other := attention(name, g); other > graphs/2 {
			t.Errorf("%s, %+v: %v, and %v over compressed keys", name, g, other, graphs)
		}
	}
}
