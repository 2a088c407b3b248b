package plan

import (
	"cmp"
	"context"
	"math"
	"runtime"
	"slices"
	"sync"

	"llmprof/internal/concurrent"
	"llmprof/unit"
)

// A hunt searches the cards of a request in the order of the least that their rows can rank by, until no row of
// those left can be shown.
type hunt struct {
	q       *Request
	found   []search
	done    int
	reports sync.Mutex
}

// together is how many cards are searched at the same time at most. It is fixed, so that no number of processors changes
// which are searched.
const together = 4

// run finds out whether anything of a card qualifies, and searches those cards to the end of which a row may be shown, or be better than a
// row of the Pareto set that is shown.
func (h *hunt) run(ctx context.Context) {
	var left []*search
	all := h.every()
	h.sample(ctx)
	concurrent.Each(len(all), func(i int) {
		s := all[i]
		s.begin(ctx)
		if h.q.Top > 0 && len(s.open) > 0 {
			if h.q.rate() > 0 { // Clients that wait for their answers are simulated, and a probe of them saves less than it takes.
				s.probe(ctx)
			}
			if len(s.open) == 0 {
				h.progress()
			}
			return
		}
		s.loaded(ctx, false)
		s.prune()
		h.progress()
	})
	if h.q.Top == 0 {
		return
	}
	for _, s := range all {
		if len(s.open) > 0 {
			left = append(left, s)
		} else {
			s.found = slices.Clone(s.rows)
		}
	}
	slices.SortStableFunc(left, func(a, b *search) int {
		return cmp.Or(a.likelyBest().compare(b.likelyBest()), a.atBest().compare(b.atBest()))
	})
	h.search(ctx, left, func(s *search) bool {
		limit := h.limit()
		s.within(limit)
		return s.atBest().compare(limit) <= 0
	})
	left = slices.DeleteFunc(left, func(s *search) bool { // some were searched up to the limit
		s.limit, s.found = math.Inf(1), slices.Clone(s.rows)
		return len(s.open) == 0
	})
	left = h.search(ctx, left, func(s *search) bool { return s.rivals(h.marked()) })
	concurrent.Each(len(left), func(i int) {
		if s := left[i]; !s.qualifies && len(s.rows) == 0 {
			s.probe(ctx)
		}
		h.progress()
	})
}

// sample gives each search the standing of the last row that would be shown of a sample: none that ranks behind it is shown.
func (h *hunt) sample(ctx context.Context) {
	if !h.q.samples() {
		return
	}
	concurrent.Each(len(h.found), func(i int) { h.found[i].sample(ctx) })
	limit := h.limit()
	for i := range h.found {
		h.found[i].within(limit)
		h.found[i].found = nil
	}
}

// within limits a search to rows that do not rank behind a standing.
func (s *search) within(limit standing) {
	if s.limit = limit.score; s.q.place(s.card) < limit.place {
		s.limit = math.Inf(1)
	}
}

// probe finds one row of the card, if any qualifies: the sooner as many are known as are shown, the less is searched.
func (s *search) probe(ctx context.Context) {
	s.loaded(ctx, true)
	s.qualifies = s.qualifies || len(s.rows) > 0
	s.found, s.rows = s.rows, nil
}

// search searches the cards that are wanted, and returns the others. Which are wanted follows from what was found on all
// cards before but the last ones, which may be searched meanwhile.
func (h *hunt) search(ctx context.Context, cards []*search, wanted func(*search) bool) (others []*search) {
	var running []func() // wait for the last cards, in their order
	free := make(chan bool, runtime.GOMAXPROCS(0))
	for _, s := range cards {
		if len(running) == together {
			running[0]()
			running = running[1:]
		}
		if !wanted(s) {
			others = append(others, s)
			continue
		}
		free <- true
		done := make(chan bool)
		go func() {
			s.loaded(ctx, false)
			s.prune()
			h.progress()
			<-free
			close(done)
		}()
		running = append(running, func() {
			<-done
			s.found = slices.Clone(s.rows)
		})
	}
	for _, wait := range running {
		wait()
	}
	return others
}

func (h *hunt) every() (all []*search) {
	for i := range h.found {
		all = append(all, &h.found[i])
	}
	return all
}

// progress reports that one card more is done.
func (h *hunt) progress() {
	h.reports.Lock()
	defer h.reports.Unlock()
	if h.done++; h.q.Progress != nil { // some are searched twice
		h.q.Progress(min(h.done, len(h.found)), len(h.found))
	}
}

// shown are the rows that would be shown of those found so far.
func (h *hunt) shown() (shown, ranked []Row) {
	for i := range h.found {
		for _, r := range h.found[i].found {
			r.order = len(ranked)
			ranked = append(ranked, r)
		}
	}
	h.q.markPareto(ranked)
	slices.SortFunc(ranked, func(a, b Row) int { return h.q.compare(&a, &b) })
	return Shown(ranked, h.q.Top, h.q.PerGPU), ranked
}

// A standing is what rows are ranked by first.
type standing struct {
	place int
	score float64
}

// last is behind all rows.
var last = standing{math.MaxInt, math.Inf(1)}

func (a standing) compare(b standing) int {
	return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(a.score, b.score))
}

func (q *Request) standing(r *Row) standing { return standing{q.place(r.Card), q.score(r)} }

// limit is the standing of the last row shown, or of the best row without replicas that only prefill where the best
// one has some; any row may be shown while there are fewer.
func (h *hunt) limit() standing {
	shown, ranked := h.shown()
	if len(shown) < h.q.Top {
		return last
	}
	limit := h.q.standing(&shown[len(shown)-1])
	if shown[0].Prefill == 0 {
		return limit
	}
	for i := range ranked {
		if ranked[i].Prefill > 0 {
			continue
		}
		if plain := h.q.standing(&ranked[i]); plain.compare(limit) > 0 {
			return plain
		}
		return limit
	}
	return last
}

// prune keeps of the rows of the card, where not all are wanted, those that can be shown, those that no other of the
// card is better than in price, TTFT and TPOT, and the best one without replicas that only prefill.
func (s *search) prune() {
	if s.q.Top == 0 {
		return
	}
	s.q.markPareto(s.rows)
	order := make([]*Row, len(s.rows))
	for i := range s.rows {
		s.rows[i].order = i
		order[i] = &s.rows[i]
	}
	slices.SortFunc(order, s.q.compare)
	most, plain := s.most(), false
	keep := make([]bool, len(s.rows))
	for i, r := range order {
		keep[r.order] = i < most || r.Pareto || r.Prefill == 0 && !plain
		plain = plain || r.Prefill == 0
	}
	kept := s.rows[:0]
	for i := range s.rows {
		if keep[i] {
			kept = append(kept, s.rows[i])
		}
	}
	s.rows, s.pruned = kept, len(kept)
}

// most is how many rows of the card are shown at most.
func (s *search) most() int {
	if s.q.PerGPU > 0 {
		return min(s.q.Top, s.q.PerGPU)
	}
	return s.q.Top
}

// marked are the rows shown that are in the Pareto set of what is found so far.
func (h *hunt) marked() []Row {
	shown, _ := h.shown()
	return slices.DeleteFunc(shown, func(r Row) bool { return !r.Pareto })
}

// atBest is the best standing that a row of the card can have.
func (s *search) atBest() standing { return standing{s.q.place(s.card), s.leastScore()} }

// likelyBest is about that standing, where deployments rank by price and more than the least is known of their units: the sooner
// rows are found that are shown, the less is searched of cards that come later.
func (s *search) likelyBest() standing {
	best := s.atBest()
	if s.q.cheapest() {
		best.score = max(best.score, float64(s.card.Price)*s.likely(s.open[0]))
	}
	return best
}

func (s *search) leastScore() float64 {
	switch {
	case s.q.By == Energy || s.q.By == Latency || s.q.By == Throughput && s.q.rate() == 0:
		return s.bound(s.open[0])
	case !s.q.cheapest():
		return -s.q.rate() * s.q.Gen.MeanLength() / s.bound(s.open[0]) * (1 + 1e-9)
	}
	gpus := s.bound(s.open[0])
	for _, c := range s.open { // they may stand in another order
		if c.bounded {
			gpus = min(gpus, s.bound(c))
		}
	}
	return float64(s.card.Price) * gpus
}

// margin is by how much the times of a steady state may be below those of an estimate of a request alone, whose steps
// are other ones.
const margin = 1.25

// rivals reports whether a row of the card may be no worse than one of the rows in price, TTFT and TPOT.
func (s *search) rivals(rows []Row) bool {
	if s.card.Price == 0 || s.cut { // whose rows all cost more
		return false
	}
	for i := 0; i < len(s.open); {
		switch c := s.open[i]; {
		case !s.rival(c, rows):
			i++
		case c.bounded:
			s.advance()
			return true
		default:
			s.sharpen(i)
		}
	}
	s.advance()
	return false
}

// rival reports whether a row of a deployment may be no worse than one of the rows.
func (s *search) rival(c *config, rows []Row) bool {
	price := unit.Dollars(float64(s.card.Price) * float64(c.least*c.GPUs))
	ttft := c.single.TTFT.Expected.Times(c.slower / margin)
	tpot := c.single.TPOT.Expected.Times(c.slower / margin / s.gain())
	return slices.ContainsFunc(rows, func(r Row) bool { return price <= r.PerHour && ttft <= r.TTFT && tpot <= r.TPOT })
}
