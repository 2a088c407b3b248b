package plan

import (
	"context"
	"fmt"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/unit"
)

// A Result is what a search came to.
type Result struct {
	Rows     []Row // rows that qualify, in the order of their rank; where Request.Top is given, without those of GPUs that cannot be shown
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
	Reason string  // in words, with what would have to give
	By     float64 // how many times too much the worst figure is; +Inf where there is no estimate
	Row    *Row    // nil where there is no estimate
}

// Search finds the deployments that qualify.
func Search(ctx context.Context, q *Request) (*Result, error) {
	if err := q.check(); err != nil {
		return nil, err
	}
	own := *q
	own.ctx = ctx
	if len(own.Batches) == 0 {
		own.Batches = DefaultBatches()
	}
	if own.MaxGPUs == 0 {
		own.MaxGPUs = DefaultGPUs
	}
	if own.Budgets == nil {
		own.Budgets = DefaultBudgets()
	}
	if own.Limits == nil && own.rate() > 0 { // clients that wait for their answers are simulated, which takes longer
		own.Limits = DefaultLimits()
	}
	own.Batches = slices.Sorted(slices.Values(own.Batches))
	found := make([]search, len(own.Cards))
	own.events = map[*Card]*int{}
	for i := range found {
		events := simulatedEvents
		own.events[&own.Cards[i]] = &events
		found[i] = search{q: &own, bounded: q.bounded(), card: &own.Cards[i], splits: own.Splits, miss: noMiss(), certain: noMiss(),
			limit: infinite}
		if len(own.Splits) == 0 {
			found[i].splits = DefaultSplits(own.Cards[i].Model, own.MaxGPUs)
		}
	}
	h := hunt{q: &own, found: found}
	h.run(ctx)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return gather(q, found), nil
}

// simulatedEvents is how many events loads of clients are simulated for on each card: they bound how long a search takes, on every machine
// alike.
const simulatedEvents = 1_500_000

// gather ranks what was found on all cards.
func gather(q *Request, found []search) *Result {
	r := &Result{}
	for i := range found {
		s := &found[i]
		r.Searched += s.searched
		for j := range s.rows {
			s.rows[j].order = len(r.Rows)
			r.Rows = append(r.Rows, s.rows[j])
		}
		if len(s.rows) == 0 && !s.qualifies {
			r.Rejected = append(r.Rejected, Rejected{s.card, s.miss.Miss, s.unpriced()})
		}
	}
	q.markPareto(r.Rows)
	slices.SortFunc(r.Rows, func(a, b Row) int { return q.compare(&a, &b) })
	slices.SortStableFunc(r.Rejected, func(a, b Rejected) int { return compareMisses(&a.Miss, &b.Miss) })
	return r
}

// A search is one over the deployments of one card.
type search struct {
	q         *Request
	bounded   bool
	card      *Card
	splits    []Split
	rows      []Row
	pruned    int   // rows that were kept when they were pruned last
	found     []Row // rows that count for other cards while further ones are searched
	miss      nearest
	certain   nearest // nearest of the misses that hold however many GPUs the limit pays for
	searched  int
	open      []*config // under a load, deployments that may qualify, the best first
	passed    []*config // deployments that stood before the open ones, and that the search of the card has passed
	at        int       // place in the list of all of the deployment that is screened; MaxInt after that
	limit     float64   // figure of rows beyond which none can be shown
	cut       bool      // none qualifies with as many GPUs as that pays for, but some may with more
	first     bool      // only whether any qualifies is asked
	qualifies bool      // some row qualifies, though perhaps none can be shown
}

// unpriced reports whether the card falls out for want of a price.
func (s *search) unpriced() bool { return s.q.cheapest() && s.card.Price == 0 }

// begin searches the card, or under a load lists the deployments that may qualify.
func (s *search) begin(ctx context.Context) {
	switch _, err := engine.SchedulerOf(s.card.Machine.Engine.Profile().Engine(), s.card.GPU); {
	case s.q.tooLong(s.card.Model) != "":
		s.miss.Reason = s.q.tooLong(s.card.Model)
	case s.unpriced():
		s.miss.Reason = fmt.Sprintf("no price of it is known: give one, as --price %s=1.50", s.card.GPU.Key)
	case len(s.card.Formats) == 0:
		s.miss.Reason = "it has no unit for any format that is allowed"
	case err == nil && s.q.Load.Given():
		s.candidates(ctx)
	case !s.q.fixed():
		s.miss.Reason = "its batches start together, so that all of their sequences have one length: give fixed ones"
	default:
		s.batches(ctx)
	}
}

// batches searches deployments whose batches start together.
func (s *search) batches(ctx context.Context) {
	for _, f := range s.card.Formats {
		for _, split := range s.splits {
			if ctx.Err() != nil {
				return
			}
			s.split(f, split)
		}
	}
}

// split searches the batches of one split. The estimates are of one replica, or of as many
// as share the experts; more replicas change neither times nor what a GPU does.
func (s *search) split(f Formats, split Split) {
	unit := s.unit(f, split)
	if unit.GPUs > s.q.MaxGPUs {
		return
	}
	for _, parts := range microBatches(split) {
		r := unit
		r.MicroBatches = parts
		p, err := s.prepare(&r)
		if err != nil {
			s.missed(Miss{err.Error(), infinite, nil})
			continue
		}
		for _, batch := range s.q.Batches {
			if batch%parts != 0 || r.Batch > 0 && s.leastOf(&r, batch) > s.limit {
				continue
			}
			r.Batch = batch
			if larger := s.batch(p, &r, unit.DP); !larger {
				break
			}
		}
	}
}

// unit is the row of one replica, or of as many as share experts.
func (s *search) unit(f Formats, split Split) Row {
	r := Row{Card: s.card, Formats: f, Split: split, DP: split.sharing(), MicroBatches: 1}
	r.GPUs = split.TP * split.PP * r.DP
	return r
}

// microBatches are the numbers of parts in which a batch goes through a pipeline.
func microBatches(s Split) []int {
	if s.PP == 1 {
		return []int{1}
	}
	return []int{1, s.PP}
}

// prepare prepares the estimates of a deployment.
func (s *search) prepare(r *Row) (*analytic.Predictor, error) {
	c, err := s.caseOf(r)
	if err != nil {
		return nil, err
	}
	return analytic.NewPredictor(c)
}

// caseOf is the case of a deployment.
func (s *search) caseOf(r *Row) (*analytic.Case, error) {
	c, m := &analytic.Case{Price: s.card.Price, Machine: s.card.Machine, Encoders: s.card.Encoders}, s.card.Machine
	var err error
	if c.Model, c.Scheme, err = r.Formats.of(s.card.Model, m.GPU); err != nil {
		return nil, err
	}
	r.Scheme = c.Scheme.Name
	if err := engine.Runs(m.Engine, s.card.Model, m.GPU, &c.Scheme); err != nil {
		return nil, err
	}
	c.Parallel = r.parallel()
	c.Settings = operator.Settings{Sequences: r.Limit, Drafts: r.Drafts, OwnDrafts: r.Drafts > 0 && s.card.Model.Drafts > 0}
	if err := engine.Splits(m.Engine, s.card.Model, &c.Scheme, &c.Parallel); err != nil {
		return nil, err
	}
	return c, nil
}

// tooLarge remembers that a row does not fit, where that may be for want of GPUs with how many are allowed.
func (s *search) tooLarge(r *Row, m *analytic.Memory) {
	if by := unfit * float64(m.Total/m.Usable); by <= s.miss.By {
		on := ""
		if s.q.MaxGPUs < DefaultGPUs {
			on = fmt.Sprintf(" on at most %d GPUs", s.q.MaxGPUs)
		}
		s.missed(Miss{fmt.Sprintf("does not fit%s: %s needs %v of the %v that the engine may take of a GPU", on, r, m.Total, m.Usable), by, nil})
	}
}

// batch estimates one batch, and reports whether a larger one may qualify. A larger batch
// shortens no step and takes more memory.
func (s *search) batch(p *analytic.Predictor, r *Row, unitDP int) (larger bool) {
	e, err := p.Fitting(s.q.workload(r.Batch))
	s.searched++
	if err != nil {
		s.missed(Miss{err.Error(), infinite, nil})
		return false
	}
	if r.DP, r.GPUs = unitDP, e.GPUs; !e.Memory.Fits() {
		s.tooLarge(r, &e.Memory)
		return false
	}
	r.fill(s.q, &e)
	s.scale(r, &e, unitDP)
	if s.falls(r) {
		return !s.q.late(r)
	}
	if s.rows = append(s.rows, *r); len(s.rows) > 64+2*s.pruned {
		s.prune()
	}
	return true
}

// workload is a batch of requests of mean lengths.
func (q *Request) workload(batch int) *analytic.Workload {
	prompt, gen := q.tokens()
	return &analytic.Workload{Batch: batch, PromptLen: prompt, GenLen: gen}
}

// end is the end of an interval that is asked for.
func (q *Request) end(s analytic.Span) unit.Seconds {
	if q.Expected {
		return s.Expected
	}
	return s.High
}

// fill takes the figures of the estimate of one unit of replicas, at the end of the
// interval that is asked for.
func (r *Row) fill(q *Request, e *analytic.Estimate) {
	r.Estimate = Spans{e.TTFT, e.TPOT, e.TTLT}
	r.TTFT, r.TPOT, r.E2E = q.end(e.TTFT), q.end(e.TPOT), q.end(e.TTLT)
	slower := float64(r.E2E / e.TTLT.Expected)
	r.Throughput = e.Throughput / slower
	r.JToken = e.Energy.PerRequest.Times(1 / q.Gen.MeanLength())
	r.PerMillion = unit.Dollars(float64(e.Money.PerMillionGenerated) * slower)
}

// scale chooses how many units of replicas there are: as few as the load takes, or as many
// as are allowed where throughput is the objective.
func (s *search) scale(r *Row, e *analytic.Estimate, unitDP int) {
	units := s.q.units(r, unitDP)
	if s.q.By == Throughput && s.bounded {
		units = max(units, s.q.affordable(r, e.GPUs))
	}
	r.DP = units * unitDP
	r.GPUs = units * e.GPUs
	r.Throughput *= float64(units)
	r.PerHour = unit.Dollars(float64(r.Card.Price) * float64(r.GPUs))
}

// units is how many units of replicas the load takes.
func (q *Request) units(r *Row, unitDP int) int {
	var need float64
	switch {
	case q.Load.Rate > 0:
		need = q.Load.Rate * q.Gen.MeanLength() / r.Throughput
	case q.Load.Throughput > 0:
		need = q.Load.Throughput / r.Throughput
	case q.Load.Concurrency > 0:
		need = float64(q.Load.Concurrency) / float64(r.Batch*unitDP)
	}
	units := int(min(need, 1<<30))
	if float64(units) < need {
		units++
	}
	return max(units, 1)
}

// affordable is how many units of so many GPUs are allowed.
func (q *Request) affordable(r *Row, gpus int) int {
	most := q.MaxGPUs / gpus
	if q.Budget > 0 && r.Card.Price > 0 {
		most = min(most, int(float64(q.Budget)/(float64(r.Card.Price)*float64(gpus))))
	}
	return most
}
