package plan

import (
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/serving"
	"llmprof/unit"
)

// library finds what requests of tests name.
var library = sync.OnceValue(func() *deployment.Library { return deployment.Within(nil) })

// card is a GPU of the built-in table with a model and an engine, by its own calibration.
func card(t testing.TB, model, gpu, by string) Card {
	t.Helper()
	c := Card{Request: deployment.Request{Model: model, GPU: gpu, Engine: by}, Model: casetest.Model(t, model)}
	var err error
	if c.Machine, err = library().Machine(&c.Request); err != nil {
		t.Fatal(err)
	}
	c.GPU = c.Machine.GPU
	if price, ok := c.GPU.Price(); ok {
		c.Offers = []Offer{{Hour: price, Source: c.GPU.PriceSource}}
	}
	return c
}

// request is one for a model on some cards in all formats that are tried.
func request(t testing.TB, model string, gpus ...string) *Request {
	t.Helper()
	return requestOn(t, "vllm", model, gpus...)
}

func requestOn(t testing.TB, by, model string, gpus ...string) *Request {
	t.Helper()
	q := &Request{From: library(), Prompt: serving.Fixed(1024), Gen: serving.Fixed(256), By: Cost, Trusting: true}
	for _, gpu := range gpus {
		c := card(t, model, gpu, by)
		c.Formats = DefaultFormats(c.Model, c.GPU, []string{"fp8"}, 8)
		q.Cards = append(q.Cards, c)
	}
	return q
}

// alone narrows a search to replicas of one GPU each, where a test is of what a card costs and not of how a server is cut.
func alone(q *Request) *Request {
	q.Splits, q.Together = []Split{{1, 1, 1, 0}}, true
	return q
}

// means are targets of means; 0 for none.
func means(ttft, tpot, e2e unit.Seconds) (all []Target) {
	for of, most := range map[Figure]unit.Seconds{TTFT: ttft, TPOT: tpot, E2E: e2e} {
		if most > 0 {
			all = append(all, Target{of, 0, most})
		}
	}
	slices.SortFunc(all, func(a, b Target) int { return int(a.Of - b.Of) })
	return all
}

// bruteForce estimates every deployment of the space one by one with analytic.Predict, each
// with its own number of replicas, and keeps the best.
func bruteForce(t *testing.T, q *Request) (best *Row) {
	t.Helper()
	most := q.MaxGPUs
	if most == 0 {
		most = DefaultGPUs
	}
	for i := range q.Cards {
		card := &q.Cards[i]
		for _, f := range card.Formats {
			for _, split := range q.Splits {
				for _, parts := range slices.Compact([]int{1, split.PP}) {
					for _, batch := range q.Batches {
						for dp := 1; dp <= most/(split.TP*split.PP); dp++ {
							r := Row{Card: card, Formats: f, Split: split, DP: dp, MicroBatches: parts, Batch: batch}
							if single(t, q, &r) && (best == nil || q.compare(&r, best) < 0) {
								best = &r
							}
						}
					}
				}
			}
		}
	}
	return best
}

// single estimates a deployment by the way that "llmprof estimate" goes, and reports whether
// it qualifies.
func single(t *testing.T, q *Request, r *Row) bool {
	g := r.Card.GPU
	m, scheme, err := r.Formats.of(r.Card.Model, g)
	if err != nil {
		t.Fatal(err)
	}
	c := &analytic.Case{
		Model: m, Scheme: scheme, Price: r.Card.Price(1), Workload: *q.workload(r.Batch, 0),
		Parallel: analytic.Parallelism{TP: r.Split.TP, PP: r.Split.PP, EP: r.Split.EP, DP: r.DP, MicroBatches: r.MicroBatches,
			GPUsPerNode: g.GPUsPerNode},
	}
	e := r.Card.Machine.Engine
	if engine.Runs(e, m, g, &scheme) != nil {
		return false
	}
	f, err := hardware.BuiltIn(llmprof.Calibrations, g, e.Profile().Name)
	if err != nil {
		t.Fatal(err)
	}
	if c.Machine, err = analytic.Calibrated(g, e, f); err != nil {
		return false
	}
	x, err := analytic.Predict(c)
	if err != nil || !x.Memory.Fits() {
		return false
	}
	r.fill(q, &x)
	r.GPUs, r.PerHour, r.Scheme = x.GPUs, x.Money.PerHour, scheme.Name
	r.perMillion()
	load := &q.Load
	enough := load.Rate*q.Gen.MeanLength() <= r.Throughput && load.Throughput <= r.Throughput && load.Concurrency <= r.Batch*r.DP
	return enough && (q.By != Cost || r.PerHour > 0) && q.exceeds(r) == 0
}

// The search finds what trying everything finds, whatever is asked for.
func TestSearchEqualsBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(11, 3))
	unscheduled := requestOn(t, "native", "llama3.1-8b", "l40s", "h100") // its batches start together under any load
	spaces := []*Request{request(t, "llama3.1-8b", "l40s", "a100"), request(t, "qwen3-30b-a3b", "h200", "l4")}
	objectives := testkit.Cases(10, 40)
	found := 0
	for i := range objectives {
		q := *spaces[i%2]
		q.Batches = []int{1, 8, 64}
		q.PerGPU = i / 2 % 2 // where one row of a card is shown, splits are estimated in the format that is the likeliest
		q.Splits = []Split{{1, 1, 1, 0}, {2, 2, 1, 0}, {4, 1, 1, 0}}
		if i%2 == 1 {
			q.Splits = append(q.Splits[:2:2], Split{1, 1, 4, 0})
		}
		draw(&q, random)
		if q.Load.IsSet() {
			q.Cards = unscheduled.Cards
			q.Splits = q.Splits[:2:2]
		}
		got, err := Search(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		want := bruteForce(t, &q)
		switch {
		case want == nil && len(got.Rows) == 0:
		case want == nil || len(got.Rows) == 0:
			t.Errorf("%d: %+v: found %d rows, by brute force %v", i, q.Targets, len(got.Rows), want)
		case math.Abs(q.score(want)/q.score(&got.Rows[0])-1) > 1e-12 || want.String() != got.Rows[0].String():
			t.Errorf("%d: by %s, %+v, %+v: found %v (%v), by brute force %v (%v)", i, q.By, q.Targets, q.Load, &got.Rows[0], q.score(&got.Rows[0]),
				want, q.score(want))
		default:
			found++
		}
	}
	if 10*found < 3*objectives {
		t.Errorf("only %d of %d objectives have an answer", found, objectives)
	}
}

// draw draws what is asked for.
func draw(q *Request, random *rand.Rand) {
	maybe := func(share, v float64) float64 {
		if random.Float64() < share {
			return v
		}
		return 0
	}
	exp := random.ExpFloat64
	q.By = Objective(Objectives()[random.IntN(4)])
	q.Expected = random.IntN(2) == 0
	q.Prompt, q.Gen = serving.Fixed(64+random.IntN(2000)), serving.Fixed(1+random.IntN(400))
	q.Targets = means(unit.Seconds(maybe(0.6, 0.4*exp())), unit.Seconds(maybe(0.6, 0.02*exp())), unit.Seconds(maybe(0.3, 5*exp())))
	q.MaxGPUs = 1 + random.IntN(8)
	q.Budget = unit.DollarsPerHour(maybe(0.5, 15*exp()))
	switch random.IntN(4) {
	case 0:
		q.Load.Rate = 10 * exp()
	case 1:
		q.Load.Concurrency = 1 + random.IntN(100)
	case 2:
		q.Load.Throughput = 2000 * exp()
	}
}

// No row of the Pareto set is worse than another row in everything.
func TestPareto(t *testing.T) {
	r, err := Search(t.Context(), request(t, "llama3.1-8b", "l40s", "h100", "a100"))
	if err != nil {
		t.Fatal(err)
	}
	marked := 0
	for i := range r.Rows {
		a := &r.Rows[i]
		worse := slices.ContainsFunc(r.Rows, func(b Row) bool {
			return b.PerMillion <= a.PerMillion && b.TTFT <= a.TTFT && b.TPOT <= a.TPOT &&
				(b.PerMillion < a.PerMillion || b.TTFT < a.TTFT || b.TPOT < a.TPOT)
		})
		if a.Pareto == worse {
			t.Errorf("%v: Pareto %v, but another is better: %v", a, a.Pareto, worse)
		}
		if a.Pareto {
			marked++
		}
	}
	if marked < 3 {
		t.Errorf("%d rows are marked", marked)
	}
}

// BenchmarkSearch is a search of every card of the table.
func BenchmarkSearch(b *testing.B) {
	for _, model := range []string{"qwen3-32b", "deepseek-v3"} {
		b.Run(model, func(b *testing.B) {
			q := request(b, model, casetest.GPUs(b)...)
			q.Prompt, q.Gen = serving.Fixed(2048), serving.Fixed(512)
			for b.Loop() {
				r, err := Search(b.Context(), q)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(r.Searched), "estimates")
			}
			b.ReportMetric(float64(time.Second)*b.Elapsed().Seconds()/float64(b.N)/1e9, "s/search")
		})
	}
}
