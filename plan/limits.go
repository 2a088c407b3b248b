package plan

import "llmprof/analytic/engine"

// limited are the deployments with other limits of sequences than the scheduler's. Fewer sequences make steps shorter, and are tried
// where the time per token is all that is missed. More are tried where the memory has room for them, and the scheduler's limit
// is near or the deployment does not qualify. The row is the deployment with the scheduler's limit and the fewest
// replicas with which it qualifies; where it does not, with the most that are allowed. Where no limits are tried, as for clients that wait
// for their answers, its state with one unit fewer, which takes a simulation of its own, decides nothing.
func (s *search) limited(c *config, r Row, ok bool, found incumbent) (rows []Row) {
	if len(s.q.Limits) == 0 {
		return nil
	}
	short := r // with the most replicas that are too few
	if units := r.GPUs / c.GPUs; ok {
		if short = (Row{}); units > c.least && s.q.By != Latency {
			short, _ = s.steady(c, units-1)
		}
		if s.fewestGPUs() {
			found.gpus = min(found.gpus, float64(r.GPUs-c.GPUs)) // at the same price the simpler deployment goes first
		}
	}
	fewer := s.q.Targets.TPOT > 0 && s.q.decodesLate(&short)
	more := s.roomy(c) && (!ok || 2*r.Running > float64(c.Batch*r.DP))
	for _, n := range s.q.Limits {
		if n == c.Batch || n < c.Batch && !fewer || n > c.Batch && !more {
			continue
		}
		other := s.limiting(c, n)
		if r, good := s.serve(other, found); good {
			rows, found = append(rows, r), found.with(s, &r)
		}
	}
	return rows
}

// roomy reports whether the memory has room for more sequences than the scheduler runs.
func (s *search) roomy(c *config) bool {
	if c.server.Scheduler.Admission == engine.ForSlot {
		return true // whose slots share all of it
	}
	w := wave{q: s.q}
	return float64(c.server.Tokens()) > w.context()*float64(c.Batch)
}

// limiting is the deployment with another limit of sequences.
func (s *search) limiting(c *config, n int) *config {
	other := *c
	other.Limit, other.Batch, other.server.Scheduler.MaxSeqs = n, n, n
	other.steadies, other.waves = nil, nil
	if s.q.Load.Concurrency == 0 && s.q.prepare(c) == nil {
		other.steadies, _ = c.steadies.With(other.server.Scheduler)
	}
	return &other
}
