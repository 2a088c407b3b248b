package plan

import (
	"testing"

	"llmprof/internal/testkit"
)

// TestBoundsOfLatency holds that no deployment at a rate takes less than the bounds by which searches by latency leave it out, with
// prompts beside its decodes and with some replicas that only prefill, however many replicas share experts.
func TestBoundsOfLatency(t *testing.T) {
	near, tried := 0, 0
	for s, c := range deployments(t, Latency, testkit.Cases(24, 700)) {
		q := s.q
		most := s.mostUnits(c, none)
		check := func(what string, r *Row, ok bool, least float64) {
			if !ok {
				return
			}
			if tried++; least > 0.8*float64(r.E2E) {
				near++
			}
			if least > float64(r.E2E) {
				t.Errorf("%v + %v tokens, %+v: %v (%d micro-batches) %s takes %v a request, and at least %g s (%.4f)", &q.Prompt, &q.Gen, q.Load, r,
					r.MicroBatches, what, r.E2E, least, least/float64(r.E2E))
			}
		}
		for _, drafts := range q.Drafts {
			d, err := s.drafting(c, drafts)
			testkit.Must(t, err)
			for units := 1; units <= most; units *= 2 {
				r, ok := s.steady(d, units)
				check("with drafts", &r, ok, float64(c.mixed)*c.slower)
				if ok {
					boundsAtRate(t, s, d, &r, units)
				}
			}
		}
		for units := 1; units < most; units *= 2 {
			if r, ok := s.steady(c, units); ok {
				boundsAtRate(t, s, c, &r, units)
			}
		}
		for _, budget := range append([]int{0}, q.Budgets...) {
			// Whose interval is another one.
			if budget > 0 && (!fitsSteps(&c.server.Scheduler, budget, 0) || q.Prompt.Longest() > min(budget, c.server.Scheduler.Budget)) {
				continue
			}
			r, ok := s.steady(s.stepping(c, budget), most)
			if check("beside prompts", &r, ok, float64(c.mixed)*c.slower); ok {
				boundsAtRate(t, s, c, &r, most)
			}
		}
		for _, prefill := range []int{1, 2, 4} {
			if prefill < most {
				r, ok := s.decoders(c, prefill, most-prefill, most-prefill)
				check("apart", &r, ok, float64(c.wave.apart(s, c, prefill))*c.slower)
			}
		}
	}
	t.Logf("%d of %d are within a quarter", near, tried)
	if 3*near < tried {
		t.Errorf("%d of %d bounds are within a quarter of the truth", near, tried)
	}
}
