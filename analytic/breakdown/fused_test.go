package breakdown_test

import (
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/casetest"
)

// An operator by itself is what the report says of it; a step whose operators are
// all one kernel has the floor of the step, which every resource overlaps in, and
// any grouping lies between the two.
func TestFused(t *testing.T) {
	for _, model := range []string{"llama3.1-8b", "qwen3-8b", "qwen2.5-7b"} {
		c := casetest.Case(t, model, "h200", 8, 1)
		c.Workload = analytic.Workload{Batch: 8, PromptLen: 700, GenLen: 2}
		r, err := breakdown.Explain(c)
		if err != nil {
			t.Fatal(err)
		}
		for what, lines := range map[string][]breakdown.Operator{"prefill": r.PrefillOps, "decode": r.DecodeOps} {
			whole := map[string]float64{"prefill": float64(r.Prefill.Floor), "decode": float64(r.Decode.Floor)}[what]
			var all []*breakdown.Operator
			parts := 0.0
			for i := range lines {
				l := &lines[i]
				all = append(all, l)
				parts += float64(l.Floor)
				one := breakdown.Fused(c.Machine, l)
				if off := float64(one.Floor - l.Floor); math.Abs(off) > 1e-12*float64(l.Floor) || one.Expected != l.Expected || one.Bound != l.Bound ||
					one.Traffic() != l.Traffic() {
					t.Errorf("%s, %s: %s by itself: %v, %v, want %v, %v", model, what, l.Name, one.Floor, one.Expected, l.Floor, l.Expected)
				}
			}
			fused := float64(breakdown.Fused(c.Machine, all...).Floor)
			if math.Abs(fused/whole-1) > 1e-9 || fused > parts {
				t.Errorf("%s, %s: all in one kernel have the floor %v s, the step %v s, apart %v s", model, what, fused, whole, parts)
			}
			pair := breakdown.Fused(c.Machine, all[2], all[1])
			if pair.Floor > all[1].Floor+all[2].Floor || pair.Floor < max(all[1].Floor, all[2].Floor) || pair.Name != all[2].Name ||
				pair.Acts != all[2].Acts {
				t.Errorf("%s, %s: %+v of %v and %v", model, what, pair, all[2].Floor, all[1].Floor)
			}
		}
	}
}
