package plan

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/analytic/casetest"
	"llmprof/internal/testkit"
	"llmprof/serving"
	"llmprof/unit"
)

// The least of a request over the last batches is that over all of them.
func TestAmong(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 6))
	names := casetest.GPUs(t)
	models := []string{"llama3.1-8b", "gpt-oss-120b", "deepseek-v3", "qwen3-30b-a3b", "gemma3-27b", "nemotron-h-8b", "llama3.1-70b", "jamba-1.5-mini"}
	tried := 0
	for i := range testkit.Cases(8, 80) {
		q := request(t, models[i%len(models)], names[random.IntN(len(names))], names[random.IntN(len(names))], names[random.IntN(len(names))])
		q.MaxGPUs, q.Batches, q.Load.Rate = 64, DefaultBatches(), 5
		q.Prompt, q.Gen = serving.Fixed(64+random.IntN(3000)), serving.Fixed(2+random.IntN(600))
		if random.IntN(2) == 0 {
			q.Targets.TPOT = unit.Seconds(0.1 * random.Float64())
		}
		for j := range q.Cards {
			s := search{q: q, card: &q.Cards[j], miss: noMiss(), missedAt: math.MaxInt}
			for _, f := range q.Cards[j].Formats {
				for _, split := range DefaultSplits(q.Cards[j].Model, q.MaxGPUs) {
					if random.IntN(8) == 0 {
						s.configs(f, split)
					}
				}
			}
			for _, c := range s.open {
				units, err := s.prepare(&c.Row)
				testkit.Must(t, err)
				w := wave{p: units.Predictor, q: q, budgets: s.budgets(units.Predictor)}
				took, energy := w.least(&s, c, c.fits)
				all, last := w.upTo(c.Batch, min(maxBatch(q, c), float64(q.roomless(c.Batch, c.fits)))), false
				for k := range all {
					d := &all[k]
					if d.StepCost = w.decode(d.batch); last {
						break
					}
					time, joules := d.Time.Times(q.steps()/d.batch)+w.prompt.Time, w.beyond(&d.StepCost).Times(q.steps()/d.batch)+w.prompt.Energy
					if tried++; time < took || joules < energy {
						t.Errorf("%v: %v and %v for a request with %g sequences, and at least %v and %v", &c.Row, time, joules, d.batch, took, energy)
					}
					last = q.Targets.TPOT > 0 && d.Time.Times(c.slower) > q.Targets.TPOT
				}
			}
		}
	}
	if tried < 1000 {
		t.Errorf("only %d batches were tried", tried)
	}
}

// maxBatch is how many sequences decode at most with a target for the time per token.
func maxBatch(q *Request, c *config) float64 {
	if q.Targets.TPOT == 0 {
		return math.Inf(1)
	}
	return max(q.Load.Rate*q.steps()*float64(q.Targets.TPOT)/float64(c.DP), 1)
}
