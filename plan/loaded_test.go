package plan

import (
	"math/rand/v2"
	"testing"

	"llmprof/unit"
)

// Under a load the search finds what trying every number of replicas of every deployment
// finds.
func TestLoadedEqualsBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 8))
	space := request(t, "llama3.1-8b", "l40s", "a100")
	found := 0
	for i := range 8 {
		q := *space
		q.Splits = []Split{{1, 1, 1}, {2, 1, 1}}
		q.Batches = DefaultBatches()
		q.Prompt, q.Gen = 200+random.IntN(1000), 50+random.IntN(200)
		q.Load.Rate = 12 * random.ExpFloat64()
		q.MaxGPUs = 4
		q.Targets = Targets{TPOT: unit.Seconds(0.012 + 0.04*random.Float64()), TTFT: unit.Seconds(0.2 + random.Float64())}
		got, err := Search(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		want := everyNumber(t, &q)
		switch {
		case want == nil && len(got.Rows) == 0:
		case want == nil || len(got.Rows) == 0 || want.String() != got.Rows[0].String():
			t.Errorf("%d: %+v at %v: found %d rows, %v; by brute force %v", i, q.Targets, q.Load.Rate, len(got.Rows), first(got.Rows), want)
		default:
			found++
		}
	}
	if found < 4 {
		t.Errorf("only %d of 8 loads have an answer", found)
	}
}

func first(rows []Row) *Row {
	if len(rows) == 0 {
		return nil
	}
	return &rows[0]
}

// everyNumber works out the steady state of every deployment with every number of replicas.
func everyNumber(t *testing.T, q *Request) (best *Row) {
	t.Helper()
	for i := range q.Cards {
		for _, f := range q.Cards[i].Formats {
			for _, split := range q.Splits {
				s := search{q: q, card: &q.Cards[i], miss: noMiss()}
				c := config{Row: Row{Card: s.card, Formats: f, Split: split, DP: 1, MicroBatches: 1, GPUs: split.TP}}
				idle := *q
				idle.Targets, idle.Load, idle.Budget = Targets{}, Load{Rate: 1e-9}, 0
				if why := (&search{q: &idle, card: s.card, miss: noMiss()}).screen(&c); why != "" {
					continue
				}
				for units := 1; units*c.GPUs <= q.MaxGPUs; units++ {
					if r, ok := s.steady(&c, units); ok && (best == nil || q.compare(&r, best) < 0) {
						best = &r
					}
				}
			}
		}
	}
	return best
}
