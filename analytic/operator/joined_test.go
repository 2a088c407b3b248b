package operator_test

import (
	"strings"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
)

// TestSumsOfParallelBlocks holds how many all-reduces a layer has to those of vLLM 0.32 (model_executor/models): Falcon's and
// Cohere's attention and feed-forward are summed over the ranks at once, those of GPT-J one by one, and so are Gemma 4's
// feed-forwards, each of which has a norm of its sum, Falcon-H1's mixers and LongCat's experts, and Mamba's products of split inputs.
func TestSumsOfParallelBlocks(t *testing.T) {
	scheme, err := models.ParseScheme("w16a16")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]float64{
		"llama3.1-8b": 2, "falcon-40b": 1, "command-a": 1, "gpt-j-6b": 2, "gemma4-26b-a4b": 3, "gemma4-31b": 2, "falcon-h1-7b": 3,
		"longcat-flash": 5,
		"mamba-2.8b":    2, "jamba-v0.1": 2 + 28.0/32, "mamba2-2.7b": 1,
	} {
		m := casetest.Model(t, name)
		shard := operator.NewRank(m, operator.Parallelism{TP: 2, GPUsPerNode: 8}, scheme, nil)
		step := shard.Step(1, 1, 100, 1)
		sums, layers := 0.0, 0.0
		for i := range m.Layers {
			layers += float64(m.Layers[i].Count)
		}
		for _, o := range step.AppendOps(nil) {
			if strings.HasSuffix(o.Name, "all_reduce") && o.Layer != "" {
				sums += o.Count
			}
		}
		if sums != want*layers {
			t.Errorf("%s: %v all-reduces in %v layers, want %v in each", name, sums, layers, want)
		}
	}
}
