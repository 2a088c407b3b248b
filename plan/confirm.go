package plan

import (
	"context"
	"fmt"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/serving"
	"llmprof/unit"
)

// A Tail is the 99th percentiles of a simulated load.
type Tail struct{ TTFT, TPOT, E2E unit.Seconds }

// confirmRequests are as many as a 99th percentile takes to be within some percent.
const confirmRequests = 2000

// alikeWaves is how many waves of answers are enough where requests are alike.
const alikeWaves = 32

// Confirm simulates rows under the load, at the end of the interval that was asked for, and
// holds their 99th percentiles to the targets: a row that misses them gets more replicas, as
// long as the budget allows, and is left out where that does not help. Left says why.
func Confirm(ctx context.Context, q *Request, rows []Row) (kept []Row, left []Rejected, err error) {
	own := *q
	own.ctx = ctx
	if own.MaxGPUs == 0 {
		own.MaxGPUs = DefaultGPUs
	}
	tails := own
	tails.Targets = q.Tails
	for i := range rows {
		r := rows[i]
		each := r.Split.sharing()
		for {
			if r.Tail, err = simulate(ctx, &own, &r); err != nil {
				return nil, nil, err
			}
			tail := r
			tail.TTFT, tail.TPOT, tail.E2E = r.Tail.TTFT, r.Tail.TPOT, r.Tail.E2E
			miss := tails.misses(&tail)
			if miss.Reason == "" {
				kept = append(kept, r)
				break
			}
			if own.tooLarge(&r, each, &rows[i]) {
				left = append(left, Rejected{Card: r.Card, Miss: Miss{fmt.Sprintf("at the 99th percentile %s", miss.Reason), miss.By, &r}})
				break
			}
			if err := own.grow(&r, each); err != nil {
				return nil, nil, err
			}
		}
	}
	slices.SortStableFunc(kept, func(a, b Row) int { return q.compare(&a, &b) })
	return kept, left, nil
}

// serverOf is the server of a row.
func (q *Request) serverOf(r *Row) (*serving.Server, error) {
	s := search{q: q, card: r.Card, miss: noMiss()}
	one := *r
	one.DP = r.Split.sharing()
	p, err := s.prepare(&one)
	if err != nil {
		return nil, err
	}
	return q.server(r.Card, p, r)
}

// server is the server of a row.
func (q *Request) server(card *Card, p *analytic.Predictor, r *Row) (*serving.Server, error) {
	rules, err := engine.SchedulerOf(card.Machine.Engine.Profile().Engine(), card.GPU)
	if err != nil {
		return nil, err
	}
	if r.Budget > 0 {
		rules.Budget = r.Budget
	}
	if r.Limit > 0 {
		rules.MaxSeqs = r.Limit
	}
	rules.Within(p)
	s := &serving.Server{
		Predictor: p, Scheduler: rules, Replicas: r.DP, Prefillers: r.Prefill, Link: r.layout().Link, Context: card.Model.MaxContext,
		Caching: serving.Caching{ToHost: card.GPU.Bandwidth},
	}
	return s, q.speculate(s, card, r)
}

// speculate adds the speculation of a row to a server.
func (q *Request) speculate(s *serving.Server, card *Card, r *Row) error {
	if r.Drafts == 0 {
		return nil
	}
	s.Drafts, s.Acceptance = r.Drafts, q.Acceptance
	if card.Model.Drafts == 0 {
		return nil // drafts of n-grams take no time
	}
	one := search{q: q, card: card}
	own := *r
	own.DP = r.Split.sharing()
	c, err := one.caseOf(&own)
	if err != nil {
		return err
	}
	s.Modules = card.Model.Drafts
	s.Drafter, err = deployment.Drafter(c)
	return err
}

// simulate runs the load of the request on a row.
func simulate(ctx context.Context, q *Request, r *Row) (t Tail, err error) {
	server, err := q.serverOf(r)
	if err != nil {
		return t, err
	}
	count := confirmRequests
	if n := q.Load.Concurrency; n > 0 && q.fixed() && r.Drafts == 0 {
		count = min(count, alikeWaves*n) // answers of equal requests come in waves, which are soon the same
	}
	fills := max(count/10, 3*int(r.Running)) // requests until as many run as do in the steady state
	load := serving.Load{Prompt: q.Prompt, Gen: q.Gen, Requests: count + fills, Seed: 1}
	load.Arrival = serving.Arrival{Kind: "poisson", Rate: q.rate() * r.slower}
	if n := q.Load.Concurrency; n > 0 {
		load.Arrival = serving.Arrival{Kind: "closed", Concurrency: n}
	}
	source, err := load.Source()
	if err != nil {
		return t, err
	}
	result, err := serving.Simulate(ctx, server, source, serving.Options{Warmup: fills})
	if err == nil && result.Interrupted {
		err = ctx.Err()
	}
	if err != nil {
		return t, err
	}
	at := func(s *serving.Sketch) unit.Seconds {
		if s.N == 0 {
			return 0
		}
		return unit.Seconds(s.Quantile(0.99) * r.slower)
	}
	return Tail{at(&result.TTFT), at(&result.TPOT), at(&result.E2E)}, nil
}

// tooLarge reports whether a row may not get further replicas.
func (q *Request) tooLarge(r *Row, each int, first *Row) bool {
	more := r.GPUs + each*r.Split.TP*r.Split.PP
	return more > q.MaxGPUs || q.Budget > 0 && float64(more)*float64(r.Card.Price) > float64(q.Budget) ||
		more > 2*first.GPUs+each*r.Split.TP*r.Split.PP
}

// grow gives a row more replicas: of those that prefill where the first token is late.
func (q *Request) grow(r *Row, each int) error {
	own := *r
	if r.Prefill > 0 && q.Targets.TTFT > 0 && r.Tail.TTFT > q.Targets.TTFT {
		own.Prefill += each
	} else {
		own.DP += each
	}
	own.GPUs += each * r.Split.TP * r.Split.PP
	own.PerHour = unit.Dollars(float64(r.Card.Price) * float64(own.GPUs))
	server, err := q.serverOf(&own)
	if err != nil {
		return err
	}
	s := search{q: q, card: r.Card, miss: noMiss()}
	c := config{Row: own, server: *server, slower: r.slower, single: r.alone}
	grown, _ := s.settled(&c, own)
	s.expect(&c, &grown)
	*r = grown
	return nil
}
