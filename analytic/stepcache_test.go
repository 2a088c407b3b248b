package analytic_test

import (
	"math/rand/v2"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/operator"
)

// A series of steps, most of which differ from the one before in contexts alone, costs to the last digit what each of them costs alone.
func TestCachedSeries(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 3))
	models := []string{"llama3.1-8b", "gemma3-12b", "gpt-oss-120b", "deepseek-v3.2", "deepseek-v4-flash", "llama4-scout", "nemotron-h-8b", "qwen3-next-80b-a3b", "jamba-v0.1", "minimax-m1", "gemma3n-e4b"}
	for i, model := range models {
		for _, engine := range []string{"vllm", "sglang", "tensorrt-llm", "llama.cpp"} {
			c := casetest.Case(t, model, "h200", 1, 1)
			c.Machine = casetest.Machine(t, "h200", engine)
			if i%2 == 0 {
				c.Parallel.TP, c.Parallel.PP = 8, 2
			}
			p, err := analytic.NewPredictor(c)
			if err != nil {
				t.Fatal(err)
			}
			series := p.Cached()
			var groups []operator.Group
			together := 0.0
			for range 200 {
				if len(groups) == 0 || random.IntN(4) == 0 {
					groups, together = mixedGroups(random), float64(random.IntN(2)*5000)
				}
				for j := range groups {
					groups[j].Past = float64(random.IntN(2) * random.IntN(20000))
				}
				if got, want := series.StepCost(groups, together), p.StepCost(groups, together); got != want {
					t.Fatalf("%s on %s: %+v, %v together: %+v in a series, alone %+v", model, engine, groups, together, got, want)
				}
			}
		}
	}
}

// mixedGroups are a few groups, decodes before chunks of prompts.
func mixedGroups(random *rand.Rand) (groups []operator.Group) {
	for range random.IntN(3) {
		fresh := 1 + float64(random.IntN(2)*random.IntN(4))
		groups = append(groups, operator.Group{Batch: float64(1 + random.IntN(300)), New: fresh, Logits: fresh, Drafted: fresh > 1})
	}
	for n := random.IntN(3); n > 0 || len(groups) == 0; n-- {
		groups = append(groups, operator.Group{Batch: float64(1 + random.IntN(3)), New: float64(1 + random.IntN(4000)), Logits: float64(random.IntN(2))})
	}
	return groups
}
