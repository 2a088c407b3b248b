package plan

import (
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/serving"
	"llmprof/unit"
)

// lengths are lengths that differ, with a mean.
func lengths(random *rand.Rand, mean float64) serving.Lengths {
	switch random.IntN(3) {
	case 0:
		return serving.Lengths{Kind: "uniform", Low: 1, High: math.Round(2*mean) - 1}
	case 1:
		return serving.Lengths{Kind: "lognormal", Mean: mean, Spread: 0.3 + random.Float64()}
	}
	return serving.Traced("trace.csv", []int{1, int(mean), int(mean), int(3 * mean)})
}

// TestLoadedEqualsBruteForce holds that of deployments with the settings that their servers start with the search finds what trying every
// number of replicas of each finds, at a rate and of clients that wait for their answers.
func TestLoadedEqualsBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 8))
	space := request(t, "llama3.1-8b", "l40s", "a100")
	found, loads := 0, testkit.Cases(4, 60)
	for i := range loads {
		q := *space
		q.By = Objective(Objectives()[i%4])
		q.Splits = []Split{{4, 1, 1, 0}, {1, 1, 1, 0}, {2, 1, 1, 0}}
		if q.PerGPU = i / 4 % 2; i/4%3 == 2 {
			q.Budget = unit.DollarsPerHour(1 + 4*random.Float64())
		}
		q.Budgets, q.Limits, q.Together = []int{}, []int{}, true
		q.Prompt, q.Gen = serving.Fixed(200+random.IntN(1000)), serving.Fixed(50+random.IntN(200))
		q.MaxGPUs = 4
		q.Targets = means(unit.Seconds(0.2+random.Float64()), unit.Seconds(0.012+0.04*random.Float64()), 0)
		if q.Load = (Load{Rate: 12 * random.ExpFloat64()}); i%4 == 3 {
			q.Load = Load{Concurrency: 1 + random.IntN(40)}
		}
		if i%3 == 2 {
			q.Prompt, q.Gen = lengths(random, q.Prompt.Mean), lengths(random, q.Gen.Mean)
		}
		if best(t, &q) {
			found++
		}
	}
	if 3*found < loads {
		t.Errorf("only %d of %d loads have an answer", found, loads)
	}
}

// allowed is how far the search may be from brute force: energies of several deployments are near each other.
var allowed = map[bool]float64{true: 0.05, false: 1e-3}

// whole is a search over a card of which every deployment is estimated.
func whole(t *testing.T, q *Request, card int) *search {
	t.Helper()
	s := newSearch(q, &q.Cards[card])
	s.estimate(t.Context())
	s.widen(t.Context(), func() float64 { return math.Inf(1) })
	return s
}

// best reports whether a deployment qualifies, and fails where the search ranks another one first than brute force, before simulations.
func best(t *testing.T, q *Request) bool {
	t.Helper()
	q.fill()
	var got, want *Row
	for i := range q.Cards {
		s := newSearch(q, &q.Cards[i])
		s.estimate(t.Context())
		all := whole(t, q, i)
		for _, c := range all.open {
			for units := 1; units*c.GPUs <= q.MaxGPUs; units++ {
				r := *all.qualifies(t.Context(), c, variant{}, units)
				if all.exact(t.Context(), c, &r); r.meets && q.exceeds(&r) == 0 && (want == nil || q.compare(&r, want) < 0) {
					want = &r
				}
			}
		}
		s.run(t.Context(), false)
		if r := s.answering(); len(s.rows) > 0 && (got == nil || q.compare(r, got) < 0) {
			got = r
		}
	}
	switch {
	case (got == nil) != (want == nil):
		t.Errorf("by %s, %+v under %+v: found %v, by brute force %v", q.By, q.Targets, q.Load, got, want)
	case got != nil && q.rank(got) > q.rank(want)+allowed[q.By == Energy]*math.Abs(q.rank(want)):
		t.Errorf("by %s, %+v under %+v: found %v (%g), by brute force %v (%g)", q.By, q.Targets, q.Load, got, q.rank(got), want, q.rank(want))
	}
	return got != nil
}

// A card that cannot be priced is a rejection with its reason, and ends nothing.
func TestSearchWithWrongCard(t *testing.T) {
	q := alone(request(t, "llama3.1-8b", "h100", "l40s"))
	q.Cards[0].Machine, q.Cards[0].Wrong = nil, errors.New("its clock is missing")
	for _, q.Load = range []Load{{}, {Rate: 1}} {
		got, err := Search(t.Context(), q)
		testkit.Must(t, err)
		if len(got.Rows) == 0 || len(got.Rejected) != 1 || got.Rejected[0].Miss.Reason != "its clock is missing" {
			t.Errorf("%d rows, rejected %+v", len(got.Rows), got.Rejected)
		}
	}
}

// Published formats of FP8 and int8 are tried, and none that a quantized checkpoint would have to be widened to.
func TestPublishedFormats(t *testing.T) {
	of := func(model, gpu string) string {
		c := card(t, model, gpu, "vllm")
		names := ""
		for _, f := range DefaultFormats(c.Model, c.GPU, DefaultWeights("vllm"), 4) {
			names += f.Weights + " "
		}
		return names
	}
	for _, x := range []struct{ model, gpu, want, without string }{
		{"qwen3-32b", "h100", "fp8-block", " nvfp4 "}, {"qwen3-32b", "b200", "nvfp4", "int4"}, {"qwen3-32b", "a100", "w8a8", "fp8"},
		{"qwen3-32b", "a100", "w4a16-g128", "fp8"}, {"gpt-oss-120b", "h100", "", "fp8"}, {"deepseek-v3", "b200", "nvfp4", "w8a8"},
	} {
		if got := of(x.model, x.gpu); !strings.Contains(got, x.want) || strings.Contains(got, x.without) {
			t.Errorf("%s on %s is tried in %q, want %q and no %q", x.model, x.gpu, got, x.want, x.without)
		}
	}
}

// Percentiles decide over splits and counts: no deployment with fewer GPUs meets them, and the row does so with another seed.
func TestPercentilesReconsiderSplits(t *testing.T) {
	testkit.Long(t, "a search at percentiles over all splits, and what each of fewer GPUs comes to")
	q := request(t, "qwen3-32b", "h100")
	q.Prompt, q.Gen, q.Load = serving.Lengths{Kind: "lognormal", Mean: 2000, Spread: 0.9}, serving.Fixed(300), Load{Rate: 12}
	q.Targets, q.Together, q.Top, q.PerGPU = []Target{{TTFT, 0.99, 1}, {TPOT, 0.99, 0.03}}, true, 1, 1
	q.Cards[0].Formats = DefaultFormats(q.Cards[0].Model, q.Cards[0].GPU, []string{"fp8-block", "fp8"}, 8)
	found, err := Search(t.Context(), q)
	testkit.Must(t, err)
	if len(found.Rows) == 0 {
		t.Fatal(found.Rejected)
	}
	r := &found.Rows[0]
	fewer := *q
	fewer.fill()
	for _, split := range []Split{{1, 1, 1, 0}, {2, 1, 1, 0}, {4, 1, 1, 0}} { // none of fewer GPUs does
		s := newSearch(&fewer, &fewer.Cards[0])
		s.splits = []Split{split}
		s.estimate(t.Context())
		for _, c := range s.open[:testkit.Cases(1, len(s.open))] {
			if units := (r.GPUs - 1) / c.GPUs; units > 0 {
				other := s.qualifies(t.Context(), c, variant{}, units)
				if other.Utilization == 0 { // it does not answer the load
					continue
				}
				ok, err := other.decide(t.Context(), &fewer)
				testkit.Must(t, err)
				if ok {
					t.Errorf("%v: %v do", r, other)
				}
			}
		}
	}
	if !meets(t, q, r, 20000) {
		t.Errorf("%v does not hold by another seed", r)
	}
}

// GPUs that are rented by nodes of eight cost a node, though fewer are used.
func TestNodesAsSold(t *testing.T) {
	q := alone(request(t, "llama3.1-8b", "h100"))
	q.Load, q.Cards[0].Offers[0].Node, q.Cards[0].Offers[0].Hour = Load{Rate: 1}, 8, 2
	found, err := Search(t.Context(), q)
	testkit.Must(t, err)
	if r := &found.Rows[0]; r.PerHour != 16 || r.GPUs > 8 || r.PerMonth() != 16*730 {
		t.Errorf("%v costs %v", r, r.PerHour)
	}
}

// A card on which nothing was observed goes behind one that was measured and costs no more than its times may be longer.
func TestTrust(t *testing.T) {
	q := alone(request(t, "llama3.1-8b", "h100", "gh200-96gb"))
	q.Load, q.Trusting, q.MaxGPUs = Load{Rate: 1}, false, 1
	q.Cards[0].Observed = map[string]int{"bf16": 10}
	for _, x := range []struct {
		price unit.DollarsPerHour
		any   bool
		want  string
	}{{0.99, false, "h100-sxm-80gb"}, {0.99, true, "gh200-96gb"}, {0.2, false, "gh200-96gb"}} {
		q.Cards[0].Offers[0].Hour, q.Cards[1].Offers[0].Hour, q.Trusting = 1, x.price, x.any
		found, err := Search(t.Context(), q)
		testkit.Must(t, err)
		if got := found.Rows[0].Card.GPU.Key; got != x.want {
			t.Errorf("at %v $ an hour the first is %s, want %s", x.price, got, x.want)
		}
	}
}

func TestFewest(t *testing.T) {
	for most := range 20 {
		for enough := 1; enough < 25; enough++ {
			for first := 1; first <= most; first++ {
				got := fewest(first, most, func(n int) bool { return n >= enough }, false)
				if want := enough; enough > most && got != 0 || enough <= most && got != want {
					t.Fatalf("from %d up to %d: %d, want %d", first, most, got, enough)
				}
			}
		}
	}
}
