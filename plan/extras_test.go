package plan

import (
	"slices"
	"testing"

	"llmprof/internal/testkit"
)

// Shorter steps answer no more requests than the search takes them to, by what the longest ones answer.
func TestCapacityOfSteps(t *testing.T) {
	most, tried := 0.0, 0
	for s, c := range deployments(t, Cost, testkit.Cases(30, 600)) {
		for _, drafts := range append([]int{0}, s.q.Drafts...) {
			base, err := s.drafting(c, drafts)
			testkit.Must(t, err)
			var rates []float64
			for _, budget := range append([]int{0}, s.q.Budgets...) {
				if !fitsSteps(&c.server.Scheduler, budget, drafts) {
					continue
				}
				other := s.stepping(base, budget)
				if s.q.prepare(other) != nil {
					continue
				}
				rate := other.capacity(1) / other.slower
				rates = append(rates, rate)
			}
			if n := len(rates) - 1; n > 0 {
				most = max(most, slices.Max(rates[:n])/rates[n])
				tried++
			}
		}
	}
	if t.Logf("%d deployments, at most %.3f times as many", tried, most); most > shorterSteps || tried == 0 {
		t.Errorf("shorter steps answer %.3f times as many requests in one of %d deployments", most, tried)
	}
}
