//go:build !js

package plan

import (
	"context"
	"slices"

	"llmprof/internal/concurrent"
	"llmprof/unit"
)

// undercut looks for a deployment that costs less than the first row among all that may by the closed form, with all settings, and reports
// whether one ranks first now.
func (h *cardSearch) undercut(ctx context.Context) bool {
	rows := h.rows()
	if len(rows) == 0 || h.q.By != Cost || h.q.rate() == 0 {
		return false
	}
	first := &rows[0]
	if own := first.own(); own.fewer(ctx, h.q) {
		return true
	}
	concurrent.Each(len(h.cards), func(i int) { h.cards[i].undercut(ctx, first.PerHour) })
	return h.q.compare(&h.rows()[0], first) < 0
}

// fewer looks for the fewest units of a row between those that it has and those with which simulations refused its split, and reports
// whether it holds with fewer: figures that were learned from simulations of one number of units are too long for another.
func (r *Row) fewer(ctx context.Context, q *Request) bool {
	low, high := 0, r.setting.units
	for _, c := range r.search.open {
		for key, other := range c.tried {
			if c.Split == r.Split && other.simulated() && !other.meets && key.units < high {
				low = max(low, key.units)
			}
		}
	}
	if low == 0 {
		return false
	}
	for low+1 < high && ctx.Err() == nil {
		middle := (low + high) / 2
		one := r.search.qualifies(ctx, r.from, r.setting.variant, middle)
		if one.meets = false; one.Utilization > 0 {
			one.confirm(ctx, q)
		}
		if one.meets {
			high = middle
		} else {
			low = middle
		}
	}
	r.search.refused = false
	if high == r.setting.units || !r.search.add(ctx, r.from, r.from.tried[setting{r.setting.variant, high}]) {
		return false
	}
	r.search.rows = slices.DeleteFunc(r.search.rows, func(x *Row) bool { return x == r })
	return true
}

// undercut looks for a deployment of the card that costs less than a price.
func (s *search) undercut(ctx context.Context, price unit.Dollars) {
	if len(s.open) == 0 || !s.continuous() || s.searches == mostAgain {
		return
	}
	s.below = price
	for _, c := range s.open {
		if ctx.Err() == nil && c.missed <= c.hopeful() && c.likely <= beyondOf(float64(price)) && s.saving(c) > 0 {
			s.keep(ctx, c, variant{}, s.saving(c))
			s.variants(ctx, c)
			c.release()
		}
	}
	s.below = 0
	slices.SortFunc(s.rows, s.q.compare)
}
