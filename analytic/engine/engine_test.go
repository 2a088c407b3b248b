package engine_test

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// TestNamesThatPeopleType checks names that are not the engine's own.
func TestNamesThatPeopleType(t *testing.T) {
	for typed, want := range map[string]string{
		"trt-llm": "tensorrt-llm", "TRTLLM": "tensorrt-llm", "tensorrt_llm": "tensorrt-llm", "tensorrt": "tensorrt-llm", "hf": "transformers",
		"HuggingFace": "transformers",
		"ollama":      "llama.cpp", "gguf": "llama.cpp", "llama_cpp": "llama.cpp", "vLLM": "vllm", "tensorrt_llm@1.1": "tensorrt-llm@1.1",
	} {
		if e, err := engine.Parse(typed); err != nil || e.Profile().Name != want {
			t.Errorf("%s is %v, %v: want %s", typed, e, err, want)
		}
	}
}

// TestEnginesExplained holds that the operators' times add up to the step's, with
// every engine.
func TestEnginesExplained(t *testing.T) {
	for _, name := range engine.Names() {
		c := onEngine(t, "llama3.1-8b", name, analytic.Workload{Batch: 8, PromptLen: 512, GenLen: 64})
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
	w := analytic.Workload{Batch: 4, PromptLen: 512, GenLen: 64}
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
		c := onEngine(t, "llama3.1-8b", "transformers", analytic.Workload{Batch: x.batch, PromptLen: x.prompt, GenLen: 2})
		got := predict(t, c)
		// Launches and nothing else.
		alone := predict(t, onEngine(t, "llama3.1-8b", "transformers", analytic.Workload{Batch: 1, PromptLen: 1, GenLen: 2})).TTFT.Expected
		want := got.Prefill.KernelHigh + max((1+e.HostError)*float64(alone/got.TTFT.Expected)-1, 0)
		if bound := float64(got.Prefill.Bounds[roofline.ByLaunch] / got.Prefill.Expected); bound > 0.99 { // by the host, which hides the kernels
			want = e.HostError
		}
		near(t, "half-width of TTFT", float64(got.TTFT.High/got.TTFT.Expected)-1, want, 1e-9)
	}
}

// TestLowerLeavesOperators holds that no engine changes the operators that it lowers.
func TestLowerLeavesOperators(t *testing.T) {
	for _, name := range engine.Names() {
		for _, model := range []string{"llama3.1-8b", "gemma3-27b", "mixtral-8x7b", "qwen3-30b-a3b", "deepseek-v3", "nemotron-h-8b"} {
			for _, x := range []struct{ batch, fresh, past, logits float64 }{{1, 1, 100, 1}, {24, 1, 5000, 1}, {2, 700, 0, 1}, {2, 700, 300, 0},
				{1, 64, 0, 64}} {
				c := onEngine(t, model, name, analytic.Workload{Batch: 1, PromptLen: 8, GenLen: 2})
				par := analytic.Parallelism{TP: 2}
				shard := operator.NewRank(c.Model, par, c.Scheme, nil)
				s := shard.Step(x.batch, x.fresh, x.past, x.logits)
				ops := s.AppendOps(nil)
				for part := range operator.PartLast + 1 {
					was := slices.Clone(partOps(ops, part))
					l := analytic.Lowering{Step: &s, Part: part, Ops: slices.Clone(was), GPU: c.Machine.GPU, Constants: &c.Machine.Cal.Constants}
					c.Machine.Engine.Lower(&l)
					if len(l.Kernels) == 0 || !reflect.DeepEqual(l.Ops, was) {
						t.Errorf("%s, %s, %+v: part %d has %d kernels, or its operators changed", name, model, x, part, len(l.Kernels))
					}
				}
			}
		}
	}
}

// partOps are the operators of a part: of the first kind of layers, for the layers.
func partOps(ops []operator.Op, part operator.Part) (some []operator.Op) {
	layer := slices.IndexFunc(ops, func(o operator.Op) bool { return o.Layer != "" })
	for i := range ops {
		o := &ops[i]
		if part == operator.PartLayers && o.Layer == ops[layer].Layer ||
			o.Layer == "" && (part == operator.PartFirst && i < layer || part == operator.PartLast && i > layer) {
			some = append(some, *o)
		}
	}
	return some
}
