package plan

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/internal/testkit"
)

// Batches that a sample leaves out change nothing of what is shown.
func TestTopOfAllBatches(t *testing.T) {
	topOfAll(t, rand.New(rand.NewPCG(4, 2)), testkit.Cases(10, 60), func(q *Request, random *rand.Rand) {
		drawLoad(q, random)
		q.Load = Load{}
		q.By = []Objective{Cost, Latency, ByModel}[random.IntN(3)]
		if random.IntN(2) == 0 {
			q.Targets, q.Budget = Targets{}, 0
		}
	})
}

// A larger batch takes no less time than the search takes it to.
func TestLargerBatches(t *testing.T) {
	least, tried := math.Inf(1), 0
	for s, c := range deployments(t, Cost, testkit.Cases(60, 600)) {
		q := *s.q
		q.Load, q.Expected = Load{}, tried%2 == 0
		s.q = &q
		p, err := s.prepare(&c.Row)
		testkit.Must(t, err)
		longest := 0.0
		for _, batch := range q.Batches {
			if batch%c.MicroBatches != 0 {
				continue
			}
			e, err := p.Fitting(q.workload(batch))
			testkit.Must(t, err)
			if !e.Memory.Fits() {
				break
			}
			tried++
			time := float64(q.end(e.TTLT))
			if longest > 0 {
				least = min(least, time/longest)
			}
			longest = max(longest, time)
		}
	}
	if t.Logf("%d batches, at least %.6f times as long", tried, least); least < lessOfLarger || tried == 0 || math.IsNaN(least) {
		t.Errorf("one of %d batches takes %.6f times as long as a smaller one", tried, least)
	}
}
