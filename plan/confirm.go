package plan

import (
	"context"
	"math"
	"slices"

	"llmprof/deployment"
	"llmprof/internal/concurrent"
	"llmprof/serving"
	"llmprof/unit"
)

// Simulated is what a simulation of the load says of a row, at the end of the interval that was asked for.
type Simulated struct {
	Requests int
	Mean     [figures]unit.Seconds
	At       [figures][len(serving.Percentiles)]unit.Seconds
	// Spread is by what share another seed moves a percentile, and the mean, which comes last: 90 % of seeds move it by less.
	Spread [figures][len(serving.Percentiles) + 1]float64
}

// Of is a figure at a percentile, or its mean, with its spread.
func (s *Simulated) Of(t *Target) (is unit.Seconds, spread float64) {
	if i := slices.Index(serving.Percentiles[:], t.At); i >= 0 {
		return s.At[t.Of][i], s.Spread[t.Of][i]
	}
	return s.Mean[t.Of], s.Spread[t.Of][len(serving.Percentiles)]
}

// Rounded is a figure in as many digits as a seed leaves: three, or two where another one moves it by more than a hundredth.
func (s *Simulated) Rounded(t *Target) float64 {
	is, spread := s.Of(t)
	if spread > 0.01 {
		return Digits(float64(is), 2)
	}
	return Digits(float64(is), 3)
}

// How many requests are simulated while deployments are compared, and of rows that are shown: of these four times as many as long as a
// target is within the spread of a seed.
const (
	quick     = 1200
	thorough  = 4000
	mostDrawn = 64000

	fewestDrawn = 100 * seeds
	// steps is how many steps are simulated for a thorough figure: where few requests run at once each takes many, and hardly waits.
	steps = 200_000
)

// drawn is how many requests are simulated of a row where so many are wanted at most.
func (q *Request) drawn(r *Row, most int) int {
	each := q.Gen.MeanLength() / max(r.Running/float64(r.DP), 1)
	return max(min(most, int(steps/each*float64(most)/thorough)), fewestDrawn)
}

// seeds are simulations of their own, which say how far a seed moves a figure.
const seeds = 6

// student is the 95th percentile of Student's distribution with so many seeds.
const student = 2.015

// simulate runs requests of the load on a row by several seeds, up to so many.
func (r *Row) simulate(ctx context.Context, q *Request, most int) error {
	requests := q.drawn(r, most)
	request := r.Request(q)
	d, err := q.From.Serve(ctx, &request)
	if err != nil {
		return err
	}
	if _, err := d.Server(ctx); err != nil {
		return err
	}
	var results [seeds]*serving.Result
	var failed [seeds]error
	concurrent.Each(seeds, func(i int) { results[i], failed[i] = r.simulated(ctx, q, d, requests/seeds, uint64(i)+1) })
	for _, err := range failed {
		if err != nil {
			return err
		}
	}
	r.Simulated = summary(results[:], r.slower)
	return ctx.Err()
}

// simulated runs the requests of one seed.
func (r *Row) simulated(ctx context.Context, q *Request, d *deployment.Deployment, count int, seed uint64) (*serving.Result, error) {
	server, err := d.Server(ctx)
	if err != nil {
		return nil, err
	}
	count = max(count, 2*int(r.Running))     // so that percentiles are not those of a few sequences that run together
	fills := max(count/10, 3*int(r.Running)) // requests until as many run as do in the steady state
	load := serving.Load{Prompt: q.Prompt, Gen: q.Gen, Requests: count + fills, Seed: seed}
	load.Arrival = serving.Arrival{Kind: "poisson", Rate: q.rate() * r.slower}
	if n := q.clients(); n > 0 {
		load.Arrival = serving.Arrival{Kind: "closed", Concurrency: n}
		load.Requests += 2 * n
	}
	source, err := load.Source()
	if err != nil {
		return nil, err
	}
	result, err := serving.Simulate(ctx, server, source, serving.Options{Warmup: fills, Seed: seed})
	if err == nil && result.Interrupted {
		err = ctx.Err()
	}
	return result, err
}

// summary puts the simulations of several seeds together: figures of all their requests, and how far each is from them.
func summary(results []*serving.Result, slower float64) *Simulated {
	s := &Simulated{}
	for _, r := range results {
		s.Requests += r.E2E.N
	}
	for f := range figures {
		var all serving.Sketch
		for _, r := range results {
			all.Merge(sketch(r, f))
		}
		if all.N == 0 {
			continue
		}
		for i, share := range serving.Percentiles {
			s.At[f][i] = unit.Seconds(all.Quantile(share) * slower)
			s.Spread[f][i] = spread(results, f, func(k *serving.Sketch) float64 { return k.Quantile(share) })
		}
		s.Mean[f] = unit.Seconds(all.Mean() * slower)
		s.Spread[f][len(serving.Percentiles)] = spread(results, f, (*serving.Sketch).Mean)
	}
	return s
}

func sketch(r *serving.Result, f Figure) *serving.Sketch {
	return [...]*serving.Sketch{&r.TTFT, &r.TPOT, &r.ITL, &r.E2E}[f]
}

// spread is by what share as many requests of another seed as all of these are off, from how far the seeds are from each other: the mean
// of n of them is nearer than one by the root of n.
func spread(results []*serving.Result, f Figure, of func(*serving.Sketch) float64) float64 {
	n, sum, squares := float64(len(results)), 0.0, 0.0
	for _, r := range results {
		k := sketch(r, f)
		if k.N == 0 {
			return 0
		}
		v := of(k)
		sum, squares = sum+v, squares+v*v
	}
	mean := sum / n
	if mean == 0 || n < 2 {
		return 0
	}
	return student * math.Sqrt(max(squares/n-mean*mean, 0)/(n-1)) / mean
}

// confirmed simulates the rows that are shown, the best first and for longest, as it is the one that is taken: in short simulations the
// queues of many replicas are not yet as long as they get. One that misses its targets then gets more replicas, or falls out, and the next
// one takes its place.
func (h *hunt) confirmed(ctx context.Context) (*Result, error) {
	if !h.q.Load.Given() {
		return h.gather(), nil
	}
	for ctx.Err() == nil {
		rows := h.rows()
		var open []*Row
		requests := h.q.thorough()
		for _, r := range Shown(rows, h.q.Top, h.q.PerGPU) {
			if own := r.own(); own != nil && own.confirmed < requests {
				open = append(open, own)
			}
		}
		if len(open) == 0 && len(rows) > 0 && len(h.q.Targets) > 0 {
			requests *= forFirst
			if own := rows[0].own(); own != nil && own.confirmed < requests {
				open = append(open, own)
			}
		}
		if len(open) == 0 {
			return h.told(ctx), nil
		}
		h.apart(open, func(r *Row) { r.confirm(ctx, h.q, requests) })
		concurrent.Each(len(h.cards), func(i int) { h.cards[i].again(ctx) })
	}
	return nil, ctx.Err()
}

// thorough is how many requests are simulated of a row that is shown.
func (q *Request) thorough() int {
	if len(q.Targets) == 0 {
		return quick
	}
	return thorough
}

// forFirst is how many times as many requests as of the others are simulated of the best row.
const forFirst = 6

// mostAgain is how often a card is searched again.
const mostAgain = 4

// again leaves rows out that simulations refused. Where none is left of a card, its other deployments are searched.
func (s *search) again(ctx context.Context) {
	before := len(s.rows)
	s.rows = slices.DeleteFunc(s.rows, func(r Row) bool {
		if r.left {
			s.open = slices.DeleteFunc(s.open, func(c *candidate) bool { return c == r.from })
		}
		return r.left
	})
	if before > 0 && len(s.rows) == 0 && s.searches < mostAgain {
		s.searches++
		s.run(ctx, false)
	}
}

// told is the result, with what the rows that are shown do under other loads, and how much slower the best one may be.
func (h *hunt) told(ctx context.Context) *Result {
	r := h.gather()
	shown := min(len(r.Rows), max(h.q.Top, 1))
	var rows []*Row
	for i := range r.Rows[:shown] {
		if r.Rows[i].search != nil {
			rows = append(rows, &r.Rows[i])
		}
	}
	h.apart(rows, func(row *Row) {
		if row.Loads = row.under(ctx, h.q); row == &r.Rows[0] {
			row.Slack = row.slack(ctx, h.q)
		}
		row.from.release()
	})
	return r
}

// apart does something with rows on all processors, with those of one card one after the other: they share its steady states.
func (h *hunt) apart(rows []*Row, do func(*Row)) {
	concurrent.Each(len(h.cards), func(i int) {
		for _, r := range rows {
			if r.search == h.cards[i] {
				do(r)
			}
		}
	})
}

// own is the row of its search that a copy is of; nil where batches start together.
func (r *Row) own() *Row {
	if r.search == nil {
		return nil
	}
	for i := range r.search.rows {
		if o := &r.search.rows[i]; o.order == r.order {
			return o
		}
	}
	return nil
}

// confirm simulates a row with so many requests, and with more until a seed no longer decides, and with more replicas where it misses its
// targets. It is left out where that does not help.
func (r *Row) confirm(ctx context.Context, q *Request, requests int) {
	s, c := r.search, r.from
	for more := 0; ; more++ {
		sure, err := r.decide(ctx, q, requests)
		switch {
		case err != nil && ctx.Err() == nil:
			s.missed(Miss{err.Error(), infinite, nil})
			r.left = true
			return
		case err != nil || sure:
			r.confirmed = requests
			return
		}
		s.falls(r)
		v := variant{r.Budget, r.Limit, r.Drafts, r.Prefill / c.DP}
		units := r.units + 1
		if v.Prefill > 0 && q.misses(r, TTFT) {
			v.Prefill, units = v.Prefill+1, r.units
		}
		r.left = more == mostGrown || (units+v.Prefill)*c.GPUs > q.MaxGPUs
		if r.left {
			return
		}
		next, ok := s.qualifies(ctx, c, v, units)
		if r.left = !ok && next.Simulated == nil || q.Budget > 0 && s.falls(&next); r.left {
			return
		}
		s.exact(ctx, c, &next)
		next.order = r.order
		*r = next
	}
}

// mostGrown is how many units more than its steady state takes a row may get.
const mostGrown = 3

// decide simulates so many requests on a row, and more where a seed decides, and reports whether it meets its targets whatever the seed.
func (r *Row) decide(ctx context.Context, q *Request, requests int) (sure bool, err error) {
	for ; ; requests *= 4 {
		if err := r.simulate(ctx, q, requests); err != nil {
			return false, err
		}
		within := false
		for i := range q.Targets {
			t := &q.Targets[i]
			is, spread := r.Simulated.Of(t)
			within = within || is.Times(1-spread) <= t.Most && is.Times(1+spread) > t.Most
		}
		if !within || requests >= mostDrawn {
			return !q.tooSlow(r), nil
		}
	}
}
