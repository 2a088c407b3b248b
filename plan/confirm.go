package plan

import (
	"context"
	"errors"
	"math"
	"slices"

	"llmprof/internal/concurrent"
	"llmprof/serving"
	"llmprof/unit"
)

// Simulated is what a simulation of the load says of a row, at the end of the interval that was asked for, or the sample path of its steady
// state.
type Simulated struct {
	Path     bool // It is of the sample path.
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

// Rounded is a figure, rounded to three digits, or to the 1, 2 or 5 of a digit that another seed moves it by less than; a percentile is no
// less than a lower one.
func (s *Simulated) Rounded(t *Target) (most float64) {
	if t.At == 0 {
		return s.rounded(t)
	}
	for _, at := range serving.Percentiles {
		if at <= t.At {
			most = max(most, s.rounded(&Target{Of: t.Of, At: at}))
		}
	}
	return most
}

func (s *Simulated) rounded(t *Target) float64 {
	is, spread := s.Of(t)
	by := max(float64(is)*spread, 1e-12)
	step := math.Pow(10, math.Floor(math.Log10(by)))
	for _, times := range []float64{2, 2.5, 2} { // 2, 5 and 10
		if step < by {
			step *= times
		}
	}
	return Digits(math.Round(float64(is)/step)*step, 3)
}

// How many requests are simulated of rows that are shown, and of others whose percentiles no steady state has.
const (
	quick    = 1200
	thorough = 4000

	fewestRequests = 100 * seeds
	// steps is how many steps are simulated for a thorough figure: where few requests run at once each takes many, and hardly waits.
	steps = 200_000
)

// requests is how many requests are simulated of a row where so many are wanted at most.
func (q *Request) requests(r *Row, most int) int {
	each := q.Gen.MeanLength() / max(r.Running/float64(r.DP), 1)
	return max(min(most, int(steps/each*float64(most)/thorough)), fewestRequests)
}

// seeds are simulations of their own, which say how far a seed moves a figure.
const seeds = 6

// student is the 95th percentile of Student's distribution with so many seeds.
const student = 2.015

// simulate runs requests of the load on a row by several seeds, up to so many.
func (r *Row) simulate(ctx context.Context, q *Request, most int) error {
	all, err := r.search.steadies(ctx, r.from, r.setting.variant)
	if err != nil {
		return err
	}
	n := seeds
	if q.clients() > 0 && q.fixed() && r.Drafts == 0 { // Nothing is drawn.
		n = 1
	}
	requests := q.requests(r, most)
	results, errs := make([]*serving.Figures, n), make([]error, n)
	concurrent.Each(n, func(i int) { results[i], errs[i] = r.simulateSeed(q, all, requests/seeds, uint64(i)+1) })
	if err := errors.Join(errs...); err != nil {
		return err
	}
	r.Simulated = summary(results, r.slower)
	return ctx.Err()
}

// simulated reports whether the figures of a row are those of a simulation.
func (r *Row) simulated() bool { return r.Simulated != nil && !r.Simulated.Path }

// alike is how many units of a row are alike: a router serves them in turn, and none knows of the others, so that one stands for all.
func (r *Row) alike(q *Request) int {
	if r.Prefill > 0 || q.clients() > 0 {
		return 1
	}
	return r.setting.units
}

// simulateSeed runs the requests of one seed. Their lengths are stratified: where few prompts are long, a 99th percentile depends three
// times less on the seed then. A router brings each of R units every R-th request of a Poisson process, between which the times have a
// gamma distribution of the shape R.
func (r *Row) simulateSeed(q *Request, all *serving.Steadies, count int, seed uint64) (*serving.Figures, error) {
	alike, layout := r.alike(q), r.layout()
	layout.Replicas /= alike
	var crowd serving.Crowd
	if n := q.clients(); n > 0 {
		crowd = all.Crowd(n, layout.Replicas)
		layout.Replicas = crowd.Replicas
	}
	running := int(r.Running * float64(layout.Replicas) / float64(r.DP))
	count = max(count, 4*running)     // so that percentiles are not those of a few sequences that run together
	fills := max(count/10, 3*running) // requests until as many run as do in the steady state
	load := serving.Load{Prompt: q.Prompt, Gen: q.Gen, Requests: count + fills + 2*crowd.Clients, Seed: seed, Stratified: true}
	load.Arrival = serving.Arrival{Kind: "gamma", Burstiness: float64(alike), Rate: q.rate() * r.slower / float64(alike)}
	if crowd.Clients > 0 {
		load.Arrival = serving.Arrival{Kind: "closed", Concurrency: crowd.Clients}
	}
	source, err := load.Source()
	if err != nil {
		return nil, err
	}
	result, err := all.Simulate(source, layout, serving.Options{Warmup: fills, Seed: seed})
	if err != nil {
		return nil, err
	}
	crowd.Wait(&result.Figures)
	return &result.Figures, nil
}

// summary puts the simulations of several seeds together: figures of all their requests, and how far each is from them.
func summary(results []*serving.Figures, slower float64) *Simulated {
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

func sketch(r *serving.Figures, f Figure) *serving.Sketch {
	return [...]*serving.Sketch{&r.TTFT, &r.TPOT, &r.ITL, &r.E2E}[f]
}

// spread is by what share as many requests of other seeds as all of these are off, from how far the seeds are from each other: the mean of
// n of them is off by the standard deviation of one over the root of n, and the difference of two such means by root two times that.
func spread(results []*serving.Figures, f Figure, of func(*serving.Sketch) float64) float64 {
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
	return student * math.Sqrt(2*max(squares/n-mean*mean, 0)/(n-1)) / mean
}

// leaders is how many of the rows that are shown are simulated whatever they are: the percentiles of others are those of the sample path of
// one replica, unless replicas share experts and wait for each other.
const leaders = 3

// confirmed simulates the rows that are shown, the best for longest, as it is the one that is taken. Cards of which simulations refuse a
// row are searched again.
func (h *cardSearch) confirmed(ctx context.Context) (*Result, error) {
	if !h.q.Load.IsSet() {
		return h.gather(), nil
	}
	for ctx.Err() == nil {
		var open []*Row
		for i, r := range Shown(h.rows(), h.q.Top, h.q.PerGPU) {
			if own := r.own(); own != nil && own.confirmed < h.q.least(i) && (i < leaders || r.Split.sharing() > 1) {
				own.rank = i
				open = append(open, own)
			}
		}
		if len(open) == 0 {
			if h.undercut(ctx) {
				continue
			}
			return h.told(ctx), nil
		}
		h.apart(open, func(r *Row) { r.confirm(ctx, h.q) })
		concurrent.Each(len(h.cards), func(i int) { h.cards[i].again(ctx) })
	}
	return nil, ctx.Err()
}

// least is how many requests are simulated at least of the row of a rank.
func (q *Request) least(rank int) int {
	switch {
	case len(q.Targets) == 0:
		return quick
	case rank == 0:
		return 3 * thorough
	}
	return thorough
}

// again searches a card again of which a simulation refused a row: now without that.
func (s *search) again(ctx context.Context) {
	switch {
	case !s.refused:
	case s.searches < mostAgain:
		s.searches++
		s.run(ctx, false)
	default:
		s.rows = slices.DeleteFunc(s.rows, func(r *Row) bool { return !r.meets })
	}
	s.refused = false
}

// mostAgain is how often a card is searched again.
const mostAgain = 8

// told is the result, with what the rows that are shown do under other loads, and how much slower the best one may be.
func (h *cardSearch) told(ctx context.Context) *Result {
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
func (h *cardSearch) apart(rows []*Row, do func(*Row)) {
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
	return r.from.tried[r.setting]
}

// confirm simulates a row, and refuses it where it misses its targets.
func (r *Row) confirm(ctx context.Context, q *Request) {
	before := *r
	sure, err := r.decide(ctx, q)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		r.search.missed(Miss{err.Error(), infinite, nil})
	case sure:
		r.meets, r.confirmed = true, q.least(r.rank)
		r.search.learn(&before, r)
		return
	default:
		r.search.falls(r)
		r.search.learn(&before, r)
	}
	r.meets, r.search.refused = false, true
}

// mostLearned is by how many times more at most one simulation lengthens figures of a split: near its limit a server waits for much longer
// than with one replica more.
const mostLearned = 1.25

// A stepped is a split with the most tokens of its steps, 0 for the engine's.
type stepped struct {
	Split
	budget int
}

func (r *Row) stepped() stepped { return stepped{r.Split, r.Budget} }

// learn remembers by how many times the simulation of a row has longer figures than were known before it, which those of other rows of the
// split with steps as long are taken to be longer by. No path of one replica has that replicas which share experts wait for each other, or
// that the batches of a pipeline do.
func (s *search) learn(before, r *Row) {
	known := s.longer[r.stepped()]
	for i := range s.q.Targets {
		t := &s.q.Targets[i]
		is, _ := r.Simulated.Of(t)
		if was := s.q.figure(before, t); was > 0 {
			now := max(known[t.Of], 1)
			known[t.Of] = max(now*min(float64(is/was), mostLearned), 1)
		}
	}
	s.longer[r.stepped()] = known
}

// decide simulates a row, and reports whether it meets its targets: the best one whatever the seed. Where it holds by less than a seed
// decides, four times as many requests are simulated, of which half a spread leaves one chance in ten that the figure is beyond its target.
// A few requests suffice for means that hold or miss their targets by far.
func (r *Row) decide(ctx context.Context, q *Request) (meets bool, err error) {
	least, requests := q.least(r.rank), quick
	if q.tailed() {
		requests = thorough
	}
	for {
		if err := r.simulate(ctx, q, requests); err != nil {
			return false, err
		}
		switch sure := q.holds(r, 1); {
		case !q.holds(r, -2), requests >= least && !q.holds(r, 0):
			return false, nil
		case requests >= least && (sure || r.rank > 0), sure && r.rank > 0:
			return true, nil
		case requests >= 4*least:
			return q.holds(r, 0.5), nil
		case requests >= least:
			requests = 4 * least
		default:
			requests = least
		}
	}
}

// holds reports whether a simulated row meets all targets with figures that are so many spreads longer.
func (q *Request) holds(r *Row, spreads float64) bool {
	return !slices.ContainsFunc(q.Targets, func(t Target) bool {
		is, spread := r.Simulated.Of(&t)
		return is.Times(1+spreads*spread) > t.Most
	})
}
