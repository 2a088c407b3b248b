package operator_test

import (
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/unit"
)

// What a run of steps comes to in closed form is the sum of its steps one by one, through
// windows that fill, chunks of attention and scans.
func TestCountIsSumOfSteps(t *testing.T) {
	scheme, err := models.ParseScheme("w16a16")
	testkit.Must(t, err)
	for _, name := range []string{"llama3.1-8b", "gemma2-9b", "llama4-scout", "qwen3-30b-a3b", "deepseek-v3", "nemotron-h-8b",
		"qwen3-next-80b-a3b"} {
		m := casetest.Model(t, name)
		w := operator.Workload{Batch: 4, PromptLen: 8100, GenLen: 300, Chunk: 96, CachedPrefix: 1000}
		par := operator.Parallelism{TP: 2, PP: 2, MicroBatches: 2}
		n, err := operator.Count(m, par, scheme, &w)
		testkit.Must(t, err)
		shard := operator.NewRank(m, par, scheme, nil)
		var prefill, decode operator.Sum
		for past := w.CachedPrefix; past < w.PromptLen; past += w.Chunk {
			st := shard.Step(2, float64(min(w.Chunk, w.PromptLen-past)), float64(past), 0)
			if past+w.Chunk >= w.PromptLen {
				st.Logits = 1
			}
			addOps(&prefill, &st)
		}
		for i := range w.GenLen - 1 {
			st := shard.Step(2, 1, float64(w.PromptLen+i), 1)
			addOps(&decode, &st)
		}
		near(t, name+" prefill", &n.Prefill, &prefill)
		near(t, name+" decode", &n.Decode, &decode)
	}
}

// addOps adds the operators of a step.
func addOps(sum *operator.Sum, s *operator.Step) {
	for _, o := range s.AppendOps(nil) {
		sum.AddOp(&o)
	}
}

// A part of a step has at most 64 operators, one for each bit of analytic.Kernel.Ops.
func TestPartsHaveFewOperators(t *testing.T) {
	scheme, err := models.ParseScheme("fp8")
	testkit.Must(t, err)
	for _, m := range casetest.Models(t) {
		shard := operator.NewRank(m, operator.Parallelism{TP: 2, PP: 2, EP: 2}, scheme, nil)
		for _, fresh := range []float64{1, 4096} {
			st := shard.Step(8, fresh, 1000, 1)
			most := max(len(st.AppendFirst(nil)), len(st.AppendHops(nil)), len(st.AppendLast(nil)))
			for i := range m.Layers {
				most = max(most, len(st.AppendLayer(nil, &m.Layers[i])))
			}
			if most > 64 {
				t.Errorf("%s: a part of a step of %v tokens has %d operators", m.Name, fresh, most)
			}
		}
	}
}

// near compares the work of all micro-batches with that of one of two.
func near(t *testing.T, what string, got, one *operator.Sum) {
	t.Helper()
	casetest.Near(t, what+": the model's FLOPs", got.Model, one.Model.Times(2), 1e-9)
	casetest.Near(t, what+": FLOPs", got.Work.FLOPs, one.Work.FLOPs.Times(2), 1e-9)
	casetest.Near(t, what+": vector FLOPs", got.Work.Vector, one.Work.Vector.Times(2), 1e-9)
	casetest.Near(t, what+": weights", got.Work.Weights, one.Work.Weights.Times(2), 1e-9)
	casetest.Near(t, what+": KV", got.Work.KV, one.Work.KV.Times(2), 1e-9)
	casetest.Near(t, what+": wire", got.Work.Wire, one.Work.Wire.Times(2), 1e-9)
}

// What cannot be split or run is refused, and yields no number.
func TestCountRefuses(t *testing.T) {
	m := casetest.Model(t, "llama3.1-8b")
	one := operator.Workload{Batch: 1, PromptLen: 10, GenLen: 1}
	for what, x := range map[string]struct {
		m *models.Model
		p operator.Parallelism
		s models.Scheme
		w operator.Workload
	}{
		"no model":          {nil, operator.Parallelism{}, models.Scheme{Weights: unit.BF16, Act: unit.BF16}, one},
		"no scheme":         {m, operator.Parallelism{}, models.Scheme{}, one},
		"a split of heads":  {m, operator.Parallelism{TP: 3}, models.Scheme{Weights: unit.BF16, Act: unit.BF16}, one},
		"an empty workload": {m, operator.Parallelism{}, models.Scheme{Weights: unit.BF16, Act: unit.BF16}, operator.Workload{}},
	} {
		if n, err := operator.Count(x.m, x.p, x.s, &x.w); err == nil {
			t.Errorf("%s: %+v", what, n)
		}
	}
}
