package plan

import (
	"testing"

	"llmprof/internal/testkit"
	"llmprof/serving"
)

// A request that is alone on replicas that share experts takes no longer than the bound by which the search leaves deployments out: an
// estimate has a prompt on each of them.
func TestAloneAmongSharedExperts(t *testing.T) {
	q := *request(t, "qwen3-235b-a22b", "b200")
	q.Batches, q.MaxGPUs, q.Load = DefaultBatches(), 8, Load{Rate: 1e-3}
	q.Prompt, q.Gen = serving.Fixed(4000), serving.Fixed(200)
	s := search{q: &q, card: &q.Cards[0], miss: noMiss()}
	s.open = s.deployments(s.whole(q.Cards[0].Formats[0], Split{1, 1, 8, 0}))
	if len(s.open) == 0 {
		t.Fatal(s.miss.Reason)
	}
	c := s.open[0]
	testkit.Must(t, s.ready(c))
	r, _ := s.steady(c, 1)
	for _, x := range []struct {
		what        string
		alone, load float64
	}{{"TTFT", float64(c.single.TTFT.Expected), float64(r.TTFT)}, {"E2E", float64(c.single.E2E.Expected), float64(r.E2E)}} {
		if alone := x.alone * c.slower; alone > x.load*1.01 || alone < x.load*0.9 {
			t.Errorf("a %s of %g alone, %g with hardly another request", x.what, alone, x.load)
		}
	}
}
