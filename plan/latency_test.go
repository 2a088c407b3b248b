package plan

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/serving"
)

// No deployment at a rate takes less than the bounds by which searches by latency leave it out, with prompts beside its decodes and with some replicas that
// only prefill, however many replicas share experts.
func TestBoundsOfLatency(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 11))
	spaces := []*Request{request(t, "qwen3-30b-a3b", "h200", "l40s"), request(t, "gpt-oss-120b", "h100", "b200"), request(t, "deepseek-v3", "h200"), request(t, "llama3.1-8b", "l40s", "h100")}
	splits := []Split{{1, 1, 1, 0}, {2, 1, 1, 0}, {4, 1, 1, 0}, {8, 1, 1, 0}, {2, 2, 1, 0}, {1, 4, 1, 0}, {1, 2, 2, 0}, {1, 1, 4, 0}, {2, 1, 8, 0}, {1, 1, 8, 0}, {2, 1, 1, 8}, {4, 1, 16, 0}}
	near, tried := 0, 0
	for i := range testkit.Cases(24, 1500) {
		q := *spaces[i%len(spaces)]
		q.By, q.MaxGPUs, q.Budgets, q.Limits = Latency, 8<<random.IntN(4), DefaultBudgets(), DefaultLimits()
		q.Batches = DefaultBatches()
		q.Prompt, q.Gen = serving.Fixed(64+random.IntN(6000)), serving.Fixed(8+random.IntN(600))
		q.Load = Load{Rate: 40 * random.ExpFloat64() / float64(1+random.IntN(20))}
		if i%5 == 4 {
			q.Prompt, q.Gen = lengths(random, q.Prompt.Mean), lengths(random, q.Gen.Mean)
		}
		if i%3 == 1 {
			q.Drafts, q.Acceptance = []int{1 + random.IntN(3)}, 0.3+0.6*random.Float64()
		}
		card := &q.Cards[random.IntN(len(q.Cards))]
		s := search{q: &q, card: card, miss: noMiss(), missedAt: math.MaxInt}
		split := splits[random.IntN(len(splits))]
		if !card.Model.HasExperts() && split.sharing() > 1 {
			continue
		}
		s.configs(card.Formats[random.IntN(len(card.Formats))], split)
		for _, c := range s.open {
			if !c.bounded && !s.refine(c) || s.ready(c) != nil {
				continue
			}
			most := s.mostUnits(c, infinite, infinite)
			check := func(what string, r *Row, ok bool, least float64) {
				if !ok {
					return
				}
				if tried++; least > 0.8*float64(r.E2E) {
					near++
				}
				if least > float64(r.E2E) {
					t.Errorf("%d: %v + %v tokens, %+v: %v (%d micro-batches) %s takes %v a request, and at least %g s (%.4f)", i, &q.Prompt, &q.Gen, q.Load, r, r.MicroBatches, what, r.E2E, least, least/float64(r.E2E))
				}
			}
			for _, drafts := range q.Drafts {
				d, err := s.drafting(c, drafts)
				testkit.Must(t, err)
				for units := 1; units <= most; units *= 2 {
					r, ok := s.steady(d, units)
					check("with drafts", &r, ok, float64(c.mixed)*c.slower)
					if ok {
						boundsAtRate(t, &s, d, &r, units)
					}
				}
			}
			for units := 1; units < most; units *= 2 {
				if r, ok := s.steady(c, units); ok {
					boundsAtRate(t, &s, c, &r, units)
				}
			}
			for _, budget := range append([]int{0}, q.Budgets...) {
				if budget > 0 && (!fitsSteps(&c.server.Scheduler, budget, 0) || q.Prompt.Longest() > min(budget, c.server.Scheduler.Budget)) { // whose interval is another one
					continue
				}
				r, ok := s.steady(s.stepping(c, budget), most)
				if check("beside prompts", &r, ok, float64(c.mixed)*c.slower); ok {
					boundsAtRate(t, &s, c, &r, most)
				}
			}
			for _, prefill := range []int{1, 2, 4} {
				if prefill < most {
					r, ok := s.decoders(c, prefill, most-prefill, most-prefill)
					check("apart", &r, ok, float64(c.wave.apart(&s, c, prefill))*c.slower)
				}
			}
		}
	}
	t.Logf("%d of %d are within a quarter", near, tried)
	if 3*near < tried {
		t.Errorf("%d of %d bounds are within a quarter of the truth", near, tried)
	}
}
