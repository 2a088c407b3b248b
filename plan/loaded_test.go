package plan

import (
	"context"
	"iter"
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/deployment"
	"llmprof/internal/testkit"
	"llmprof/serving"
	"llmprof/unit"
)

// Under a load the search finds what trying every number of replicas of every deployment
// finds.
func TestLoadedEqualsBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 8))
	space := request(t, "llama3.1-8b", "l40s", "a100")
	found, loads := 0, testkit.Cases(8, 12)
	for i := range loads {
		q := *space
		q.By = Objective(Objectives()[i%4])
		q.Splits = []Split{{1, 1, 1, 0}, {2, 1, 1, 0}}
		q.Batches, q.Budgets, q.Together = DefaultBatches(), []int{}, true
		q.Prompt, q.Gen = serving.Fixed(200+random.IntN(1000)), serving.Fixed(50+random.IntN(200))
		q.Load.Rate = 12 * random.ExpFloat64()
		q.MaxGPUs = 4
		q.Targets = Targets{TPOT: unit.Seconds(0.012 + 0.04*random.Float64()), TTFT: unit.Seconds(0.2 + random.Float64())}
		if i > 5 {
			q.Limits, q.Splits = []int{4, 12, 512}, q.Splits[:1]
			q.Load.Rate, q.Prompt = 4*q.Load.Rate, serving.Fixed(50+random.IntN(200)) // so that many decode at once
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

// deployments are random ones at a rate, ranked by an objective, which were bounded and are ready: of dense models and mixtures, with
// drafts in every third case, and lengths that differ in every fifth.
func deployments(t *testing.T, by Objective, cases int) iter.Seq2[*search, *config] {
	random := rand.New(rand.NewPCG(15, 11))
	spaces := []*Request{
		request(t, "qwen3-30b-a3b", "h200", "l40s"), request(t, "gpt-oss-120b", "h100", "b200"), request(t, "deepseek-v3", "h200"),
		request(t, "llama3.1-8b", "l40s", "h100"),
		requestOn(t, "sglang", "llama3.1-8b", "l40s", "h100"),
	}
	splits := []Split{{1, 1, 1, 0}, {2, 1, 1, 0}, {4, 1, 1, 0}, {8, 1, 1, 0}, {2, 2, 1, 0}, {1, 4, 1, 0}, {1, 2, 2, 0}, {1, 1, 4, 0},
		{2, 1, 8, 0}, {1, 1, 8, 0}, {2, 1, 1, 8}, {4, 1, 16, 0}}
	return func(yield func(*search, *config) bool) {
		for i := range cases {
			q := *spaces[random.IntN(len(spaces))]
			q.By, q.MaxGPUs, q.Budgets, q.Limits, q.Batches = by, 8<<random.IntN(4), DefaultBudgets(), DefaultLimits(), DefaultBatches()
			q.Prompt, q.Gen = serving.Fixed(64+random.IntN(6000)), serving.Fixed(8+random.IntN(600))
			q.Load = Load{Rate: 40 * random.ExpFloat64() / float64(1+random.IntN(20))}
			if i%5 == 4 {
				q.Prompt, q.Gen = lengths(random, q.Prompt.Mean), lengths(random, q.Gen.Mean)
			}
			if i%3 == 1 {
				q.Drafts, q.Acceptance = []int{1 + random.IntN(3)}, 0.3+0.6*random.Float64()
			}
			card, split := &q.Cards[random.IntN(len(q.Cards))], splits[random.IntN(len(splits))]
			if !card.Model.HasExperts() && split.sharing() > 1 {
				continue
			}
			s := search{q: &q, card: card, miss: noMiss(), limit: infinite}
			s.open = s.deployments(s.whole(card.Formats[random.IntN(len(card.Formats))], split))
			for _, c := range s.open {
				if (c.bounded || s.refine(c)) && s.ready(c) == nil && !yield(&s, c) {
					return
				}
			}
		}
	}
}

// best reports whether a deployment qualifies, and fails where the search finds another one first than brute force.
func best(t *testing.T, q *Request) bool {
	t.Helper()
	got, err := Search(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	found, want := first(got.Rows), everyNumber(t, q)
	if (found == nil) != (want == nil) || found != nil && found.String() != want.String() && !tied(found, want) {
		t.Errorf("by %s, %+v under %+v: found %d rows, %v; by brute force %v", q.By, q.Targets, q.Load, len(got.Rows), found, want)
		return false
	}
	return found != nil
}

// tied reports whether two rows are as good, but for what the path samples that a steady state follows.
func tied(a, b *Row) bool { return a.GPUs == b.GPUs && math.Abs(float64(a.E2E/b.E2E)-1) < 1e-4 }

func first(rows []Row) *Row {
	if len(rows) == 0 {
		return nil
	}
	return &rows[0]
}

// everyNumber works out the steady state of every deployment with every number of replicas, and every limit of sequences.
func everyNumber(t *testing.T, q *Request) (best *Row) {
	t.Helper()
	for i := range q.Cards {
		for _, f := range q.Cards[i].Formats {
			for _, split := range q.Splits {
				s := search{q: q, card: &q.Cards[i], miss: noMiss()}
				c := config{Row: Row{Card: s.card, Formats: f, Split: split, DP: 1, MicroBatches: 1, GPUs: split.TP}}
				idle := *q
				idle.Targets, idle.Load, idle.Budget = Targets{}, Load{Rate: 1e-9}, 0
				if !(&search{q: &idle, card: s.card, miss: noMiss()}).screen(&c) {
					continue
				}
				if err := s.ready(&c); err != nil {
					t.Fatal(err)
				}
				for _, limit := range append([]int{0}, q.Limits...) {
					d := c
					if limit > 0 {
						d.Limit, d.Batch, d.server.Scheduler.MaxSeqs = limit, limit, limit
						d.steadies, d.waves = nil, nil
					}
					for units := 1; units*d.GPUs <= q.MaxGPUs; units++ {
						if r, ok := s.steady(&d, units); ok && (best == nil || q.compare(&r, best) < 0) {
							best = &r
						}
					}
				}
			}
		}
	}
	return best
}

// With speculation, other steps and replicas that only prefill the search finds what trying all
// of them finds.
func TestExtrasEqualBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 2))
	space := request(t, "llama3.1-8b", "l40s", "a100")
	found, extra, loads := 0, 0, testkit.Cases(4, 12)
	for i := range loads {
		q := *space
		q.Splits = []Split{{1, 1, 1, 0}, {2, 1, 1, 0}}
		q.Batches = DefaultBatches()
		q.Budgets = []int{4096}
		q.By = []Objective{Cost, Latency, Energy, Throughput}[i%4]
		if i%2 == 1 {
			q.Drafts, q.Acceptance = []int{2}, 0.7
		}
		q.Prompt, q.Gen = serving.Fixed(500+random.IntN(1500)), serving.Fixed(50+random.IntN(200))
		q.Load.Rate = 6 * random.ExpFloat64()
		q.MaxGPUs = 3
		q.Targets = Targets{TPOT: unit.Seconds(0.008 + 0.02*random.Float64()), TTFT: unit.Seconds(0.1 + 0.6*random.Float64())}
		q.Limits = []int{}
		got, err := Search(t.Context(), &q)
		if err != nil {
			t.Fatal(err)
		}
		want := everyExtra(t, &q)
		switch {
		case want == nil && len(got.Rows) == 0:
		case want == nil || len(got.Rows) == 0 || want.String() != got.Rows[0].String():
			t.Errorf("%d: by %s, %+v at %v: found %d rows, %v; by brute force %v", i, q.By, q.Targets, q.Load.Rate, len(got.Rows), first(got.Rows),
				want)
		default:
			if found++; want.extras() > 0 {
				extra++
			}
		}
	}
	if 3*found < loads || 6*extra < loads {
		t.Errorf("%d of %d loads have an answer, %d of them with extras", found, loads, extra)
	}
}

// everyExtra works out the steady state of every deployment of a request, one by one.
func everyExtra(t *testing.T, q *Request) (best *Row) {
	t.Helper()
	for i := range q.Cards {
		for _, f := range q.Cards[i].Formats {
			for _, split := range q.Splits {
				for _, drafts := range append([]int{0}, q.Drafts...) {
					for _, budget := range append([]int{0}, q.Budgets...) {
						var all *serving.Steadies
						for prefill := range q.MaxGPUs {
							for dp := 1; (dp+prefill)*split.TP <= q.MaxGPUs; dp++ {
								r := Row{Card: &q.Cards[i], Formats: f, Split: split, DP: dp, Prefill: prefill, Budget: budget, Drafts: drafts, MicroBatches: 1}
								if prefill > 0 && budget > 0 {
									continue
								}
								if served(q, &r, &all) && (best == nil || q.compare(&r, best) < 0) {
									best = &r
								}
							}
						}
					}
				}
			}
		}
	}
	return best
}

// served works out the steady state of one row by a server of its own; rows that differ in
// their replicas share the times of its steps.
func served(q *Request, r *Row, all **serving.Steadies) bool {
	r.GPUs = (r.DP + r.Prefill) * r.Split.TP
	r.PerHour = unit.Dollars(float64(r.Card.Price) * float64(r.GPUs))
	s := search{q: q, card: r.Card, miss: noMiss()}
	one := *r
	one.DP = 1
	p, err := s.prepare(&one)
	if err != nil {
		return false
	}
	r.Scheme = one.Scheme
	server, err := q.server(r.Card, p, r)
	if err != nil || server.Check() != nil {
		return false
	}
	plain := *r
	plain.Budget = 0
	if rules, _ := q.server(r.Card, p, &plain); !fitsSteps(&rules.Scheduler, r.Budget, r.Drafts) {
		return false
	}
	r.Batch = server.Scheduler.MaxSeqs
	e, err := p.Predict(q.workload(1))
	if err != nil || !e.Memory.Fits() {
		return false
	}
	x := deployment.Slower(&e)
	if *all == nil {
		if *all, err = server.Steadies(context.Background(), q.Prompt, q.Gen); err != nil {
			return false
		}
	}
	st, err := (*all).Rate(q.rate()*x, r.layout())
	if err != nil {
		return false
	}
	r.TTFT, r.TPOT, r.E2E = st.TTFT.Times(x), st.TPOT.Times(x), st.E2E.Times(x)
	r.Throughput, r.Utilization = q.rate()*q.Gen.MeanLength(), st.Utilization
	expected, err := (*all).Rate(q.rate(), r.layout())
	if err != nil {
		return false
	}
	r.JToken = q.perToken(expected)
	return q.misses(r).Reason == ""
}

// Clients that wait for their answers are answered best, by any objective, by what trying every number of replicas of every
// deployment finds best.
func TestClientsEqualBruteForce(t *testing.T) {
	random := rand.New(rand.NewPCG(9, 4))
	space := request(t, "llama3.1-8b", "l40s", "a100")
	found, loads := 0, testkit.Cases(8, 18)
	for i := range loads {
		q := *space
		q.By, q.Batches, q.MaxGPUs = Objective(Objectives()[i%4]), DefaultBatches(), 4
		q.Splits = []Split{{1, 1, 1, 0}, {2, 1, 1, 0}, {4, 1, 1, 0}}
		q.Prompt, q.Gen = serving.Fixed(64+random.IntN(1500)), serving.Fixed(2+random.IntN(100))
		q.Load.Concurrency = 1 + random.IntN(40)
		if i > 5 {
			q.Targets = Targets{TPOT: unit.Seconds(0.012 + 0.04*random.Float64())}
		}
		if i > 11 {
			q.Limits = []int{2, 6}
		}
		if best(t, &q) {
			found++
		}
	}
	if 3*found < 2*loads {
		t.Errorf("only %d of %d loads have an answer", found, loads)
	}
}

// No deployment ranks better than the bound by which the search leaves others out.
func TestBounds(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 6))
	spaces := []*Request{request(t, "llama3.1-8b", "l40s", "h100"), request(t, "qwen3-30b-a3b", "h200")}
	splits := [][]Split{{{1, 1, 1, 0}, {2, 1, 1, 0}, {4, 1, 1, 0}, {1, 2, 1, 0}, {1, 4, 1, 0}},
		{{1, 1, 1, 0}, {2, 1, 1, 0}, {4, 1, 1, 0}, {1, 1, 2, 0}, {1, 1, 8, 0}, {2, 1, 4, 0}}}
	for i := range testkit.Cases(4, 40) {
		q := *spaces[i%2]
		q.By, q.Batches, q.MaxGPUs = Objective(Objectives()[i/2%4]), DefaultBatches(), 8
		q.Prompt, q.Gen = serving.Fixed(64+random.IntN(3000)), serving.Fixed(2+random.IntN(200))
		if q.Load.Concurrency = 1 + random.IntN(40); i%4 > 1 {
			q.Load = Load{Rate: 30 * random.ExpFloat64()}
		}
		if i%3 == 2 {
			q.Prompt, q.Gen = lengths(random, q.Prompt.Mean), lengths(random, q.Gen.Mean)
		}
		for j := range q.Cards {
			s := search{q: &q, card: &q.Cards[j], miss: noMiss()}
			for _, split := range splits[i%2] {
				s.open = s.deployments(s.whole(q.Cards[j].Formats[random.IntN(2)], split))
				for _, c := range s.open {
					if !c.bounded && !s.refine(c) {
						continue
					}
					if err := s.ready(c); err != nil {
						t.Fatal(err)
					}
					for units := 1; units*c.GPUs <= q.MaxGPUs; units++ {
						r, ok := s.steady(c, units)
						if !ok {
							continue
						}
						s.expect(c, &r)
						if alone := c.single.TTFT.Expected.Times(c.slower); q.Load.Rate > 0 && alone > r.TTFT.Times(1.03) {
							t.Errorf("%v + %v tokens, %+v: %v has a TTFT of %v, and alone %v", &q.Prompt, &q.Gen, q.Load, &r, r.TTFT, alone)
						}
						if least := max(c.wave.leastTPOT(&s, c, units), s.dividedTPOT(c, units)); least > r.TPOT {
							t.Errorf("%v + %v tokens, %+v: %v has a TPOT of %v, and at least %v", &q.Prompt, &q.Gen, q.Load, &r, r.TPOT, least)
						}
						if least := s.leastE2E(c, units); q.Load.Concurrency > 0 && least > r.E2E {
							t.Errorf("%v + %v tokens, %+v: %v takes %v a request, and at least %v", &q.Prompt, &q.Gen, q.Load, &r, r.E2E, least)
						}
						if least := c.mixed.Times(c.slower); q.By == Latency && least > r.E2E {
							t.Errorf("%v + %v tokens, %+v: %v takes %v a request, and at least %v beside prompts", &q.Prompt, &q.Gen, q.Load, &r, r.E2E, least)
						}
						if q.By == Energy && c.energy(units) > s.figure(&r)*(1+1e-9) {
							t.Errorf("%v + %v tokens, %+v: %v takes %g J/token, and at least %g", &q.Prompt, &q.Gen, q.Load, &r, s.figure(&r), c.energy(units))
						}
						if q.Load.Rate > 0 {
							boundsAtRate(t, &s, c, &r, units)
						}
						if s.bound(c) > s.figure(&r)*(1+1e-9) && s.figure(&r) > 0 || s.bound(c) > s.figure(&r)*(1-1e-9) && s.figure(&r) < 0 {
							t.Errorf("by %s, %v + %v tokens, %+v: %v ranks by %g, its bound is %g", q.By, &q.Prompt, &q.Gen, q.Load, &r, s.figure(&r),
								s.bound(c))
						}
					}
				}
			}
		}
	}
}

// Prompts are so much of the time of short answers that replicas with the fewest clients need not be the fastest.
func TestBoundsOfShortAnswers(t *testing.T) {
	q := request(t, "qwen3-30b-a3b", "h200")
	q.Batches, q.MaxGPUs = DefaultBatches(), 8
	q.Prompt, q.Gen, q.Load = serving.Fixed(2959), serving.Fixed(4), Load{Concurrency: 13}
	s := search{q: q, card: &q.Cards[0], miss: noMiss()}
	s.open = s.deployments(s.whole(q.Cards[0].Formats[0], Split{2, 1, 1, 0}))
	c := s.open[0]
	if !s.refine(c) || s.ready(c) != nil {
		t.Fatalf("%+v does not run", c.Row)
	}
	r, ok := s.steady(c, 3)
	if least := max(c.wave.leastTPOT(&s, c, 3), s.dividedTPOT(c, 3)); !ok || least > r.TPOT {
		t.Errorf("TPOT is %v (%v), and at least %v", r.TPOT, ok, least)
	}
}

// boundsAtRate compares what deployments at a rate are left out by with their steady state.
func boundsAtRate(t *testing.T, s *search, c *config, r *Row, units int) {
	t.Helper()
	q := *s.q
	q.Targets.TPOT = max(r.TPOT, 1e-9)
	at := *s
	at.q = &q
	if by := at.leastOpenMiss(c, units); by > 1 {
		t.Errorf("%v + %v tokens, %+v: %v has a TPOT of %v, and %g times as much at least", &q.Prompt, &q.Gen, q.Load, r, r.TPOT, by)
	}
}
