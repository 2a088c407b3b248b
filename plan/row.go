package plan

import (
	"cmp"
	"fmt"
	"slices"

	"llmprof/analytic"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/internal/printable"
	"llmprof/models"
	"llmprof/serving"
	"llmprof/unit"
)

// A Row is a deployment that qualifies.
type Row struct {
	Card         *Card
	Formats      Formats
	Scheme       string // scheme of the weights
	Split        Split
	DP           int // replicas that decode, and prefill unless others do
	Prefill      int // replicas that only prefill and hand the cache over; 0 for none
	Budget       int // most tokens of a step; 0 for the scheduler's
	Limit        int // most sequences at once; 0 for the scheduler's
	Drafts       int // tokens drafted with each one; 0 for no speculation
	MicroBatches int
	Batch        int // sequences of a replica at once
	GPUs         int

	TTFT, TPOT, E2E unit.Seconds // at the end of the interval that was asked for
	Throughput      float64      // generated tokens a second
	JToken          unit.Joules
	PerHour         unit.Dollars // 0 where no price is known
	PerMillion      unit.Dollars // generated tokens
	Running         float64      // sequences that decode at once, of all replicas; 0 without a load
	Utilization     float64      // share of the time in which steps run; 0 without a load
	Tail            Tail         // 0 where nothing was simulated
	Estimate        Spans        // where the figures above are from
	Pareto          bool         // no other deployment is better in cost, TTFT and TPOT
	order           int
	slower          float64 // by how much longer than expected everything takes
	alone           Spans   // times of a request with no other
}

// Spans are the times of a deployment with their intervals.
type Spans struct{ TTFT, TPOT, E2E analytic.Span }

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
	return s
}

// extras counts the settings that differ from those that a server starts with.
func (r *Row) extras() int {
	return min(r.Prefill, 1) + min(r.Budget, 1) + min(r.Limit, 1) + min(r.Drafts, 1)
}

// parallel is how the model is split over the row's GPUs.
func (r *Row) parallel() analytic.Parallelism {
	return analytic.Parallelism{
		TP: r.Split.TP, PP: r.Split.PP, EP: r.Split.EP, MoETP: r.Split.MoETP, DP: r.DP, MicroBatches: r.MicroBatches,
		GPUsPerNode: r.Card.GPU.GPUsPerNode,
	}
}

// Same is the request of an estimate, or of a steady state, that answers as the row does.
func (r *Row) Same(q *Request) *deployment.Request {
	c, g, most := r.Card, r.Card.GPU, r.Card.Machine.Cap()
	same := &deployment.Request{Model: printable.Operand(c.Name), GPU: g.Key, Engine: r.Engine(), Weights: r.Formats.Weights}
	if c.Model.CacheBytes(1, r.Formats.KV) > 0 {
		same.KV = r.Formats.KV
	}
	parts := 1 // the default
	if r.loaded() && r.Split.PP > 1 {
		parts = 0 // one that differs by engine
	}
	same.TP, same.PP, same.EP, same.MoETP = other(r.Split.TP, 1), other(r.Split.PP, 1), other(r.Split.EP, 1), other(r.Split.MoETP, 0)
	same.DP, same.MicroBatches = other(r.DP, 1), other(r.MicroBatches, parts)
	text := q.Prompt.Plus(-q.MediaTokens)
	same.Media = q.Media
	same.PromptLen, same.Prompts = tokens(&text)
	same.GenLen, same.Answers = tokens(&q.Gen)
	if known, _ := g.Price(); c.Price > 0 {
		same.Price = other(c.Price, known)
	}
	if most.Limit > 0 {
		same.PowerLimit = other(most.Limit, g.PowerLimit)
	}
	if most.Clock > 0 {
		same.Clock = other(most.Clock, g.ClockLimit)
	}
	same.Budget, same.MaxSeqs, same.Prefillers, same.Drafts = other(r.Budget, 0), other(r.Limit, 0), other(r.Prefill, 0), other(r.Drafts, 0)
	if r.Drafts > 0 {
		same.Acceptance = &q.Acceptance
	}
	r.links(same)
	switch {
	case !r.loaded():
		same.Batch = &r.Batch
	case q.Load.Concurrency > 0:
		same.Concurrency = &q.Load.Concurrency
	default:
		same.Rate = new(deployment.Rate(q.rate()))
	}
	return same
}

// tokens are one length of all requests, or those that are drawn.
func tokens(l *serving.Lengths) (*int, *serving.Lengths) {
	if l.Kind == "fixed" {
		return new(int(l.MeanLength())), nil
	}
	return nil, l
}

// other is a value unless it is the one that is taken anyway.
func other[T comparable](v, otherwise T) *T {
	if v == otherwise {
		return nil
	}
	return &v
}

// links asks for the links that the GPUs do not have anyway.
func (r *Row) links(same *deployment.Request) {
	g, parallel := r.Card.GPU, r.parallel()
	asked := hardware.Links{}
	for _, c := range hardware.LinkChoices() {
		usual := g.Links
		*c.Of(&usual) = false
		*c.Of(&asked) = !g.SameRoutes(g.Linked(usual), parallel.Groups())
	}
	same.P2P, same.NoP2P, same.NVLink = asked.P2P, asked.NoP2P, asked.NVLink
}

// score is what the row is ranked by, less being better.
func (q *Request) score(r *Row) float64 {
	switch q.By {
	case Energy:
		return float64(r.JToken)
	case Latency:
		return float64(r.E2E)
	case Throughput:
		if q.bounded() && !r.loaded() {
			return -r.Throughput
		}
		return -r.Throughput / float64(r.GPUs)
	}
	if q.Load.Given() {
		return float64(r.PerHour)
	}
	return float64(r.PerMillion)
}

// bounded reports whether the number of GPUs is, so that more of them can be too many.
func (q *Request) bounded() bool { return q.Budget > 0 || q.MaxGPUs > 0 }

// place is what deployments with a card are ranked by before all else.
func (q *Request) place(c *Card) int {
	if q.By == ByModel {
		return c.Place
	}
	return 0
}

// compare ranks two rows: by the objective, and where that is equal by price, GPUs,
// fewer settings that a server does not start with, time of a request, and the order of the search.
func (q *Request) compare(a, b *Row) int {
	return cmp.Or(
		cmp.Compare(q.place(a.Card), q.place(b.Card)), cmp.Compare(q.score(a), q.score(b)), cmp.Compare(a.PerHour, b.PerHour),
		cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.extras(), b.extras()),
		cmp.Compare(a.E2E, b.E2E), cmp.Compare(a.order, b.order),
	)
}

// bestOnly reports whether no row of a card is shown but its best.
func (q *Request) bestOnly() bool { return q.Top > 0 && q.PerGPU == 1 }

// Shown are the best of ranked rows, at most top of them and perGPU of a model on a GPU; 0 is no limit.
func Shown(rows []Row, top, perGPU int) (all []Row) {
	type kind struct {
		gpu   *hardware.GPU
		model *models.Model
	}
	of := map[kind]int{}
	for i := range rows {
		r := &rows[i]
		k := kind{r.Card.GPU, r.Card.Model}
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
		if q.Load.Given() {
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
