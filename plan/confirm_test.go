package plan

import (
	"math"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/serving"
)

// The percentiles of a row are those of a server that runs, and not of one that fills: requests that take long are many at once.
func TestTailsOfLongRequests(t *testing.T) {
	q := request(t, "llama3.1-8b", "h200")
	q.Prompt, q.Gen, q.MaxGPUs, q.Load, q.Expected = serving.Fixed(256), serving.Fixed(1500), 1, Load{Rate: 12}, true
	q.Splits, q.Together = []Split{{1, 1, 1, 0}}, true
	found, err := Search(t.Context(), q)
	testkit.Must(t, err)
	if len(found.Rows) == 0 {
		t.Fatal(found.Rejected)
	}
	r := &found.Rows[0]
	one := r.Request(q)
	d, err := library().Serve(t.Context(), &one)
	testkit.Must(t, err)
	server, err := d.Server(t.Context())
	testkit.Must(t, err)
	load := serving.Load{Arrival: serving.Arrival{Kind: "poisson", Rate: q.Load.Rate}, Prompt: q.Prompt, Gen: q.Gen, Requests: 12000, Seed: 20}
	source, err := load.Source()
	testkit.Must(t, err)
	long, err := serving.Simulate(t.Context(), server, source, serving.Options{Warmup: 1000})
	testkit.Must(t, err)
	at := Target{TPOT, 0.99, 0}
	if is, _ := r.Simulated.Of(&at); float64(is) < 0.97*long.TPOT.Quantile(0.99) {
		t.Errorf("%.0f sequences at once: a TPOT of %v at p99, %g in a long simulation", r.Running, is, long.TPOT.Quantile(0.99))
	}
}

// Another seed moves a figure by no more than the spread that is told, in nine of ten cases.
func TestSpreadOfSeeds(t *testing.T) {
	q := request(t, "llama3.1-8b", "l40s")
	q.Load, q.MaxGPUs, q.Splits, q.Together = Load{Rate: 3}, 2, []Split{{1, 1, 1, 0}}, true
	q.Prompt = serving.Lengths{Kind: "lognormal", Mean: 1000, Spread: 1}
	found, err := Search(t.Context(), q)
	testkit.Must(t, err)
	r := &found.Rows[0]
	one := r.Request(q)
	d, err := library().Serve(t.Context(), &one)
	testkit.Must(t, err)
	within, all := 0, 0
	for seed := range uint64(testkit.Cases(6, 30)) {
		results := make([]*serving.Result, seeds)
		for i := range results {
			results[i], err = r.simulated(t.Context(), q, d, thorough/seeds, 1000+100*seed+uint64(i))
			testkit.Must(t, err)
		}
		other := summary(results, r.slower)
		for _, at := range []Target{{TTFT, 0.5, 0}, {TTFT, 0.99, 0}, {TPOT, 0.95, 0}, {E2E, 0, 0}} {
			is, spread := r.Simulated.Of(&at)
			was, also := other.Of(&at)
			all++
			if math.Abs(float64(is/was-1)) < math.Hypot(spread, also) {
				within++
			}
		}
	}
	if 10*within < 8*all {
		t.Errorf("%d of %d figures are within the spread", within, all)
	}
}
