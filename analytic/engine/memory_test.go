package engine_test

import (
	"encoding/csv"
	"math"
	"os"
	"strconv"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
)

// TestCacheAsLogged holds the tokens of KV cache that vLLM 0.25.1 said it had, on an H200 and
// an H100, for dense models and for a mixture, which runs by vLLM's older model runner.
func TestCacheAsLogged(t *testing.T) {
	for folder, gpu := range map[string]string{"h200-vllm": "h200", "h100-vllm": "h100"} {
		f, err := os.Open("../../experiments/" + folder + "/engines.csv")
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		_ = f.Close()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range rows[1:] {
			logged, err := strconv.ParseFloat(r[3], 64)
			if err != nil {
				t.Fatal(err)
			}
			c := onEngine(t, r[0], "vllm", analytic.Workload{Batch: 1, PromptLen: 8192, GenLen: 2})
			c.Machine = casetest.Machine(t, gpu, "vllm")
			s, err := models.ParseScheme(r[1])
			if err != nil {
				t.Fatal(err)
			}
			c.Scheme = s.For(c.Machine.GPU)
			got := float64(predict(t, c).Memory.MaxTokens)
			if off := got/logged - 1; math.Abs(off) > 0.015 {
				t.Errorf("%s %s %s: %.0f tokens, vLLM had %.0f (%+.1f %%)", gpu, r[0], r[1], got, logged, 100*off)
			} else {
				t.Logf("%s %s %s: %+.1f %%", gpu, r[0], r[1], 100*off)
			}
		}
	}
}

// TestUtilization holds that every engine takes a share of every GPU's memory.
func TestUtilization(t *testing.T) {
	for _, gpu := range casetest.GPUs(t) {
		for _, name := range engine.Names() {
			if share := casetest.Engine(t, name).Profile().Utilization; share != nil {
				if x := share(casetest.GPU(t, gpu).Capacity()); x < 0 || x > 1 {
					t.Errorf("%s takes %v of the memory of %s", name, x, gpu)
				}
			}
		}
	}
}
