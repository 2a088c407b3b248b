package plan

import (
	"testing"

	"llmprof/internal/testkit"
)

// TestBoundsOfEnergy holds that no token at a rate takes less energy than the bound by which searches leave deployments out, with drafts,
// other steps and replicas that only prefill, however many replicas share experts.
func TestBoundsOfEnergy(t *testing.T) {
	near, tried := 0, 0
	for s, c := range deployments(t, Energy, testkit.Cases(15, 1500)) {
		q := s.q
		check := func(of *config, r *Row, ok bool, units int) {
			if !ok {
				return
			}
			s.expect(of, r)
			least := c.energy(units) / s.figure(r)
			if tried++; least > 0.5 {
				near++
			}
			if least > 1+1e-9 {
				t.Errorf("%v + %v tokens, %+v: %v (%d micro-batches) takes %v a token, and at least %.4f times as much", &q.Prompt, &q.Gen, q.Load, r,
					r.MicroBatches, r.JToken, least)
			}
		}
		most := s.mostUnits(c, none)
		for _, drafts := range append([]int{0}, q.Drafts...) {
			d, err := s.drafting(c, drafts)
			testkit.Must(t, err)
			for units := 1; units <= most; units *= 2 {
				r, ok := s.steady(d, units)
				check(d, &r, ok, units)
			}
		}
		for _, budget := range q.Budgets {
			if fitsSteps(&c.server.Scheduler, budget, 0) {
				other := s.stepping(c, budget)
				r, ok := s.steady(other, most)
				check(other, &r, ok, most)
			}
		}
		for _, prefill := range []int{1, 2, 4} {
			if prefill < most {
				r, ok := s.decoders(c, prefill, most-prefill, most-prefill)
				check(c, &r, ok, most)
			}
		}
	}
	if t.Logf("%d of %d are within a half", near, tried); 2*near < tried {
		t.Errorf("%d of %d bounds are within a half of the truth", near, tried)
	}
}
