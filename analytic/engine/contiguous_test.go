package engine_test

import (
	"testing"

	"llmprof/analytic"
)

// contiguousDecode is the time per token of qwen3-235b-a22b with so many sequences by an engine on an H200.
func contiguousDecode(t *testing.T, name string, batch, tp int) float64 {
	t.Helper()
	c := testCase(t, "qwen3-235b-a22b", "h200", batch, tp)
	c.Machine = onEngine(t, "qwen3-235b-a22b", name, analytic.Workload{}).Machine
	c.Scheme = scheme(t, "fp8-block", c.Machine.GPU)
	return float64(predict(t, c).TPOT.Expected)
}

// DeepGEMM's contiguous layout has rows for every expert, so that steps of 4 sequences take nearly as long as those of 16, and
// as long as all experts' weights take at the memory's bandwidth at least. Releases before and after, and a TP of 8, do without it.
func TestContiguousExperts(t *testing.T) {
	few, many := contiguousDecode(t, "vllm@0.12.0", 4, 4), contiguousDecode(t, "vllm@0.12.0", 16, 4)
	if weights := 227e9 / 4 / 4.8e12; few < weights || few < 0.9*many {
		t.Errorf("vllm 0.12.0: steps of 4 and 16 sequences take %v and %v s: want at least %v and nearly the same", few, many, weights)
	}
	for _, release := range []string{"0.11.0", "0.15.0"} {
		if other := contiguousDecode(t, "vllm@"+release, 4, 4); other > 0.6*few {
			t.Errorf("vllm %s: a step of 4 sequences takes %v s, by 0.12.0 %v", release, other, few)
		}
	}
	if eight, four := contiguousDecode(t, "vllm@0.12.0", 4, 8), contiguousDecode(t, "vllm@0.11.0", 4, 8); eight > 1.01*four {
		t.Errorf("vllm 0.12.0 at a TP of 8: a step takes %v s, by 0.11.0 %v", eight, four)
	}
}
