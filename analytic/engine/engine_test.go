package engine_test

import (
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/analytic/engine"
	"llmprof/unit"
)

// TestEnginesExplained holds that the operators' times add up to the step's, with
// every engine.
func TestEnginesExplained(t *testing.T) {
	for _, name := range engine.Names() {
		c := onEngine(t, "llama3.1-8b", name, analytic.Workload{Batch: 8, Prompt: 512, Gen: 64})
		r := explain(t, c)
		var sum unit.Seconds
		for i := range r.DecodeOps {
			sum += r.DecodeOps[i].Expected
		}
		if d := float64(sum/r.Decode.Expected - 1); math.Abs(d) > 1e-9 {
			t.Errorf("%s: operators take %v of %v", name, sum, r.Decode.Expected)
		}
	}
}

// TestOlderReleases holds that the interval of a profile of older releases reaches further
// up alone.
func TestOlderReleases(t *testing.T) {
	w := analytic.Workload{Batch: 4, Prompt: 512, Gen: 64}
	for _, name := range []string{"vllm-2024", "tensorrt-llm-2024"} {
		e := predict(t, onEngine(t, "llama3.1-8b", name, w))
		for _, s := range []analytic.Span{e.TTFT, e.TPOT, e.TTLT} {
			near(t, name+": high", s.High-s.Expected, s.Expected-s.Low+s.Expected.Times(0.8), 1e-9)
		}
	}
}

// TestHostErrorFades holds that a slower host widens the interval as far as its launches
// would then take longer than the GPU.
func TestHostErrorFades(t *testing.T) {
	e := casetest.Engine(t, "transformers").Profile()
	for _, x := range []struct{ batch, prompt int }{{1, 128}, {1, 2048}, {32, 4096}} {
		c := onEngine(t, "llama3.1-8b", "transformers", analytic.Workload{Batch: x.batch, Prompt: x.prompt, Gen: 2})
		got := predict(t, c)
		alone := predict(t, onEngine(t, "llama3.1-8b", "transformers", analytic.Workload{Batch: 1, Prompt: 1, Gen: 2})).TTFT.Expected // launches and nothing else
		want := c.Machine.Cal.PrefillError + max((1+e.HostError)*float64(alone/got.TTFT.Expected)-1, 0)
		near(t, "half-width of TTFT", float64(got.TTFT.High/got.TTFT.Expected)-1, want, 1e-9)
	}
}
