package engine_test

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// TestAllReduceOfPair holds the law of an all-reduce to what vLLM 0.33 takes for one in a CUDA graph between two H200s, which no constant
// comes from (experiments/h200-pair/collective.py). Up to 8 MB vLLM reads the other rank's memory, beyond NCCL does it.
func TestAllReduceOfPair(t *testing.T) {
	f, err := os.Open("../../experiments/h200-pair/collective.csv")
	testkit.Must(t, err)
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	testkit.Must(t, err)
	m := casetest.Machine(t, "h200", "vllm@0.33.0")
	var sum float64
	for _, row := range rows[1:] {
		bytes, err := strconv.ParseFloat(row[0], 64)
		testkit.Must(t, err)
		measured, err := strconv.ParseFloat(row[1], 64)
		testkit.Must(t, err)
		k := roofline.Kernel{Class: roofline.AllReduce, Shape: roofline.Shape{Ranks: 2}, Work: roofline.Work{Wire: unit.Bytes(bytes)},
			Launches: 1, Count: 1}
		if bytes < 8<<20 {
			k.Class = roofline.OneShotAllReduce
			k.Exchange(engine.OneShotBytes)
		}
		law := 1e6 * float64(casetest.Cost(m, &k).Time)
		t.Logf("%10.0f bytes: %7.1f us measured, %7.1f by the law, %+5.1f %%", bytes, measured, law, 100*(law/measured-1))
		sum += math.Abs(law/measured - 1)
	}
	if mean := sum / float64(len(rows)-1); !(mean < 0.2) {
		t.Errorf("the law is off by %.0f %% in the mean", 100*mean)
	}
}

// TestPairAsLogged holds the memory of servers over two H200s to what they logged (experiments/h200-pair/memory.txt).
func TestPairAsLogged(t *testing.T) {
	for _, x := range []struct {
		model, engine string
		tokens        float64
		weights       float64 // GiB of each GPU; the checkpoint of qwen3.6-27b has an encoder that the measured configuration lacks
	}{
		{"llama3.1-70b", "vllm@0.33.0", 391936, 65.74}, {"qwen3-30b-a3b", "vllm@0.33.0", 2123664, 28.46},
		{"qwen3.6-27b", "vllm@0.33.0", 3231041, 0}, {"llama3.1-70b", "sglang@0.5.23", 385984, 65.77},
	} {
		c := casetest.Case(t, x.model, "h200", 1, 2)
		c.Machine = casetest.Machine(t, "h200", x.engine)
		c.Workload = analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 65, Longest: c.Model.MaxContext}
		c.Settings.NoPrefixCache = true
		m := predict(t, c).Memory
		name := fmt.Sprintf("%s on %s", x.model, x.engine)
		near(t, "KV tokens of "+name, m.Logged.Tokens, x.tokens, 0.015)
		if x.weights > 0 {
			near(t, "weights of "+name, float64(m.Weights)/gib, x.weights, 0.002)
		}
	}
}
