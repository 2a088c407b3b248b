package analytic_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/unit"
)

// A metric has a value or a reason, its interval holds the value, and no two have a key in common.
func TestMetrics(t *testing.T) {
	c := casetest.Case(t, "llama3.1-8b", "h100", 1, 1)
	for _, gen := range []int{1, 100} {
		c.Workload.GenLen = gen
		e, err := analytic.Predict(c)
		testkit.Must(t, err)
		seen := map[string]bool{}
		for _, why := range []string{"", "it cannot run"} {
			clear(seen)
			for _, m := range e.Metrics(nil, why) {
				if (m.Value == 0) != (m.Reason != "") || m.High > 0 && !(m.Low <= m.Value && m.Value <= m.High) || seen[m.Key] {
					t.Errorf("%d tokens: %+v", gen, m)
				}
				seen[m.Key] = true
			}
			if gen > 1 && why != "" && unit.Find(e.Metrics(nil, why), "tok_s").Reason != why {
				t.Errorf("throughput of what cannot run")
			}
		}
	}
}
