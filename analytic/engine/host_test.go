package engine_test

import (
	"fmt"
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/roofline"
	"llmprof/unit"
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
			math.Hypot(c.Machine.Cal.PrefillError, e.HostError*request/float64(got.TTFT.Expected)), 1e-9)
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
		near(t, "wait for the next step", float64(predict(t, c).TTFT.Expected-without), x.waits*(k[roofline.HostAsync]+k[roofline.HostSequence]), 1e-9)
	}
}

// TestRanksAreTold holds decode steps of qwen3-0.6b by SGLang 0.5.14, which wait for the host, to measured ones on an H200 and on two H100s
// (experiments/sglang/host.csv), in the median of the loads of one sequence.
func TestRanksAreTold(t *testing.T) {
	for tp, want := range map[int]unit.Seconds{1: 1.59e-3, 2: 1.85e-3} {
		c := onEngine(t, "qwen3-0.6b", "sglang", analytic.Workload{Batch: 1, PromptLen: 128, GenLen: 64})
		c.Parallel.TP = tp
		near(t, fmt.Sprintf("TPOT over %d GPUs", tp), predict(t, c).TPOT.Expected, want, 0.12)
	}
}
