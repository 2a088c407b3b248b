package plan

import (
	"testing"

	"llmprof/internal/testkit"
	"llmprof/serving"
)

// The percentiles of a row are those of a server that runs, and not of one that fills: requests that take long are many at once.
func TestTailsOfLongRequests(t *testing.T) {
	q := request(t, "llama3.1-8b", "h200")
	q.Prompt, q.Gen, q.MaxGPUs, q.Load, q.Expected = serving.Fixed(256), serving.Fixed(1500), 1, Load{Rate: 12}, true
	q.Batches, q.Splits, q.Together = DefaultBatches(), []Split{{1, 1, 1, 0}}, true
	found, err := Search(t.Context(), q)
	testkit.Must(t, err)
	if len(found.Rows) == 0 {
		t.Fatal(found.Rejected)
	}
	r := &found.Rows[0]
	tail, err := simulate(t.Context(), q, r)
	testkit.Must(t, err)
	server, err := q.serverOf(r)
	testkit.Must(t, err)
	load := serving.Load{Arrival: serving.Arrival{Kind: "poisson", Rate: q.Load.Rate}, Prompt: q.Prompt, Gen: q.Gen, Requests: 12000, Seed: 2}
	source, err := load.Source()
	testkit.Must(t, err)
	long, err := serving.Simulate(t.Context(), server, source, serving.Options{Warmup: 1000})
	testkit.Must(t, err)
	if p99 := long.TPOT.Quantile(0.99); float64(tail.TPOT) < 0.97*p99 {
		t.Errorf("%.0f sequences at once: a TPOT of %v at p99, %g in a long simulation", r.Running, tail.TPOT, p99)
	}
}
