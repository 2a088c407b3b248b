package plan

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/internal/printable"
	"llmprof/serving"
	"llmprof/unit"
)

// A Row is a deployment that qualifies.
type Row struct {
	Card         *Card
	Formats      Formats
	Scheme       string // scheme of the weights
	Split        Split
	DP           int // So many replicas decode, and prefill unless others do.
	Prefill      int // replicas that only prefill and hand the cache over; 0 for none
	Budget       int // most tokens of a step; 0 for the scheduler's
	Limit        int // most sequences at once; 0 for the scheduler's
	Drafts       int // tokens drafted with each one; 0 for no speculation
	MicroBatches int
	Placement    *engine.Placement // says which tensors lie in host memory; nil where all lie on the GPU
	Batch        int               // sequences of a replica at once
	GPUs         int

	TTFT, TPOT, E2E unit.Seconds // at the end of the interval that was asked for
	Throughput      float64      // generated tokens a second
	JToken          unit.Joules
	PerHour         unit.Dollars // 0 where no price is known
	PerMillion      unit.Dollars // generated tokens
	Running         float64      // sequences that decode at once, of all replicas; 0 without a load
	Utilization     float64      // share of the time in which steps run; 0 without a load
	Capacity        float64      // requests a second that it answers at most; 0 without a load
	Simulated       *Simulated   // nil where nothing was simulated
	Estimate        Spans        // where the figures above are from
	Loads           []Loaded     // multiples of the load; nil without one
	Slack           float64      // how many times longer everything may take until the best row no longer qualifies; 0 without a load
	Pareto          bool         // no other deployment is better in cost, TTFT and TPOT
	order           int
	slower          float64 // factor by which everything takes longer than expected

	search    *search // search that found it; from is what it was made from
	from      *candidate
	setting   setting
	meets     bool // it meets the targets as far as is known
	confirmed int  // requests of the simulation in which it met them, at least
	rank      int  // its place among the rows that are shown
}

// Spans are the times of a deployment with their intervals.
type Spans struct{ TTFT, TPOT, E2E analytic.Span }

// fill takes the figures of the estimate of one unit of replicas, at the end of the
// interval that is asked for.
func (r *Row) fill(q *Request, e *analytic.Estimate) {
	r.Estimate = Spans{e.TTFT, e.TPOT, e.TTLT}
	r.TTFT, r.TPOT, r.E2E = q.end(e.TTFT), q.end(e.TPOT), q.end(e.TTLT)
	slower := float64(r.E2E / e.TTLT.Expected)
	r.Throughput = e.Throughput / slower
	r.JToken = e.Energy.PerRequest.Times(1 / q.Gen.MeanLength())
}

// perMillion takes the price of a million generated tokens from those of an hour.
func (r *Row) perMillion() {
	r.PerMillion = unit.Dollars(float64(r.PerHour) / 3600 / r.Throughput * 1e6)
}

// monthHours is the hours of a month, a twelfth of those of a year.
const monthHours = 730

// PerMonth is the price of a month; 0 where no price is known.
func (r *Row) PerMonth() unit.Dollars { return r.PerHour * monthHours }

// Engine is the name of the engine.
func (r *Row) Engine() string { return r.Card.Machine.Engine.Profile().Name }

// loaded reports whether the figures are of a steady state under a load, and not of a batch that starts together.
func (r *Row) loaded() bool { return r.Utilization > 0 }

// PerUser is the tokens a second that one request sees.
func (r *Row) PerUser() float64 {
	if r.TPOT == 0 {
		return 0
	}
	return 1 / float64(r.TPOT)
}

// String names the deployment in a few words.
func (r *Row) String() string {
	s := fmt.Sprintf("%d × %s, tp %d", r.GPUs, r.Card.GPU.Key, r.Split.TP)
	for _, d := range []struct {
		name string
		n    int
	}{{"pp", r.Split.PP}, {"ep", r.Split.EP}, {"moe-tp", r.Split.MoETP}, {"dp", r.DP}} {
		if d.n > 1 {
			s += fmt.Sprintf(" %s %d", d.name, d.n)
		}
	}
	s += r.Extras()
	return fmt.Sprintf("%s, weights %s, KV cache %v, batch %d", s, r.Scheme, r.Formats.KV, r.Batch)
}

// Extras names the settings that differ from those that a server starts with.
func (r *Row) Extras() (s string) {
	if r.Prefill > 0 {
		s += fmt.Sprintf(" + %d prefill", r.Prefill)
	}
	if r.Budget > 0 {
		s += fmt.Sprintf(" steps of %d", r.Budget)
	}
	if r.Limit > 0 {
		s += fmt.Sprintf(" at most %d", r.Limit)
	}
	if r.Drafts > 0 {
		s += fmt.Sprintf(" drafts %d", r.Drafts)
	}
	switch {
	case !r.inHost():
	case r.Placement.Layers != nil:
		s += fmt.Sprintf(" ngl %d", *r.Placement.Layers)
	default:
		s += fmt.Sprintf(" n-cpu-moe %d", r.Placement.Experts)
	}
	return s
}

// inHost reports whether a part of the model lies in the memory of the host.
func (r *Row) inHost() bool {
	return r.Placement != nil && (r.Placement.Experts > 0 || r.Placement.Layers != nil)
}

// extras counts the settings that differ from those that a server starts with.
func (r *Row) extras() int {
	return min(r.Prefill, 1) + min(r.Budget, 1) + min(r.Limit, 1) + min(r.Drafts, 1)
}

// HostAssumed says which host the first of some rows is taken to be in that leaves a part of the model there, where nothing said it.
func HostAssumed(rows []Row) (all []unit.Warning) {
	i := slices.IndexFunc(rows, func(r Row) bool { return r.inHost() && r.Card.Host == "" })
	if i < 0 {
		return nil
	}
	g := rows[i].Card.GPU
	host := hardware.UsualHost(g)
	return []unit.Warning{unit.Warn("host_assumed", "Rows with n-cpu-moe or ngl leave a part of the model in the memory of the host, which "+
		"for %s is taken to be that of a %s: {host} and {ram} say otherwise.", g.Key, host.Name)}
}

// layout is the replicas of a row.
func (r *Row) layout() serving.Layout {
	return serving.Layout{Replicas: r.DP, Prefillers: r.Prefill, Link: deployment.Handover(r.Card.GPU, r.GPUs)}
}

// Request is what package deployment answers with the figures of the row.
func (r *Row) Request(q *Request) deployment.Request {
	d := r.Card.Request
	d.Weights, d.KV = r.Formats.Weights, r.Formats.cache(r.Card.Model)
	set := func(to **int, n, usual int) {
		if n != usual {
			*to = &n
		}
	}
	set(&d.TP, r.Split.TP, 1)
	set(&d.PP, r.Split.PP, 1)
	set(&d.EP, r.Split.EP, 1)
	set(&d.MoETP, r.Split.MoETP, 0)
	set(&d.DP, r.DP, 1)
	set(&d.Budget, r.Budget, 0)
	set(&d.MaxSeqs, r.Limit, 0)
	set(&d.Prefillers, r.Prefill, 0)
	if set(&d.Drafts, r.Drafts, 0); r.Drafts > 0 {
		d.Acceptance = &q.Acceptance
	}
	if p := r.Placement; p != nil {
		d.GPULayers = p.Layers
		set(&d.HostExperts, p.Experts, 0)
		set(&d.Pass, p.Step, 0)
	}
	text := q.Prompt.Plus(-q.MediaTokens)
	d.PromptLen, d.Prompts = tokens(&text)
	d.GenLen, d.Answers = tokens(&q.Gen)
	switch parts := max(r.MicroBatches, 1); {
	case !q.Load.IsSet() || r.Utilization == 0 && r.search == nil:
		set(&d.MicroBatches, parts, 1)
	case r.Split.PP > 1:
		d.MicroBatches = &parts
	}
	if q.HitRate > 0 {
		d.HitRate = &q.HitRate
	}
	return d
}

// Same is the request of an estimate, or of a steady state, that answers as the row does.
func (r *Row) Same(q *Request) *deployment.Request {
	d := r.Request(q)
	d.Model = printable.Operand(d.Model)
	if known, _ := r.Card.GPU.Price(); r.PerHour > 0 && r.Card.Price(r.GPUs) != known {
		price := r.Card.Price(r.GPUs)
		d.Price = &price
	}
	if r.loaded() {
		d.Rate, d.Concurrency = q.load()
		return &d
	}
	d.Batch = &r.Batch
	if q.HitRate > 0 {
		cached := int(q.HitRate * q.Prompt.MeanLength())
		d.HitRate, d.CachedPrefix = nil, &cached
	}
	return &d
}

// load is the rate of requests, or the clients.
func (q *Request) load() (*deployment.Rate, *int) {
	if clients := q.clients(); clients > 0 {
		return nil, &clients
	}
	return new(deployment.Rate(q.rate())), nil
}

// tokens are one length of all requests, or those that are drawn.
func tokens(l *serving.Lengths) (*int, *serving.Lengths) {
	if l.Kind == "fixed" {
		return new(int(l.MeanLength())), nil
	}
	return nil, l
}

// score is what the row is ranked by, less being better.
func (q *Request) score(r *Row) float64 {
	switch q.By {
	case Energy:
		return float64(r.JToken)
	case Latency:
		return float64(r.E2E)
	case Throughput:
		if (q.Budget > 0 || q.MaxGPUs > 0) && !r.loaded() {
			return -r.Throughput
		}
		return -r.Throughput / float64(r.GPUs)
	}
	if q.Load.IsSet() {
		return float64(r.PerHour)
	}
	return float64(r.PerMillion)
}

// place is what deployments with a card are ranked by before all else.
func (q *Request) place(c *Card) int {
	if q.By == ByModel {
		return c.Place
	}
	return 0
}

// rank is what rows are compared by: their score, and of a card on which nothing was observed that of all times longer by the part of their
// interval above what is expected, so that it does not go before one that was measured and is within that interval.
func (q *Request) rank(r *Row) float64 {
	score := q.score(r)
	if q.Trusting || len(r.Card.Observed) > 0 || r.Estimate.E2E.Expected == 0 {
		return score
	}
	return score + math.Abs(score)*(float64(r.Estimate.E2E.High/r.Estimate.E2E.Expected)-1)
}

// unseen is 1 where nothing was observed of a row's format on its card, and that counts; else 0.
func (q *Request) unseen(r *Row) int {
	if q.Trusting || r.Card.Observed[r.Scheme] > 0 {
		return 0
	}
	return 1
}

// compare ranks two rows: by the objective, and where that is equal by price, GPUs,
// fewer settings that a server does not start with, whether their format was observed, time of a request, and the order of the search.
func (q *Request) compare(a, b *Row) int {
	return cmp.Or(
		cmp.Compare(q.place(a.Card), q.place(b.Card)), cmp.Compare(q.rank(a), q.rank(b)), cmp.Compare(q.score(a), q.score(b)),
		cmp.Compare(a.PerHour, b.PerHour),
		cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.extras(), b.extras()),
		cmp.Compare(q.unseen(a), q.unseen(b)), cmp.Compare(a.E2E, b.E2E), cmp.Compare(a.order, b.order),
	)
}

// Shown are the best of ranked rows, at most top of them and perGPU of a model on a GPU; 0 is no limit.
func Shown(rows []Row, top, perGPU int) (all []Row) {
	of := map[kind]int{}
	for i := range rows {
		r := &rows[i]
		k := r.Card.kind()
		if of[k]++; perGPU > 0 && of[k] > perGPU {
			continue
		}
		if all = append(all, *r); len(all) == top {
			break
		}
	}
	return all
}

// markPareto marks the rows that no other is better than in price, TTFT and TPOT. Where a
// load is given the price is that of an hour, else that of a token. A row whose price is not known is not compared.
func (q *Request) markPareto(rows []Row) {
	price := func(r *Row) float64 {
		if q.Load.IsSet() {
			return float64(r.PerHour)
		}
		return float64(r.PerMillion)
	}
	better := func(a, b *Row) bool { // a is no worse in anything, and better in something
		return price(a) <= price(b) && a.TTFT <= b.TTFT && a.TPOT <= b.TPOT && (price(a) < price(b) || a.TTFT < b.TTFT || a.TPOT < b.TPOT)
	}
	var order []*Row
	for i := range rows {
		if rows[i].Pareto = false; price(&rows[i]) > 0 {
			order = append(order, &rows[i])
		}
	}
	slices.SortFunc(order, func(a, b *Row) int {
		return cmp.Or(cmp.Compare(price(a), price(b)), cmp.Compare(a.TTFT, b.TTFT), cmp.Compare(a.TPOT, b.TPOT))
	})
	var front []*Row // no later row is better than an earlier one
	for _, r := range order {
		if !slices.ContainsFunc(front, func(f *Row) bool { return better(f, r) }) {
			r.Pareto = true
			front = append(front, r)
		}
	}
}
