package plan

import (
	"math"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/unit"
)

// The batches that the bound of a deployment leaves out take no less than those that it prices.
func TestShareOfAllBatches(t *testing.T) {
	priced, all := 0, 0
	for _, model := range []string{"gpt-oss-120b", "llama3.1-8b", "falcon-mamba-7b"} {
		q := *request(t, model, "h200", "agx-thor", "l40s")
		q.Batches, q.MaxGPUs = DefaultBatches(), 8
		for i := range q.Cards {
			s := search{q: &q, card: &q.Cards[i], miss: noMiss()}
			for _, f := range s.card.Formats {
				for _, split := range []Split{{1, 1, 1, 0}, {4, 2, 1, 0}} {
					if split.TP*split.PP > s.card.GPU.GPUsPerNode {
						continue
					}
					p, err := s.prepare(&Row{Card: s.card, Formats: f, Split: split, DP: 1, MicroBatches: split.PP})
					testkit.Must(t, err)
					w := wave{p: p, q: &q, gain: 1}
					sizes := w.upTo(256, 512)
					took, energy := w.share(sizes)
					priced, all = priced+len(w.known), all+len(sizes)
					least, joules := unit.Seconds(math.Inf(1)), unit.Joules(math.Inf(1))
					for _, d := range sizes {
						c := w.decode(d.batch)
						least, joules = min(least, c.Time.Times(q.steps()/d.batch)), min(joules, w.beyond(&c).Times(q.steps()/d.batch))
					}
					if took != least || energy != joules {
						t.Errorf("%s on %s, %v: %v and %v a sequence, and %v and %v of all batches", model, s.card.GPU.Key, split, took, energy, least,
							joules)
					}
				}
			}
		}
	}
	if 3*priced > 2*all {
		t.Errorf("%d of %d batches were priced", priced, all)
	}
}
