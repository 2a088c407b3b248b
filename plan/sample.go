package plan

import (
	"context"
	"sort"
)

// Batches that start together are left out where they would rank behind the last row that is shown, by the time of a smaller batch: a
// larger one shortens no step. Such rows are no better than those that are shown in all of price, TTFT and TPOT either. How far the last
// row shown is at most, a sample says.

// samples reports whether a sample saves estimates.
func (q *Request) samples() bool {
	return q.Top > 0 && !q.Load.Given() && (q.cheapest() || q.By == Latency)
}

// lessOfLarger is how many times as long a larger batch takes at least. In random cases none takes less time than a smaller one
// (TestLargerBatches).
const lessOfLarger = 0.999

// leastOf bounds what a larger batch than that of a row ranks by, where the search has a limit: by cost or latency.
func (s *search) leastOf(r *Row, batch int) float64 {
	if s.q.By == Latency {
		return lessOfLarger * float64(r.E2E)
	}
	return lessOfLarger * float64(r.PerMillion) * float64(r.Batch) / float64(batch)
}

// sample finds a row of each split without a pipeline: that of the largest batch which qualifies, or by latency the smallest.
func (s *search) sample(ctx context.Context) {
	if s.unpriced() || s.q.tooLong(s.card.Model) != "" {
		return
	}
	for _, f := range s.card.Formats {
		for _, split := range s.splits {
			if r := s.unit(f, split); ctx.Err() == nil && split.PP == 1 && r.GPUs <= s.q.MaxGPUs {
				s.sampleOf(&r)
			}
		}
	}
	s.prune()
	s.found, s.rows, s.miss = s.rows, nil, noMiss()
}

// sampleOf adds that row of a deployment, if any batch of it qualifies.
func (s *search) sampleOf(r *Row) {
	p, err := s.prepare(r)
	if err != nil {
		return
	}
	rows, unitDP := len(s.rows), r.DP
	try := func(batch int) bool {
		r.Batch = batch
		return s.batch(p, r, unitDP)
	}
	all := s.q.Batches
	if s.q.By == Latency {
		try(all[0])
		return
	}
	sort.Search(len(all), func(i int) bool { return !try(all[i]) })
	if n := len(s.rows); n > rows { // the largest of those that qualify was the last
		s.rows = append(s.rows[:rows], s.rows[n-1])
	}
}
