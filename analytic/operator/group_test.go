package operator_test

import (
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
)

// Groups of which only the past differs have the operators of one group with the mean of
// it, in decode and in prefill, where no window lies between.
func TestGroupsAreTheirMean(t *testing.T) {
	scheme, err := models.ParseScheme("w16a16")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"llama3.1-8b", "qwen3-30b-a3b", "deepseek-v3", "nemotron-h-8b"} {
		shard := operator.NewRank(casetest.Model(t, name), operator.Parallelism{TP: 2}, scheme, nil)
		for _, fresh := range []float64{1, 200} {
			groups := []operator.Group{{Batch: 3, New: fresh, Past: 1000, Logits: 1}, {Batch: 1, New: fresh, Past: 9000, Logits: 1}}
			several := shard.Mixed(groups)
			one := shard.Step(4, fresh, 3000, 1)
			got, want := several.AppendOps(nil), one.AppendOps(nil)
			if len(got) != len(want) {
				t.Fatalf("%s: %d operators of groups, %d of their mean", name, len(got), len(want))
			}
			for i := range got {
				g, w := &got[i], &want[i]
				what := name + " " + w.Name
				casetest.Near(t, what+": rows", g.Shape.M, w.Shape.M, 1e-12)
				casetest.Near(t, what+": tiles", g.Shape.Tiles, w.Shape.Tiles, 1e-12)
				casetest.Near(t, what+": FLOPs", g.Work.FLOPs, w.Work.FLOPs, 1e-12)
				casetest.Near(t, what+": KV", g.Work.KV, w.Work.KV, 1e-12)
				casetest.Near(t, what+": traffic", g.Work.Traffic(), w.Work.Traffic(), 1e-12)
			}
		}
	}
}
