package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"sort"
	"sync"

	"llmprof/analytic/engine"
	"llmprof/internal/concurrent"
	"llmprof/unit"
)

// A search estimates every deployment of every card alone, works out the steady states of those that a closed form says are best on their
// card, the cards that may be shown first, and simulates the first rows.

// A Result is what a search came to.
type Result struct {
	Rows     []Row // rows that qualify, in the order of their rank
	Rejected []Rejected
	Searched int // deployments that were estimated
}

// A Rejected is a card that no row is of.
type Rejected struct {
	Card     *Card
	Miss     Miss
	Unpriced bool // no price of the card is known, so that nothing was searched
}

// A Miss is the deployment that came nearest to what was asked for.
type Miss struct {
	Reason string  // why it was rejected, and what would have to give
	By     float64 // how many times too much the worst figure is; +Inf where there is no estimate
	Row    *Row    // nil where there is no estimate
}

// Search finds the deployments that qualify.
func Search(ctx context.Context, q *Request) (*Result, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	own := *q
	own.fill()
	all := make([]*search, len(own.Cards))
	for i := range all {
		all[i] = newSearch(&own, &own.Cards[i])
	}
	h := cardSearch{q: &own, cards: all}
	concurrent.Each(len(all), func(i int) {
		all[i].estimate(ctx)
		h.progress()
	})
	slices.SortStableFunc(all, func(a, b *search) int {
		return cmp.Or(cmp.Compare(own.place(a.card), own.place(b.card)), cmp.Compare(a.likely(), b.likely()))
	})
	h.run(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return h.confirmed(ctx)
}

// fill gives a request its defaults.
func (q *Request) fill() {
	if len(q.Batches) == 0 {
		q.Batches = DefaultBatches()
	}
	if q.MaxGPUs == 0 {
		q.MaxGPUs = DefaultGPUs
	}
	if q.Budgets == nil {
		q.Budgets = DefaultBudgets()
	}
	if q.Limits == nil && q.rate() > 0 { // clients that wait for their answers are simulated, which takes longer
		q.Limits = DefaultLimits()
	}
	q.Batches = slices.Sorted(slices.Values(q.Batches))
}

// newSearch is a search over the deployments of a card.
func newSearch(q *Request, card *Card) *search {
	s := &search{q: q, card: card, splits: q.Splits, miss: noMiss(), events: new(simulatedEvents), least: math.Inf(1)}
	s.longer = map[stepped][figures]float64{}
	if len(s.splits) == 0 {
		s.splits = DefaultSplits(card.Model, q.MaxGPUs)
	}
	return s
}

// simulatedEvents is how many events loads of clients are simulated for on each card: they bound how long a search takes, on every machine
// alike.
const simulatedEvents = 1_500_000

// A cardSearch searches cards in the order of what the closed form says that their best rows rank by.
type cardSearch struct {
	q     *Request
	cards []*search
	done  int // cards that are estimated, and those that are searched
	mu    sync.Mutex
}

const (
	// atOnce is how many cards are searched at the same time. It is fixed, so that no number of processors changes what is found.
	atOnce = 4
	// beyond is how much worse than the last row that is shown the closed form has to rank a card whose deployments are not all tried.
	beyond = 1.3
)

// run searches the cards. Those that the closed form ranks far behind the rows that are shown, or far over the budget, are tried by their
// likeliest deployment alone.
func (h *cardSearch) run(ctx context.Context) {
	for from := 0; from < len(h.cards) && ctx.Err() == nil; from += atOnce {
		some := h.cards[from:min(from+atOnce, len(h.cards))]
		limit, full := h.last()
		concurrent.Each(len(some), func(i int) {
			s := some[i]
			behind := full && (h.q.place(s.card) > limit.place || h.q.place(s.card) == limit.place && s.likely() > beyondOf(limit.score)) ||
				h.q.Budget > 0 && h.q.Load.IsSet() && h.q.cheapest() && s.likely() > beyondOf(float64(h.q.Budget))
			s.run(ctx, behind)
			h.progress()
		})
	}
}

// beyondOf is a figure that is worse than another one by beyond.
func beyondOf(score float64) float64 { return score + (beyond-1)*math.Abs(score) }

// A rank is what decides the order of rows first.
type rank struct {
	place int
	score float64
}

// last is the standing of the last row that would be shown of those found so far, and whether as many are found as are shown.
func (h *cardSearch) last() (last rank, full bool) {
	rows := h.rows()
	shown := Shown(rows, h.q.Top, h.q.PerGPU)
	if h.q.Top == 0 || len(shown) < h.q.Top {
		return last, false
	}
	r := &shown[len(shown)-1]
	return rank{h.q.place(r.Card), h.q.score(r)}, true
}

// rows are those found so far, in the order of their rank.
func (h *cardSearch) rows() (all []Row) {
	for _, s := range h.cards {
		for i := range s.rows {
			s.rows[i].order = len(all)
			all = append(all, *s.rows[i])
		}
	}
	h.q.markPareto(all)
	slices.SortFunc(all, func(a, b Row) int { return h.q.compare(&a, &b) })
	return all
}

// progress reports that one card more is estimated or searched, each of which is half of what is done with it.
func (h *cardSearch) progress() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done++; h.q.Progress != nil {
		h.q.Progress(h.done/2, len(h.cards))
	}
}

// gather is the result once rows are final.
func (h *cardSearch) gather() *Result {
	r, answered := &Result{Rows: h.rows()}, map[kind]bool{}
	for _, s := range h.cards {
		r.Searched += s.searched
		if len(s.rows) > 0 {
			answered[s.card.kind()] = true
		} else {
			r.Rejected = append(r.Rejected, Rejected{s.card, s.miss, s.unpriced()})
		}
	}
	// slices.SortStableFunc would be compiled for this type alone, 7 kB of the page's program.
	sort.SliceStable(r.Rejected, func(i, j int) bool { return r.Rejected[i].Miss.By < r.Rejected[j].Miss.By })
	r.Rejected = slices.DeleteFunc(r.Rejected, func(x Rejected) bool { // Several engines may have rejected one card.
		again := answered[x.Card.kind()]
		answered[x.Card.kind()] = true
		return again
	})
	return r
}

// A search is one over the deployments of one card.
type search struct {
	q        *Request
	card     *Card
	splits   []Split // splits that are not estimated yet, the narrowest first
	bases    []base
	least    float64      // the least that the closed form says of a deployment that meets the targets
	open     []*candidate // deployments that may qualify, the likeliest first
	rows     []*Row
	dear     []*Row // rows that miss the budget and no target
	miss     Miss
	past     int // place among the batches behind the largest one that the last deployment may qualify with
	searched int
	searches int                          // how often it was searched again
	refused  bool                         // a simulation refused a row since it was searched
	below    unit.Dollars                 // what rows have to cost less than; 0 for anything
	longer   map[stepped][figures]float64 // factors by which simulations had longer figures than were known before
	events   *int                         // number of events for which loads of clients may still be simulated
}

// unpriced reports whether the card falls out for want of a price, by which rows rank or which a budget bounds.
func (s *search) unpriced() bool {
	return (s.q.cheapest() || s.q.Budget > 0) && len(s.card.Offers) == 0
}

// impossible says why nothing on the card is searched, "" where something is.
func (s *search) impossible() string {
	switch c := s.card; {
	case c.Wrong != nil:
		return c.Wrong.Error()
	case s.q.tooLong(c.Model) != "":
		return s.q.tooLong(c.Model)
	case s.unpriced():
		return fmt.Sprintf("no price of it is known: give one, as --price %s=1.50", c.GPU.Key)
	case len(c.Formats) == 0:
		return "it has no unit for any format that is allowed"
	case !s.continuous() && !s.q.fixed():
		return "its batches start together, so that all of their sequences have one length: give fixed ones"
	}
	return ""
}

// continuous reports whether the engine serves the load by continuous batching; else batches start together.
func (s *search) continuous() bool {
	_, err := engine.SchedulerOf(s.card.Machine.Engine.Profile().Engine(), s.card.Machine.Engine, s.card.GPU)
	return err == nil && s.q.Load.IsSet()
}

// likely is what the closed form says that the best row of the card ranks by.
func (s *search) likely() float64 {
	if len(s.open) == 0 {
		return math.Inf(1)
	}
	return s.open[0].likely
}

// run finds the rows of the card.
func (s *search) run(ctx context.Context, behind bool) {
	for first := true; first || !behind && s.wider(ctx); first = false {
		s.rows, s.dear = nil, nil
		switch {
		case len(s.open) == 0:
		case s.continuous():
			s.loaded(ctx, behind)
		default:
			s.batches(ctx)
		}
	}
	slices.SortFunc(s.rows, s.q.compare)
	if most := s.most(); most > 0 && len(s.rows) > most {
		s.rows = s.rows[:most]
	}
	for _, c := range s.open {
		c.release()
	}
}

// most is how many rows of the card are kept: as many as can be shown, and a few for those that simulations leave out; 0 for all.
func (s *search) most() int {
	switch {
	case s.q.Top == 0 && s.q.PerGPU == 0:
		return 0
	case s.q.Top == 0 || s.q.PerGPU > 0 && s.q.PerGPU < s.q.Top:
		return s.q.PerGPU + spare
	}
	return s.q.Top + spare
}

const spare = 3

// A batch that starts together is what is searched where no load is given. A larger batch shortens no step and takes more memory, so that
// the batches of a deployment that qualify come before all others.

// batches searches the batches of the likeliest deployments.
func (s *search) batches(ctx context.Context) {
	for i, c := range s.open {
		if ctx.Err() != nil || i >= s.finalists() && len(s.rows) > 0 {
			return
		}
		if s.q.PerGPU == 1 {
			if c.best != nil {
				s.rows = append(s.rows, c.best)
			}
			continue
		}
		for _, batch := range s.q.Batches {
			if batch%c.MicroBatches != 0 {
				continue
			}
			if r, larger := s.batch(c, batch); !larger {
				break
			} else if r.Batch > 0 {
				s.rows = append(s.rows, &r)
			}
		}
	}
}

// batch estimates one batch, with whether a larger one may qualify. The row is empty where it does not qualify itself.
func (s *search) batch(c *candidate, batch int) (r Row, larger bool) {
	e, err := c.predictor().Fitting(s.q.workload(batch, 0))
	s.searched++
	r = c.Row
	r.Batch = batch
	if err != nil {
		s.missed(Miss{err.Error(), infinite, nil})
		return Row{}, false
	}
	if !e.Memory.Fits() {
		s.tooLarge(&r, &e.Memory)
		return Row{}, false
	}
	r.fill(s.q, &e)
	s.scale(&r, c.DP, e.GPUs)
	if s.falls(&r) {
		return Row{}, !s.q.late(&r)
	}
	return r, true
}

// scale chooses how many units of replicas there are: as few as the load takes, or as many
// as are allowed where throughput is the objective.
func (s *search) scale(r *Row, unitDP, gpus int) {
	units := s.q.units(r, unitDP)
	if s.q.By == Throughput && (s.q.Budget > 0 || s.q.MaxGPUs > 0) {
		units = max(units, s.q.affordable(r, gpus))
	}
	r.Throughput *= float64(units)
	s.sized(r, units)
	r.perMillion()
}

// sized makes the row of one unit one of so many.
func (s *search) sized(r *Row, units int) {
	r.DP, r.GPUs = r.DP*units, r.GPUs*units
	r.PerHour = s.card.hour(r.GPUs)
}

// units is how many units of replicas the load takes.
func (q *Request) units(r *Row, unitDP int) int {
	need := q.rate() * q.Gen.MeanLength() / r.Throughput
	if n := q.clients(); n > 0 {
		need = float64(n) / float64(r.Batch*unitDP)
	}
	return max(int(math.Ceil(min(need, 1<<30))), 1)
}

// affordable is how many units of so many GPUs are allowed.
func (q *Request) affordable(r *Row, gpus int) int {
	most := q.MaxGPUs / gpus
	if q.Budget == 0 {
		return most
	}
	return sort.Search(most, func(n int) bool { return float64(r.Card.hour((n+1)*gpus)) > float64(q.Budget) })
}
