package engine_test

import (
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
)

// TestRequestErrorShows holds that the error of the host's time for a request widens the interval of TTFT
// where kernels bound the prompt. No kernel hides that time.
func TestRequestErrorShows(t *testing.T) {
	for _, name := range []string{"vllm", "sglang"} {
		e := casetest.Engine(t, name).Profile()
		c := onEngine(t, "llama3.1-8b", name, analytic.Workload{Batch: 1, PromptLen: 8192, GenLen: 2})
		got := predict(t, c)
		request := float64(c.Machine.Cal.Constants[roofline.HostRequest] + c.Machine.Cal.Constants[roofline.HostAsync])
		near(t, name+": half-width of TTFT", float64(got.TTFT.High/got.TTFT.Expected)-1,
			math.Hypot(got.Prefill.KernelHigh, e.HostError*request/float64(got.TTFT.Expected)), 1e-9)
	}
}

// TestFirstTokenWaitsForNextStep holds that a first token of SGLang waits for the launch of the next
// step where the host is slower than the kernels, and does not where it is faster.
func TestFirstTokenWaitsForNextStep(t *testing.T) {
	for _, x := range []struct {
		prompt int
		waits  float64
	}{{16, 1}, {8192, 0}} {
		c := onEngine(t, "llama3.2-3b", "sglang", analytic.Workload{Batch: 1, PromptLen: x.prompt, GenLen: 2})
		c.Machine.Engine.Profile().Ahead = false
		without := predict(t, c).TTFT.Expected
		c.Machine.Engine.Profile().Ahead = true
		k := &c.Machine.Cal.Constants
		near(t, "wait for the next step", float64(predict(t, c).TTFT.Expected-without), x.waits*(k[roofline.HostAsync]+k[roofline.HostSequence]),
			1e-9)
	}
}

// TestRanksWiden holds that ranks of SGLang, of which the slowest counts, widen the slow end of the interval alone, by as much of
// the host's time as shows, and those of an engine whose ranks do not schedule none.
func TestRanksWiden(t *testing.T) {
	for _, engine := range []string{"sglang", "vllm"} {
		c := onEngine(t, "qwen3-0.6b", engine, analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 64})
		c.Parallel.TP = 2
		profile := c.Machine.Engine.Profile()
		got, x, ranks := predict(t, c).TTFT, profile.HostError, profile.RanksError
		if wider := ranks > 0; wider != (engine == "sglang") {
			t.Fatalf("%s: ranks take %g more", engine, ranks)
		}
		// Kernels of so small a model take less than its launches.
		near(t, engine+": slow end", got.High, got.Expected.Times((1+x)*(1+ranks)), 0.02)
		near(t, engine+": fast end", got.Low, got.Expected.Times(1/(1+x)), 0.02)
	}
}
