package engine_test

import (
	"fmt"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
)

// With DeepEP tokens go to the ranks of their experts alone, in FP8 where experts multiply them so, and return in 16 bits.
func TestDeepEPSends(t *testing.T) {
	for _, name := range []string{"vllm+deepep", "sglang+DeepEP", "vllm@0.24.0+deepep"} {
		c := onEngine(t, "qwen3-30b-a3b", name, analytic.Workload{Batch: 1, PromptLen: 8, GenLen: 2})
		scheme := casetest.Scheme(t, "fp8-block", c.Machine.GPU)
		shard := operator.NewRank(c.Model, analytic.Parallelism{DP: 16, EP: 16, GPUsPerNode: 8}, scheme, nil)
		for _, s := range []operator.Step{shard.Step(1, 64, 0, 1), shard.Step(64, 1, 100, 1)} {
			l := analytic.Lowering{Step: &s, Part: operator.PartLayers, Ops: partOps(s.AppendOps(nil), operator.PartLayers), GPU: c.Machine.GPU,
				Constants: &c.Machine.Cal.Constants}
			c.Machine.Engine.Lower(&l)
			exchanges := 0
			for k := range l.Kernels {
				k := &l.Kernels[k]
				o := &l.Ops[k.Main]
				if o.Type != operator.Shuffle {
					continue
				}
				exchanges++
				values, each := 64*2048.0, 2.0
				if strings.HasSuffix(o.Name, "dispatch") {
					each = 1
				}
				other := operator.ReachedExperts(128, 8, 64) // the chance that one of 8 experts is on the other node
				near(t, name+": "+o.Name+" over nodes", float64(k.Work.NodeWire), values*each*other, 1e-12)
				near(t, name+": "+o.Name, float64(k.Work.Wire), values*each*(15*operator.ReachedExperts(128, 8, 8)-other), 1e-12)
			}
			if exchanges != 2 {
				t.Errorf("%s: %d exchanges in a layer, want 2", name, exchanges)
			}
		}
	}
}

// DeepEP is refused where no tokens are sent, and of engines that do not gather them.
func TestDeepEPRefused(t *testing.T) {
	for _, name := range []string{"tensorrt-llm+deepep", "llama.cpp+deepep", "+deepep", "vllm+deepep+deepep", "vllm+deepep@0.24.0"} {
		if _, err := engine.Parse(name); err == nil {
			t.Errorf("%s is an engine", name)
		}
	}
	g := casetest.GPU(t, "h200")
	s := casetest.Scheme(t, "bf16", g)
	for _, x := range []struct {
		model string
		p     analytic.Parallelism
		want  string
	}{
		{"qwen3-30b-a3b", analytic.Parallelism{DP: 2, EP: 2}, ""},
		{"qwen3-30b-a3b", analytic.Parallelism{TP: 2, EP: 2}, "want --dp above 1"},
		{"llama3.1-8b", analytic.Parallelism{TP: 2}, "no experts"},
	} {
		err := engine.Splits(casetest.Engine(t, "vllm+deepep"), casetest.Model(t, x.model), &s, &x.p)
		if x.want == "" && err != nil || x.want != "" && (err == nil || !strings.Contains(err.Error(), x.want)) {
			t.Errorf("%s, %+v: %v, want %q", x.model, x.p, err, x.want)
		}
	}
}

// Ranks that gather tokens over nodes are told of DeepEP.
func TestGathersIsSaid(t *testing.T) {
	m := casetest.Model(t, "deepseek-v3")
	for _, x := range []struct {
		engine string
		p      analytic.Parallelism
		said   bool
	}{
		{"vllm", analytic.Parallelism{DP: 16, EP: 16, GPUsPerNode: 8}, true},
		{"sglang", analytic.Parallelism{TP: 8, DP: 2, EP: 16, GPUsPerNode: 8}, true},
		{"vllm", analytic.Parallelism{DP: 8, EP: 8, GPUsPerNode: 8}, false},
		{"vllm", analytic.Parallelism{TP: 16, EP: 16, GPUsPerNode: 8}, false},
		{"vllm+deepep", analytic.Parallelism{DP: 16, EP: 16, GPUsPerNode: 8}, false},
		{"tensorrt-llm", analytic.Parallelism{DP: 16, EP: 16, GPUsPerNode: 8}, false},
	} {
		if notes := engine.Notes(casetest.Engine(t, x.engine), m, &x.p); strings.Contains(fmt.Sprint(notes), "+deepep") != x.said {
			t.Errorf("%s, %+v: %q", x.engine, x.p, notes)
		}
	}
}
