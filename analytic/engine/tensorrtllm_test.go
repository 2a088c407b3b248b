package engine_test

import (
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// TensorRT-LLM's attention rotates queries and keys and writes the cache, unless norms stand between the projection and the rotation.
// Inputs of products in FP8 are quantized ahead of them where no kernel before does it: by one kernel each for qkv and gate and up on one
// GPU, and by none in Llama on two.
func TestTensorRTLaunches(t *testing.T) {
	for _, x := range []struct {
		engine, model, scheme string
		tp                    int
		want                  float64 // launches of element-wise kernels in a layer: two norms, the activation, and these
	}{
		{"tensorrt-llm", "llama3.1-8b", "w16a16", 1, 3},
		{"tensorrt-llm", "llama3.1-8b", "fp8", 1, 3 + 2},
		{"tensorrt-llm", "llama3.1-8b", "fp8", 2, 3},
		{"tensorrt-llm", "qwen3-8b", "w16a16", 1, 3 + 1},
		{"tensorrt-llm", "qwen3-8b", "fp8", 2, 3 + 1 + 2},
		{"vllm", "llama3.1-8b", "w16a16", 1, 3 + 2},
		{"vllm", "qwen3-8b", "fp8", 2, 3 + 3 + 4},
	} {
		c := onEngine(t, x.model, x.engine, analytic.Workload{Batch: 1, PromptLen: 8, GenLen: 2})
		shard := operator.NewRank(c.Model, analytic.Parallelism{TP: x.tp}, casetest.Scheme(t, x.scheme, c.Machine.GPU), nil)
		s := shard.Step(16, 1, 100, 1)
		l := analytic.Lowering{Step: &s, Part: operator.PartLayers, Ops: partOps(s.AppendOps(nil), operator.PartLayers), GPU: c.Machine.GPU,
			Constants: &c.Machine.Cal.Constants}
		c.Machine.Engine.Lower(&l)
		var launches float64
		for i := range l.Kernels {
			if l.Kernels[i].Class == roofline.Elementwise {
				launches += l.Kernels[i].Launches
			}
		}
		if launches != x.want {
			t.Errorf("%s, %s in %s over %d GPUs: %g element-wise launches in a layer, want %g", x.engine, x.model, x.scheme, x.tp, launches, x.want)
		}
	}
}

// The time of grouped GEMMs in operator tables has the choice of experts in it, which has no kernel of its own then, but launches of the
// host.
func TestGatingIsTimedWithExperts(t *testing.T) {
	for _, x := range []struct {
		gpu, scheme   string
		want, helpers float64 // launches of the choice, and those of the kernels that the experts' time includes
	}{{"a100", "w16a16", 5, 0}, {"h100", "w16a16", 0, 6}, {"h100", "fp8-block", 0, 8}} {
		c := onEngine(t, "qwen3-30b-a3b", "vllm", analytic.Workload{Batch: 1, PromptLen: 8, GenLen: 2})
		c.Machine = casetest.Machine(t, x.gpu, "vllm")
		shard := operator.NewRank(c.Model, analytic.Parallelism{TP: 1}, casetest.Scheme(t, x.scheme, c.Machine.GPU), nil)
		s := shard.Step(16, 1, 100, 1)
		l := analytic.Lowering{Step: &s, Part: operator.PartLayers, Ops: partOps(s.AppendOps(nil), operator.PartLayers), GPU: c.Machine.GPU,
			Constants: &c.Machine.Cal.Constants}
		c.Machine.Engine.Lower(&l)
		var launches, helpers float64
		for i := range l.Kernels {
			switch k := &l.Kernels[i]; {
			case l.Ops[k.Main].Type == operator.TopK:
				launches += k.Launches
			case k.Class == roofline.GroupedGEMM:
				helpers += k.Helpers
			}
		}
		if launches != x.want || helpers != x.helpers {
			t.Errorf("%s on %s: the choice of experts has %g launches of its own and %g of the experts' kernel, want %g and %g", x.scheme, x.gpu,
				launches, helpers, x.want, x.helpers)
		}
	}
}

// An all-to-all sends a rank the tokens of its own experts alone, so that a step of as many tokens a rank takes its experts less
// time the more ranks there are: each has fewer weights to read.
func TestExpertsOfMoreRanks(t *testing.T) {
	last := unit.Seconds(math.Inf(1))
	for _, ranks := range []int{16, 32, 64} {
		c := onEngine(t, "deepseek-v3", "tensorrt-llm", analytic.Workload{Batch: 64, PromptLen: 1000, GenLen: 2})
		c.Scheme = models.StoredScheme(c.Model)
		c.Parallel = analytic.Parallelism{DP: ranks, EP: ranks}
		took := casetest.Line(t, casetest.Explain(t, c).DecodeOps, "experts_gate_up").Expected
		if took >= last {
			t.Errorf("experts take %v on %d ranks of 64 sequences each, and %v on half as many", took, ranks, last)
		}
		last = took
	}
}
