package plan

import (
	"math"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/serving"
	"llmprof/unit"
)

// The percentiles of a row are those of a server that runs, and not of one that fills: requests that take long are many at once.
func TestTailsOfLongRequests(t *testing.T) {
	testkit.Long(t, "a simulation of 12000 requests beside that of a plan; TestTailsOfPaths compares tails of shorter ones")
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
	load := serving.Load{Arrival: serving.Arrival{Kind: "poisson", Rate: q.Load.Rate}, Prompt: q.Prompt, Gen: q.Gen,
		Requests: 12000, Seed: 20}
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
	testkit.Long(t, "simulations by 18 seeds")
	q := request(t, "llama3.1-8b", "l40s")
	q.Load, q.MaxGPUs, q.Splits, q.Together = Load{Rate: 3}, 2, []Split{{1, 1, 1, 0}}, true
	q.Prompt = serving.Lengths{Kind: "lognormal", Mean: 1000, Spread: 1}
	found, err := Search(t.Context(), q)
	testkit.Must(t, err)
	r := &found.Rows[0]
	steadies, err := r.search.steadies(t.Context(), r.from, r.setting.variant)
	testkit.Must(t, err)
	within, all := 0, 0
	var before *Simulated
	for seed := range uint64(testkit.Cases(6, 40)) {
		results := make([]*serving.Figures, seeds)
		for i := range results {
			results[i], err = r.simulateSeed(q, steadies, thorough/seeds, 1000+100*seed+uint64(i))
			testkit.Must(t, err)
		}
		other := summary(results, r.slower)
		for _, at := range []Target{{TTFT, 0.5, 0}, {TTFT, 0.99, 0}, {TPOT, 0.95, 0}, {E2E, 0, 0}} {
			if before == nil {
				break
			}
			is, spread := before.Of(&at)
			was, _ := other.Of(&at)
			all++
			if math.Abs(float64(was/is-1)) < spread {
				within++
			}
		}
		before = other
	}
	t.Logf("%d of %d", within, all)
	if 10*within < 8*all {
		t.Errorf("%d of %d figures are within the spread", within, all)
	}
}

// The percentiles of a sample path are those of simulations, within a tenth where a few prompts are long and within a hundredth where none
// is.
func TestTailsOfPaths(t *testing.T) {
	testkit.Long(t, "simulations of 30,000 requests; TestPlansHold and the scripts of plan have percentiles")
	for _, x := range []struct {
		model, gpu string
		rate       float64
		prompt     serving.Lengths
		within     float64
	}{
		{"llama3.1-8b", "l40s", 6, serving.Lengths{Kind: "uniform", Low: 1, High: 2000}, 0.1},
		{"llama3.1-8b", "h100", 8, serving.Lengths{Kind: "lognormal", Mean: 2000, Spread: 1}, 0.13},
		{"qwen3-8b", "l40s", 4, serving.Fixed(1024), 0.02},
	}[:testkit.Cases(1, 3)] {
		q := request(t, x.model, x.gpu)
		q.Load, q.MaxGPUs, q.Splits, q.Together, q.Expected = Load{Rate: x.rate}, 4, []Split{{1, 1, 1, 0}}, true, true
		q.Prompt, q.Targets = x.prompt, []Target{{TTFT, 0.99, 100}}
		found, err := Search(t.Context(), q)
		testkit.Must(t, err)
		r := found.Rows[0]
		testkit.Must(t, r.simulate(t.Context(), q, testkit.Cases(6, 24)*thorough))
		path := r
		testkit.Must(t, r.search.tails(t.Context(), r.from, r.setting.variant, &path))
		for _, at := range []Target{{TTFT, 0.5, 0}, {TTFT, 0.95, 0}, {TTFT, 0.99, 0}, {TPOT, 0.5, 0}, {TPOT, 0.99, 0}, {E2E, 0.99, 0}} {
			is, _ := path.Simulated.Of(&at)
			want, spread := r.Simulated.Of(&at)
			if off := math.Abs(float64(is/want - 1)); off > x.within+spread {
				t.Errorf("%s on %s: %v is %v by the path, %v ± %.0f %% by simulation", x.model, x.gpu, &at, is, want, 100*spread)
			}
		}
	}
}

// A percentile is rounded to what another seed moves it by less than, and to no less than a lower one.
func TestRounded(t *testing.T) {
	s := &Simulated{}
	for i, x := range []struct{ is, spread float64 }{{0.02112, 0.001}, {0.0229, 0.001}, {0.0256, 0.02}, {0.0274, 0.1}} {
		s.At[TPOT][i], s.Spread[TPOT][i] = unit.Seconds(x.is), x.spread
	}
	s.At[TTFT][3], s.Spread[TTFT][3] = 0.816, 0.083
	for _, x := range []struct {
		of   Figure
		at   float64
		want float64
	}{{TPOT, 0.5, 0.0211}, {TPOT, 0.95, 0.026}, {TPOT, 0.99, 0.026}, {TTFT, 0.99, 0.8}} {
		if got := s.Rounded(&Target{Of: x.of, At: x.at}); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%v p%g is rounded to %g, want %g", x.of, 100*x.at, got, x.want)
		}
	}
}
