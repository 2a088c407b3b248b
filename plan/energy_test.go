package plan

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/serving"
)

// TestBoundsOfEnergy holds that no token at a rate takes less energy than the bound by which searches leave deployments out, with drafts, other steps and replicas that only prefill, however many
// replicas share experts.
func TestBoundsOfEnergy(t *testing.T) {
	random := rand.New(rand.NewPCG(15, 11))
	spaces := []*Request{request(t, "qwen3-30b-a3b", "h200", "l40s"), request(t, "gpt-oss-120b", "h100", "b200"), request(t, "deepseek-v3", "h200"), requestOn(t, "sglang", "llama3.1-8b", "l40s", "h100")}
	splits := []Split{{1, 1, 1, 0}, {2, 1, 1, 0}, {8, 1, 1, 0}, {2, 2, 1, 0}, {1, 4, 1, 0}, {1, 2, 2, 0}, {1, 1, 4, 0}, {2, 1, 8, 0}, {1, 1, 8, 0}, {2, 1, 1, 8}, {4, 1, 16, 0}}
	near, tried := 0, 0
	for i := range testkit.Cases(60, 1500) {
		q := *spaces[i%len(spaces)]
		q.By, q.MaxGPUs, q.Budgets, q.Limits, q.Batches = Energy, 8<<random.IntN(4), DefaultBudgets(), DefaultLimits(), DefaultBatches()
		q.Prompt, q.Gen = serving.Fixed(64+random.IntN(6000)), serving.Fixed(8+random.IntN(600))
		q.Load = Load{Rate: 40 * random.ExpFloat64() / float64(1+random.IntN(20))}
		if i%5 == 4 {
			q.Prompt, q.Gen = lengths(random, q.Prompt.Mean), lengths(random, q.Gen.Mean)
		}
		if i%3 == 1 {
			q.Drafts, q.Acceptance = []int{1 + random.IntN(3)}, 0.3+0.6*random.Float64()
		}
		card := &q.Cards[random.IntN(len(q.Cards))]
		s := search{q: &q, card: card, miss: noMiss(), missedAt: math.MaxInt, limit: infinite}
		split := splits[random.IntN(len(splits))]
		if !card.Model.HasExperts() && split.sharing() > 1 {
			continue
		}
		s.configs(card.Formats[random.IntN(len(card.Formats))], split)
		for _, c := range s.open {
			if !c.bounded && !s.refine(c) || s.ready(c) != nil {
				continue
			}
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
					t.Errorf("%d: %v + %v tokens, %+v: %v (%d micro-batches) takes %v a token, and at least %.4f times as much", i, &q.Prompt, &q.Gen, q.Load, r, r.MicroBatches, r.JToken, least)
				}
			}
			most := s.mostUnits(c, infinite, infinite)
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
	}
	if t.Logf("%d of %d are within a half", near, tried); 2*near < tried {
		t.Errorf("%d of %d bounds are within a half of the truth", near, tried)
	}
}
