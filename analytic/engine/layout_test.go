package engine_test

import (
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/unit"
)

// Layouts of experts that an engine does not have are refused with the reason.
func TestSplits(t *testing.T) {
	g := casetest.GPU(t, "h200")
	for _, x := range []struct {
		engine, model, scheme string
		p                     analytic.Parallelism
		want                  string // "" where the engine has the layout
	}{
		{"vllm", "deepseek-v3", "w16a16", analytic.Parallelism{DP: 8, MoETP: 8}, ""},
		{"vllm", "deepseek-v3", "w16a16", analytic.Parallelism{TP: 2, DP: 4, EP: 8}, ""},
		{"vllm", "deepseek-v3", "w16a16", analytic.Parallelism{TP: 8, EP: 4}, "want ep 8, or ep 1 with moe-tp 8"},
		{"vllm", "deepseek-v3", "w16a16", analytic.Parallelism{DP: 8, EP: 2, MoETP: 4}, "not ep 2 with moe-tp 4"},
		{"sglang", "deepseek-v3", "w16a16", analytic.Parallelism{DP: 8, EP: 2, MoETP: 4}, ""},
		{"tensorrt-llm", "deepseek-v3", "w16a16", analytic.Parallelism{DP: 8, EP: 2, MoETP: 4}, ""},
		{"tensorrt-llm", "deepseek-v3", "w16a16", analytic.Parallelism{TP: 2, DP: 4, MoETP: 8}, "want tp 1"},
		{"llama.cpp", "deepseek-v3", "w16a16", analytic.Parallelism{DP: 8, MoETP: 8}, "no replicas that share experts"},
		{"llama.cpp", "deepseek-v3", "w16a16", analytic.Parallelism{TP: 8}, ""},
		{"vllm", "qwen3-235b-a22b", "fp8-block", analytic.Parallelism{TP: 4}, ""},
		{"vllm", "qwen3-235b-a22b", "fp8-block", analytic.Parallelism{TP: 8}, "192 of the 1536"},
		{"sglang", "qwen3-235b-a22b", "fp8-block", analytic.Parallelism{DP: 8, MoETP: 8}, "blocks of 128"},
		{"vllm", "qwen3-235b-a22b", "fp8-block", analytic.Parallelism{TP: 8, EP: 8}, ""},
		{"vllm", "qwen3-235b-a22b", "fp8", analytic.Parallelism{TP: 8}, ""},
		{"vllm", "llama3.1-8b", "fp8-block", analytic.Parallelism{TP: 8}, ""},
	} {
		s := casetest.Scheme(t, x.scheme, g)
		err := engine.Splits(casetest.Engine(t, x.engine), casetest.Model(t, x.model), &s, &x.p)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s, %s %s, %+v: %v, want %q", x.engine, x.model, x.scheme, x.p, err, x.want)
		}
	}
}

// SGLang exchanges the tokens of prompts by all-reduces over all ranks, since each replica has another number of them,
// and those of decode steps as vLLM does: by an all-gather and a reduce-scatter, whether ranks have whole experts or parts.
func TestExchanges(t *testing.T) {
	const rows = 64 * 2048 * 2 // bytes of a replica's tokens
	for _, p := range []analytic.Parallelism{{DP: 4, MoETP: 4}, {DP: 4, EP: 4}} {
		for name, times := range map[string][2]float64{"vllm": {1, 1}, "sglang": {2, 1}} {
			c := onEngine(t, "qwen3-30b-a3b", name, analytic.Workload{Batch: 1, PromptLen: 8, GenLen: 2})
			shard := operator.NewRank(c.Model, p, c.Scheme, nil)
			for i, s := range []operator.Step{shard.Step(1, 64, 0, 1), shard.Step(64, 1, 100, 1)} {
				l := analytic.Lowering{Step: &s, Part: operator.PartLayers, Ops: partOps(s.AppendOps(nil), operator.PartLayers), GPU: c.Machine.GPU,
					Constants: &c.Machine.Cal.Constants}
				c.Machine.Engine.Lower(&l)
				var sent unit.Bytes
				for k := range l.Kernels {
					sent += l.Kernels[k].Work.Wire
				}
				near(t, name+": bytes sent", float64(sent), 2*3*rows*times[i], 1e-12)
			}
		}
	}
}
