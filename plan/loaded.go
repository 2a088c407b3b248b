package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/serving"
	"llmprof/unit"
)

// A config is a deployment whose number of replicas is still open: a unit of replicas that
// share their experts, or one replica.
type config struct {
	Row
	units  *analytic.Prepared
	server serving.Server // of one unit
	slower float64        // by how much longer than expected everything takes at the end that is asked for
	single Spans          // of a request alone
	least  int            // units that the load takes at least
}

// loaded searches deployments under a load, in which requests come and go: steps are those
// of continuous batching, and times the steady state's of package serving. It takes the
// deployments by what they cost at least, so that those that cannot be better than the best
// one found need no steady state.
func (s *search) loaded(ctx context.Context) {
	var open []config
	for _, f := range s.card.Formats {
		for _, split := range s.q.Splits {
			open = append(open, s.configs(f, split)...)
		}
	}
	bound := func(c *config) float64 { return float64(c.least * c.GPUs) }
	slices.SortStableFunc(open, func(a, b config) int { return cmp.Compare(bound(&a), bound(&b)) })
	best := math.Inf(1)
	for i := range open {
		c := &open[i]
		if ctx.Err() != nil {
			return
		}
		if s.q.By == Cost && bound(c) > best {
			break // a GPU costs the same in all of them
		}
		if r, ok := s.serve(c, best); ok {
			best = min(best, float64(r.GPUs))
			s.rows = append(s.rows, r)
		}
	}
}

// configs are the deployments of a split that may qualify.
func (s *search) configs(f Formats, split Split) (all []config) {
	unitDP := max(split.EP/split.TP, 1)
	if split.TP*split.PP*unitDP > s.q.MaxGPUs {
		return nil
	}
	for _, parts := range microBatches(split) {
		c := config{Row: Row{Card: s.card, Formats: f, Split: split, DP: unitDP, MicroBatches: parts, GPUs: split.TP * split.PP * unitDP}}
		if err := s.screen(&c); err != "" {
			continue
		}
		all = append(all, c)
	}
	return all
}

// screen prepares a deployment, and leaves it out if a request that is alone on it is too
// slow already. What it says is why.
func (s *search) screen(c *config) (why string) {
	var err error
	if c.units, err = s.prepare(&c.Row); err != nil {
		s.missed(Miss{err.Error(), infinite, nil})
		return err.Error()
	}
	e, err := c.units.Predict(&analytic.Workload{Batch: c.MicroBatches, Prompt: s.q.Prompt, Gen: s.q.Gen})
	s.searched++
	if err != nil {
		s.missed(Miss{err.Error(), infinite, nil})
		return err.Error()
	}
	c.Batch = 1
	if m := &e.Memory; !m.Fits() {
		why = fmt.Sprintf("does not fit: %s needs %v of the %v of a GPU", c.String(), m.Total, m.Capacity)
		s.missed(Miss{why, 1e6 * float64(m.Total/m.Capacity), nil})
		return why
	}
	server, err := s.q.server(s.card, c.units, c.DP)
	if err != nil {
		s.missed(Miss{err.Error(), infinite, nil})
		return err.Error()
	}
	c.server, c.Batch = *server, server.Scheduler.MaxSeqs
	c.slower = 1
	if !s.q.Expected {
		c.slower = float64(e.TTFT.High / e.TTFT.Expected)
		if e.TPOT.Expected > 0 {
			c.slower = max(c.slower, float64(e.TPOT.High/e.TPOT.Expected))
		}
	}
	c.single, c.least = Spans{e.TTFT, e.TPOT, e.TTLT}, 1
	if parts := c.MicroBatches; parts == 1 {
		alone := c.Row
		alone.fill(s.q, &e)
		alone.PerHour = unit.Dollars(float64(s.card.Price) * float64(alone.GPUs))
		if miss := s.q.misses(&alone); miss.Reason != "" {
			miss.Row = &alone
			s.missed(miss)
			return miss.Reason
		}
	}
	return s.atLeast(c)
}

// atLeast bounds from below how many units the load takes: no more requests a second are
// answered than by a batch, started together, of as many sequences as the memory has room for.
func (s *search) atLeast(c *config) (why string) {
	rate := s.q.rate()
	if rate == 0 {
		return ""
	}
	var most float64
	for _, batch := range append([]int{c.MicroBatches}, s.q.Batches...) {
		if batch%c.MicroBatches != 0 {
			continue
		}
		e, err := c.units.Predict(&analytic.Workload{Batch: batch, Prompt: s.q.Prompt, Gen: s.q.Gen})
		s.searched++
		if err != nil {
			break
		}
		// Sequences come and go: they hold less cache than a batch at its longest.
		most = max(most, 1.25*float64(batch*c.DP)/float64(e.TTLT.Expected))
		if s.q.Targets.TPOT > 0 && e.TPOT.Expected.Times(c.slower) > s.q.Targets.TPOT || batch > 2*e.Memory.MaxBatch {
			break
		}
	}
	c.least = max(int(math.Ceil(rate*c.slower/most)), 1)
	if c.least*c.GPUs > s.q.MaxGPUs {
		return s.tooMany(c, c.least)
	}
	if s.q.Budget > 0 && float64(s.card.Price)*float64(c.least*c.GPUs) > float64(s.q.Budget) {
		return s.tooMany(c, c.least)
	}
	return ""
}

// tooMany remembers that the load takes more units than are allowed.
func (s *search) tooMany(c *config, units int) string {
	r := c.Row
	s.sized(&r, units)
	r.TTFT, r.TPOT, r.E2E = c.single.TTFT.Expected.Times(c.slower), c.single.TPOT.Expected.Times(c.slower), c.single.E2E.Expected.Times(c.slower)
	miss := s.q.misses(&r)
	miss.Row = &r
	s.missed(miss)
	return miss.Reason
}

// sized makes a row one of so many units.
func (s *search) sized(r *Row, units int) {
	r.DP, r.GPUs = r.DP*units, r.GPUs*units
	r.PerHour = unit.Dollars(float64(s.card.Price) * float64(r.GPUs))
}

// rate is the requests a second that come; 0 where clients wait for their answers.
func (q *Request) rate() float64 {
	if q.Load.Throughput > 0 {
		return q.Load.Throughput / float64(q.Gen)
	}
	return q.Load.Rate
}

// serve finds the fewest units with which the deployment qualifies, unless they are more
// GPUs than the best one has. More units of the same never make anything slower.
func (s *search) serve(c *config, best float64) (r Row, ok bool) {
	most := s.q.MaxGPUs / c.GPUs
	if s.q.Budget > 0 && s.card.Price > 0 {
		most = min(most, int(float64(s.q.Budget)/(float64(s.card.Price)*float64(c.GPUs))))
	}
	if s.q.By == Cost && !math.IsInf(best, 1) {
		most = min(most, int(best)/c.GPUs)
	}
	if most < c.least {
		return r, false
	}
	first, last := c.least, most
	if s.q.By == Latency || s.q.By == Throughput && s.bounded {
		first = most // more units have shorter queues
	}
	for step := 1; first <= last; step *= 2 {
		units := min(first+step-1, last)
		if r, ok = s.steady(c, units); ok {
			return s.fewest(c, r, max(first, units-step/2), units), true
		}
		if units == last {
			break
		}
	}
	return r, false
}

// fewest halves the interval between too few units and enough.
func (s *search) fewest(c *config, enough Row, low, high int) Row {
	for low < high {
		middle := (low + high) / 2
		if r, ok := s.steady(c, middle); ok {
			enough, high = r, middle
		} else {
			low = middle + 1
		}
	}
	return enough
}

// steady is the deployment with so many units, and whether it qualifies. A server whose
// steps all take x times as long does at a rate what it would do at x times the rate, only x
// times as slowly.
func (s *search) steady(c *config, units int) (r Row, ok bool) {
	r = c.Row
	s.sized(&r, units)
	server := c.server
	server.Replicas = r.DP
	expected, err := s.state(&server, 1)
	slow := expected
	if err == nil && c.slower > 1 {
		slow, err = s.state(&server, c.slower)
	}
	s.searched++
	if err != nil {
		s.missed(Miss{fmt.Sprintf("nearest is %s: %v", r.String(), err), 1e3, nil})
		return r, false
	}
	span := func(alone analytic.Span, mean, high unit.Seconds) analytic.Span {
		return analytic.Span{Floor: alone.Floor, Expected: mean, Low: mean.Times(float64(alone.Low / max(alone.Expected, 1e-12))), High: high.Times(c.slower)}
	}
	r.Estimate = Spans{
		span(c.single.TTFT, expected.TTFT, slow.TTFT), span(c.single.TPOT, expected.TPOT, slow.TPOT), span(c.single.E2E, expected.E2E, slow.E2E),
	}
	r.TTFT, r.TPOT, r.E2E = slow.TTFT.Times(c.slower), slow.TPOT.Times(c.slower), slow.E2E.Times(c.slower)
	r.Throughput = slow.Rate / c.slower * float64(s.q.Gen)
	r.slower, r.alone = c.slower, c.single
	r.Running, r.Utilization = slow.Running, slow.Utilization
	r.JToken = slow.Energy.Times(1 / float64(s.q.Gen))
	r.PerMillion = unit.Dollars(float64(r.PerHour) / 3600 / r.Throughput * 1e6)
	miss := s.q.misses(&r)
	if miss.Reason != "" {
		miss.Row = &r
		s.missed(miss)
	}
	return r, miss.Reason == ""
}

// state is the steady state where everything takes x times as long, in units of time x
// times as long.
func (s *search) state(server *serving.Server, x float64) (*serving.Steady, error) {
	prompt, gen := serving.Fixed(s.q.Prompt), serving.Fixed(s.q.Gen)
	if n := s.q.Load.Concurrency; n > 0 {
		return server.SteadyConcurrency(n, prompt, gen)
	}
	return server.SteadyRate(s.q.rate()*x, prompt, gen)
}
