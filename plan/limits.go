package plan

import (
	"llmprof/analytic/engine"
	"llmprof/serving"
)

// limited are the deployments with other limits of sequences than the scheduler's. A replica answers no more tokens a second of fewer
// sequences at once, and a token takes no less energy. With a lower limit requests thus wait for longer than they decode for less: of all
// figures it betters the time per token alone. It is tried where nothing else is missed by as many replicas as are too few. A higher
// limit changes what a replica does while the limit is reached, and nothing else.
func (s *search) limited(c *config, least float64) (rows []Row) {
	if s.mostUnits(c, least) < c.least {
		return nil
	}
	short := s.short(c, least)
	fewer, more := s.q.onlyDecodesLate(&short), s.roomy(c)
	if c.ok && !s.fewestGPUs() {
		more = more && s.reached(c, &c.found)
	} else {
		more = more && s.reached(c, &short)
	}
	for _, n := range s.q.Limits {
		if n == c.Batch || n < c.Batch && !fewer || n > c.Batch && !more {
			continue
		}
		if r, good := s.serve(s.limiting(c, n, least), least); good {
			rows, least = append(rows, r), min(least, s.figure(&r))
		}
	}
	return rows
}

// short is the deployment with the scheduler's limit and the most units that are too few, or more than are allowed; an empty row where none are.
func (s *search) short(c *config, least float64) Row {
	units, most := c.found.GPUs/c.GPUs, s.mostUnits(c, least)
	if !c.ok && units <= most {
		return c.found
	}
	if c.ok {
		units--
	}
	if units = min(units, most); units < c.least || s.q.By == Latency {
		return Row{}
	}
	r, _ := s.steady(c, units)
	return r
}

// onlyDecodesLate reports whether a row has a steady state that misses the time per token, and nothing else.
func (q *Request) onlyDecodesLate(r *Row) bool {
	t := &q.Targets
	return r.TTFT > 0 && t.TPOT > 0 && r.TPOT > t.TPOT && !(t.TTFT > 0 && r.TTFT > t.TTFT) && !(t.E2E > 0 && r.E2E > t.E2E)
}

// reached reports whether replicas have as many sequences as their limit at times: those that come at random are seldom more than
// twice their mean and a few. Where the row has no steady state, it says whether the limit is why.
func (s *search) reached(c *config, r *Row) bool {
	switch {
	case s.q.rate() == 0:
		return s.q.Load.Concurrency > c.Batch*max(r.DP, 1)
	case r.Running > 0:
		return 2*r.Running+8*float64(r.DP) > float64(c.Batch*r.DP)
	case s.q.prepare(c) != nil:
		return false // nor has it with a higher limit
	}
	idle, err := c.steadies.Rate(1e-6, serving.Layout{Replicas: 1})
	return err == nil && idle.Capacity.Running >= c.Batch && idle.Capacity.Bound != "prefill" && idle.Capacity.Bound != "API server"
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
func (s *search) limiting(c *config, n int, least float64) *config {
	other := *c
	other.Limit, other.Batch, other.server.Scheduler.MaxSeqs = n, n, n
	other.steadies, other.waves = nil, [2]map[int]*serving.Steady{}
	if s.q.rate() > 0 {
		other.least = max(c.least, c.bounds().units(s, c, float64(n)))
	}
	if s.q.rate() > 0 && other.least <= s.mostUnits(c, least) && s.q.prepare(c) == nil {
		other.steadies, _ = c.steadies.WithLimit(n)
	}
	return &other
}
