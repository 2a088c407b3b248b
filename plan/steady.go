package plan

import (
	"math"

	"llmprof/deployment"
	"llmprof/serving"
	"llmprof/unit"
)

// layout is the replicas of a row.
func (r *Row) layout() serving.Layout {
	return serving.Layout{Replicas: r.DP, Prefillers: r.Prefill, Link: deployment.Handover(r.Card.GPU, r.GPUs)}
}

// state is the steady state of a row where everything takes x times as long as expected.
func (q *Request) state(c *config, r *Row, x float64) (*serving.Steady, error) {
	if q.Load.Concurrency > 0 {
		st, err := q.closed(c, r.DP)
		if err != nil {
			return nil, err
		}
		return deployment.Stretched(st, x), nil
	}
	if err := q.prepare(c); err != nil {
		return nil, err
	}
	st, err := c.steadies.Rate(q.rate()*x, r.layout())
	if err != nil {
		return nil, err
	}
	return deployment.Stretched(st, x), nil
}

// closed is the steady state of clients that wait for their answers, which is simulated once.
func (q *Request) closed(c *config, replicas int) (*serving.Steady, error) {
	if st := c.waves[replicas]; st != nil {
		return st, nil
	}
	if err := q.prepare(c); err != nil {
		return nil, err
	}
	st, err := c.steadies.Clients(q.Load.Concurrency, serving.Layout{Replicas: replicas})
	if err != nil {
		return nil, err
	}
	if c.waves == nil {
		c.waves = map[int]*serving.Steady{}
	}
	c.waves[replicas] = st
	return st, nil
}

// prepare prepares the steady states of a deployment at any rate. Those of other steps share the costs that are known.
func (q *Request) prepare(c *config) (err error) {
	if c.steadies == nil {
		if c.steadies, err = c.server.Steadies(q.ctx, q.Prompt, q.Gen); err == nil {
			c.steadies.Within(q.events[c.Card])
		}
	}
	return err
}

// hopeless reports whether a request that is alone is too slow already.
func (s *search) hopeless(c *config) bool {
	if err := s.q.prepare(c); err != nil {
		s.missed(Miss{err.Error(), infinite, nil})
		return true
	}
	if s.q.Targets == (Targets{}) {
		return false // nothing is too slow
	}
	st := c.steadies.Idle()
	r := c.Row
	r.TTFT, r.TPOT, r.E2E = st.TTFT.Times(c.slower), st.TPOT.Times(c.slower), st.E2E.Times(c.slower)
	return s.q.late(&r)
}

// prefillUnits are the numbers of units that only prefill that are tried.
var prefillUnits = []int{1, 2, 3, 4, 6, 8, 12, 16, 24, 32}

// apart finds the fewest units of which some only prefill and the others decode.
func (s *search) apart(c *config, found incumbent) (r Row, ok bool) {
	most := s.paidUnits(c, s.mostUnits(c, found))
	for _, prefill := range prefillUnits {
		if prefill >= most || s.fewestGPUs() && ok && (prefill+1)*c.GPUs > r.GPUs {
			break
		}
		if s.q.By == Latency && c.Drafts == 0 && float64(c.wave.apart(s, c, prefill))*c.slower > found.figure {
			break // with more that prefill fewer decode
		}
		first, last := max(c.least-prefill, 1), most-prefill
		if s.q.By == Latency {
			first = last
		}
		if s.fewestGPUs() && ok {
			last = min(last, r.GPUs/c.GPUs-prefill)
		}
		if last > 0 && s.outdone(s.leastOpenMiss(c, last)) {
			break // with more that prefill fewer decode
		}
		other, good := s.decoders(c, prefill, first, last)
		if !good && s.q.decodesLate(&other) {
			break // with more that prefill fewer decode
		}
		if !good {
			continue
		}
		if s.expectBest(c, &other, found.figure); !ok || s.q.compare(&other, &r) < 0 {
			r, ok = other, true
		}
	}
	return r, ok
}

// decodesLate reports whether a row misses its targets for its decodes alone.
func (q *Request) decodesLate(r *Row) bool {
	t := &q.Targets
	return r.TTFT > 0 && t.E2E == 0 && (t.TTFT == 0 || r.TTFT <= t.TTFT)
}

// decoders finds the fewest units that decode beside some that prefill. More of them make
// nothing slower but where they no longer fit one node.
func (s *search) decoders(c *config, prefill, first, last int) (r Row, ok bool) {
	try := func(units int) (Row, bool) {
		r := c.Row
		s.sized(&r, units)
		r.Prefill, r.GPUs = c.DP*prefill, r.GPUs+c.GPUs*prefill
		r.PerHour = unit.Dollars(float64(s.card.Price) * float64(r.GPUs))
		return s.settled(c, r)
	}
	near := min(max(s.card.GPU.GPUsPerNode/c.GPUs-prefill, 0), last)
	for _, span := range [2][2]int{{first, near}, {max(first, near+1), last}} {
		low, high := span[0], span[1]
		if low > high {
			continue
		}
		if r, ok = try(high); !ok {
			continue
		}
		for low < high {
			middle := (low + high) / 2
			if fewer, good := try(middle); good {
				r, high = fewer, middle
			} else {
				low = middle + 1
			}
		}
		return r, true
	}
	return r, false
}

// mostUnits is how many units are allowed where one more row has to be no worse than the incumbent.
func (s *search) mostUnits(c *config, found incumbent) int {
	most := s.q.MaxGPUs / c.GPUs
	if s.q.Budget > 0 && s.card.Price > 0 {
		most = min(most, int(float64(s.q.Budget)/(float64(s.card.Price)*float64(c.GPUs))))
	}
	if s.fewestGPUs() && found.gpus < float64(1<<30) {
		most = min(most, int(found.gpus)/c.GPUs)
	}
	if s.q.By == Energy && c.idle > 0 && c.energy(most) > found.figure {
		most = int((found.figure - c.work) / c.idle) // fewer, since so many take more than the least
	}
	return most
}

// paidGPUs is how many GPUs the price of the last row shown pays for: a row that costs more is not shown, and no better than one that is.
func (s *search) paidGPUs() float64 {
	if math.IsInf(s.limit, 1) || !s.q.cheapest() {
		return infinite
	}
	return math.Floor(s.limit * (1 + 1e-9) / float64(s.card.Price))
}

// paidUnits is how many of the most units that price pays for.
func (s *search) paidUnits(c *config, most int) int {
	if pays := s.paidGPUs() / float64(c.GPUs); pays < float64(most) {
		s.cut, most = true, int(pays)
	}
	return most
}
