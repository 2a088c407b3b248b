package analytic_test

import (
	"math/rand/v2"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
)

// A prefill that was remembered among many others, or replaced by one of them, is what it is alone.
func TestPreparedManyPrefills(t *testing.T) {
	random := rand.New(rand.NewPCG(4, 1))
	c := testCase(t, "llama3.1-8b", "a100", 1, 1)
	all, err := analytic.Calibrated(c.Machine.GPU, casetest.Engine(t, "vllm"), nil)
	if err != nil {
		t.Fatal(err)
	}
	series, err := c.Prepare(all, all.Machine)
	if err != nil {
		t.Fatal(err)
	}
	one := *c
	one.Machine = all.Machine
	alone, err := analytic.NewPredictor(&one)
	if err != nil {
		t.Fatal(err)
	}
	for range 15000 { // They are some 5000 different steps.
		w := analytic.Workload{Batch: 1 + random.IntN(4), PromptLen: 1 + random.IntN(5000), GenLen: 1}
		got, err := series.Predict(&w)
		if err != nil {
			t.Fatal(err)
		}
		want, err := alone.Predict(&w)
		if err != nil {
			t.Fatal(err)
		}
		if got.Prefill != want.Prefill || got.TTFT.Expected != want.TTFT.Expected {
			t.Fatalf("%+v: the series has %+v, alone it is %+v", w, got.Prefill, want.Prefill)
		}
	}
}
