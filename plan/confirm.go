package plan

import (
	"context"
	"fmt"
	"slices"

	"llmprof/analytic"
	"llmprof/serving"
	"llmprof/unit"
)

// A Tail is the 99th percentiles of a simulated load.
type Tail struct{ TTFT, TPOT, E2E unit.Seconds }

// confirmRequests are as many as a 99th percentile takes to be within some percent.
const confirmRequests = 2000

// Confirm simulates rows under the load, at the end of the interval that was asked for, and
// holds their 99th percentiles to the targets: a row that misses them gets more replicas, as
// long as the budget allows, and is left out where that does not help. Left says why.
func Confirm(ctx context.Context, q *Request, rows []Row) (kept []Row, left []Rejected, err error) {
	own := *q
	if own.MaxGPUs == 0 {
		own.MaxGPUs = DefaultGPUs
	}
	for i := range rows {
		r := rows[i]
		each := max(r.Split.EP/r.Split.TP, 1)
		for {
			if r.Tail, err = simulate(ctx, &own, &r); err != nil {
				return nil, nil, err
			}
			tail := r
			tail.TTFT, tail.TPOT, tail.E2E = r.Tail.TTFT, r.Tail.TPOT, r.Tail.E2E
			miss := own.misses(&tail)
			if miss.Reason == "" {
				kept = append(kept, r)
				break
			}
			units := r.DP/each + 1
			if more := units * each * r.Split.TP * r.Split.PP; more > own.MaxGPUs || own.Budget > 0 && float64(more)*float64(r.Card.Price) > float64(own.Budget) || units > 2*rows[i].DP/each+1 {
				left = append(left, Rejected{r.Card, Miss{fmt.Sprintf("at the 99th percentile %s", miss.Reason), miss.By, &r}})
				break
			}
			if err := own.grow(&r, units*each); err != nil {
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
	one.DP = max(r.Split.EP/r.Split.TP, 1)
	p, err := s.prepare(&one)
	if err != nil {
		return nil, err
	}
	return q.server(r.Card, p, r.DP)
}

// server is the server of so many replicas of a deployment.
func (q *Request) server(card *Card, p *analytic.Prepared, replicas int) (*serving.Server, error) {
	rules, err := serving.Defaults(card.Machines.Machine.Engine.Profile().Name, card.GPU.Memory)
	if err != nil {
		return nil, err
	}
	return &serving.Server{Predictor: p.Predictor, Scheduler: rules, Replicas: replicas, Context: q.Model.MaxContext, ToHost: card.GPU.Bandwidth}, nil
}

// simulate runs the load of the request on a row.
func simulate(ctx context.Context, q *Request, r *Row) (t Tail, err error) {
	server, err := q.serverOf(r)
	if err != nil {
		return t, err
	}
	load := serving.Load{Prompt: serving.Fixed(q.Prompt), Gen: serving.Fixed(q.Gen), Requests: confirmRequests, Seed: 1}
	load.Arrival = serving.Arrival{Kind: "poisson", Rate: q.rate() * r.slower}
	if n := q.Load.Concurrency; n > 0 {
		load.Arrival = serving.Arrival{Kind: "closed", Concurrency: n}
	}
	source, err := load.Source()
	if err != nil {
		return t, err
	}
	result, err := serving.Simulate(ctx, server, source, serving.Options{Warmup: confirmRequests / 10})
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

// grow gives a row more replicas.
func (q *Request) grow(r *Row, replicas int) error {
	server, err := q.serverOf(r)
	if err != nil {
		return err
	}
	s := search{q: q, card: r.Card, miss: noMiss()}
	each := max(r.Split.EP/r.Split.TP, 1)
	c := config{Row: *r, server: *server, slower: r.slower, single: r.alone}
	c.DP, c.GPUs = each, each*r.Split.TP*r.Split.PP
	grown, _ := s.steady(&c, replicas/each)
	*r = grown
	return nil
}
