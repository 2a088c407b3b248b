package breakdown_test

import (
	"slices"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/internal/testkit/casetest"
)

// TestLayersOfOneName holds that the layers of a sum are those of all kinds with its name: SmolLM3's 27 and 9, which differ
// in rotation alone, and Gemma 3n's 16 and 12, which differ in whose cache they read, and that operators of a layer stand together.
func TestLayersOfOneName(t *testing.T) {
	for model, want := range map[string][]float64{
		"smollm3-3b": {1, 36}, "llama3.1-8b": {1, 32}, "gemma3n-e4b": {1, 28, 7}, "deepseek-v4-flash": {1, 43}, "zamba2-7b": {1, 68, 13},
	} {
		c := casetest.Case(t, model, "h200", 8, 1)
		c.Workload = analytic.Workload{Batch: 2, PromptLen: 9000, GenLen: 3}
		r, err := breakdown.Explain(c)
		if err != nil {
			t.Fatal(err)
		}
		for what, ops := range map[string][]breakdown.Operator{"prefill": r.PrefillOps, "decode": r.DecodeOps} {
			for i := 1; i < len(ops); i++ {
				if l := ops[i].Layer; l != ops[i-1].Layer && l != "" &&
					slices.ContainsFunc(ops[:i], func(o breakdown.Operator) bool { return o.Layer == l }) {
					t.Errorf("%s, %s: %s stands apart from the others of %q", model, what, ops[i].Name, l)
				}
			}
			layers := breakdown.Layers(ops)
			for i := range layers {
				if i >= len(want) || layers[i].Count != want[i] {
					t.Errorf("%s, %s: %v × %q, want %v", model, what, layers[i].Count, layers[i].Name, want)
				}
			}
		}
	}
}
