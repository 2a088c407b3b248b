package plan

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sort"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/deployment"
	"llmprof/serving"
	"llmprof/unit"
)

// A config is a deployment whose number of replicas is still open: a unit of replicas that
// share their experts, or one replica.
type config struct {
	Row
	server   serving.Server // of one unit, once it is ready
	steadies *serving.Steadies
	waves    map[int]*serving.Steady // of a closed loop, by the replicas
	slower   float64                 // by how much longer than expected everything takes at the end that is asked for
	single   Spans                   // of a request alone
	least    int                     // units that the load takes at least
	likely   int                     // and about, where that is known; else 0
	rate     float64                 // requests a second that a unit answers at most
	work     float64                 // joules that a token takes at least beyond what GPUs draw that wait
	idle     float64                 // joules that waiting GPUs of a unit take for each token; 0 where clients wait for answers
	latency  unit.Seconds            // that a request takes at least under the load, as expected
	mixed    unit.Seconds            // the same where no replicas only prefill; 0 where it is not known
	fits     int                     // sequences that the memory has room for
	wave     *wave                   // steps by which it is bounded
	place    int                     // in the list of all deployments
	whole    bool                    // it stands for all deployments of its split, of which no step was priced
	bounded  bool                    // by the load
}

// bound is what the search ranks by at its least: GPUs, seconds of a request, or joules of a
// token. At a rate throughput is the load, and ranks by the GPUs that it takes; of clients that wait for their answers it is
// that of a GPU.
func (s *search) bound(c *config) float64 {
	switch s.q.By {
	case Energy:
		return c.energy(c.least)
	case Throughput:
		if s.q.rate() == 0 {
			return -c.rate * s.q.Gen.MeanLength() / float64(c.GPUs)
		}
	case Latency:
		alone := c.single.TTFT.Expected + (c.single.E2E.Expected - c.single.TTFT.Expected).Times(1/s.gain())
		return float64(max(alone, c.latency)) * c.slower
	}
	return float64(c.least * c.GPUs)
}

// energy is what a token takes at least of so many units.
func (c *config) energy(units int) float64 { return c.work + c.idle*float64(units) }

// figure is what the search ranks a row by, in the unit of bound.
func (s *search) figure(r *Row) float64 {
	switch s.q.By {
	case Energy:
		return float64(r.JToken)
	case Latency:
		return float64(r.E2E)
	case Throughput:
		if s.q.rate() == 0 {
			return s.q.score(r)
		}
	}
	return float64(r.GPUs)
}

// fewestGPUs reports whether deployments rank by the GPUs that they take.
func (s *search) fewestGPUs() bool {
	return s.q.cheapest() || s.q.By == Throughput && s.q.rate() > 0
}

// candidates lists the deployments under a load, in which requests come and go: steps are those
// of continuous batching, and times the steady state's of package serving. They stand in the order of the
// least that they rank by, or of the GPUs that they likely take, where more than the least is known of these: the best one, found early,
// leaves the others fewer numbers of units to try.
func (s *search) candidates(ctx context.Context) {
	for _, f := range s.card.Formats {
		for _, split := range s.splits {
			if ctx.Err() == nil {
				s.list(f, split)
			}
		}
	}
	s.at, s.certain = math.MaxInt, s.miss
	s.open = slices.Clip(s.open)
	slices.SortFunc(s.open, s.before)
	s.advance()
}

// likely is the GPUs that a deployment takes at least, or likely, where it ranks by them; else its bound.
func (s *search) likely(c *config) float64 {
	if s.fewestGPUs() {
		return float64(max(c.least, c.likely) * c.GPUs)
	}
	return s.bound(c)
}

// An incumbent is what the rows of a card that were found so far rank by at the least.
type incumbent struct {
	figure      float64
	gpus, plain float64 // fewest GPUs of any row, and of a row without extras
}

// none is the incumbent where nothing was found.
var none = incumbent{infinite, infinite, infinite}

// with is the incumbent with one row more.
func (b incumbent) with(s *search, r *Row) incumbent {
	b.figure, b.gpus = min(b.figure, s.figure(r)), min(b.gpus, float64(r.GPUs))
	if r.extras() == 0 {
		b.plain = min(b.plain, float64(r.GPUs))
	}
	return b
}

// loaded works out the steady states of the deployments, until those left cannot be better than the
// best one found. With first it ends at the first that qualifies, which stays open with those after it. Deployments beyond the limit stay
// open too. All stay open where none within the limit qualifies and one beyond it may.
func (s *search) loaded(ctx context.Context, first bool) {
	ends, found := true, none
	s.first, s.cut = first, false
	defer func() { s.leave(ends) }()
	for i := range s.rows {
		found.figure = min(found.figure, s.figure(&s.rows[i]))
	}
	for ; len(s.open) > 0 && ctx.Err() == nil; s.next() {
		c := s.open[0]
		if s.bound(c) > min(found.figure, s.paidGPUs()) {
			s.cut = s.cut || s.bound(c) <= found.figure
			if s.lazy() {
				return
			}
			continue
		}
		if ends = s.fewestGPUs() || s.bound(c) <= s.limit; !ends {
			return
		}
		if err := s.ready(c); err != nil {
			continue // it was ready when it was screened
		}
		if first && s.sure(c) {
			s.qualifies, ends = true, false
			return
		}
		found = s.try(c, found)
		c.forget()
		if first && len(s.rows) > 0 {
			ends = false
			return
		}
	}
}

// try adds the rows of a deployment, with the settings that its server starts with and with others.
func (s *search) try(c *config, found incumbent) incumbent {
	keep := func(rows ...Row) {
		for i := range rows {
			found = found.with(s, &rows[i])
		}
		s.rows = append(s.rows, rows...)
	}
	r, ok := s.serve(c, found)
	if ok {
		keep(r)
	}
	if !ok || !s.first {
		keep(s.limited(c, r, ok, found)...)
		keep(s.extras(c, found)...)
	}
	return found
}

// leave opens the deployments again that a search passed which was cut; it leaves none open if it came to its end.
func (s *search) leave(ends bool) {
	switch s.cut = s.cut && len(s.rows) == 0 && !s.qualifies; {
	case s.cut:
		s.open, s.miss = append(s.passed, s.open...), s.certain
	case ends:
		s.open = nil
	}
	s.passed = nil
}

// forget frees what a deployment's steady states are worked out from.
func (c *config) forget() {
	c.wave.forget()
	c.steadies, c.server = nil, serving.Server{}
}

// sure reports whether a deployment qualifies whatever its times are: clients that wait for their answers need no more
// than a server that runs, unless there are targets.
func (s *search) sure(c *config) bool {
	return s.q.Load.Concurrency > 0 && s.q.Targets == Targets{} && s.mostUnits(c, none) >= c.least &&
		c.server.Serves(s.q.Prompt, s.q.Gen) == nil
}

// screen prepares a deployment, and leaves it out if a request that is alone on it is too
// slow already.
func (s *search) screen(c *config) (open bool) {
	units, err := s.prepare(&c.Row)
	if err != nil {
		s.missed(Miss{err.Error(), infinite, nil})
		return false
	}
	e, err := units.Fitting(s.q.workload(c.MicroBatches))
	s.searched++
	if err != nil {
		s.missed(Miss{err.Error(), infinite, nil})
		return false
	}
	c.Batch = 1
	if c.GPUs = e.GPUs; !e.Memory.Fits() {
		s.tooLarge(&c.Row, &e.Memory)
		return false
	}
	server, err := s.q.server(s.card, units, &c.Row)
	if err != nil {
		s.missed(Miss{err.Error(), infinite, nil})
		return false
	}
	c.Batch = server.Scheduler.MaxSeqs
	if c.slower = 1; !s.q.Expected {
		c.slower = deployment.Slower(&e)
	}
	if c.least = 1; c.single == (Spans{}) {
		c.single = s.single(c, units, &e)
	}
	if parts := c.MicroBatches; parts == 1 {
		alone := c.Row
		alone.fill(s.q, &e)
		alone.TTFT, alone.TPOT, alone.E2E = s.q.end(c.single.TTFT), s.q.end(c.single.TPOT), s.q.end(c.single.E2E)
		alone.PerHour = unit.Dollars(float64(s.card.Price) * float64(alone.GPUs))
		if n := s.gain(); n > 1 { // with speculation a token may take that much less
			alone.TPOT, alone.E2E = alone.TPOT.Times(1/n), alone.TTFT+(alone.E2E-alone.TTFT).Times(1/n)
		}
		if s.falls(&alone) {
			return false
		}
	}
	c.wave = s.wave(units, c.Batch)
	c.wave.forget()
	c.fits = e.Memory.MaxBatch
	return true
}

// single bounds a request alone, which has a pipeline for itself.
func (s *search) single(c *config, units *analytic.Predictor, e *analytic.Estimate) Spans {
	if c.MicroBatches == 1 {
		return s.q.single(units, e, c)
	}
	r := c.Row
	r.MicroBatches = 1
	one, err := s.prepare(&r)
	if err != nil {
		return s.q.single(units, e, c)
	}
	w := s.q.workload(1)
	w.Budget = c.Budget
	alone, err := one.Predict(w)
	if err != nil {
		return s.q.single(units, e, c)
	}
	return s.q.single(one, &alone, c)
}

// single bounds a request alone. Where lengths differ its time to the first token is the mean over prompts, and
// it decodes as one of mean lengths does: longer answers take more time beyond that than shorter ones take less. Steady states
// take all contexts to be their mean, which is less by up to 0.3 % in random cases (TestBounds).
func (q *Request) single(p *analytic.Predictor, mean *analytic.Estimate, c *config) Spans {
	share := lone(p, c.Split.sharing(), q.Prompt.MeanLength())
	s := Spans{plus(analytic.Span{}, mean.TTFT, share), mean.TPOT, plus(mean.TTLT, mean.TTFT, share-1)}
	if q.fixed() {
		return s
	}
	prompts := q.Prompt.Quantiles()
	var ttft analytic.Span
	for _, tokens := range prompts {
		e, err := p.Predict(&analytic.Workload{Batch: p.Par.MicroBatches, PromptLen: tokens, GenLen: 1, Budget: c.Budget})
		if err != nil {
			return s
		}
		ttft = plus(ttft, e.TTFT, lone(p, c.Split.sharing(), float64(tokens))/float64(len(prompts)))
	}
	less := 0.99
	if c.Split.sharing() > 1 { // Steps of several replicas that have prompts at once share what the experts take: up to 10 % in random cases.
		less = 0.89
	}
	e2e := plus(plus(s.E2E, ttft, 1), s.TTFT, -1)
	return Spans{plus(analytic.Span{}, ttft, less), plus(analytic.Span{}, s.TPOT, less), plus(analytic.Span{}, e2e, less)}
}

// lone is what a prompt takes on one of so many replicas that share experts, as a share of what an estimate says, which has one on each.
func lone(p *analytic.Predictor, replicas int, tokens float64) float64 {
	if replicas == 1 {
		return 1
	}
	tokens = min(tokens, p.Budget())
	prompt := []operator.Group{{Batch: 1, New: tokens, Logits: 1}}
	return float64(p.StepCost(prompt, tokens+float64(replicas-1)).Time / p.StepCost(prompt, 0).Time)
}

// plus is a span with so many times another.
func plus(a, b analytic.Span, times float64) analytic.Span {
	return analytic.Span{
		Floor: a.Floor + b.Floor.Times(times), Expected: a.Expected + b.Expected.Times(times), Low: a.Low + b.Low.Times(times),
		High: a.High + b.High.Times(times),
	}
}

// ready prepares the server of a deployment that was screened: those of all deployments take more memory than there is use for.
func (s *search) ready(c *config) error {
	units, err := s.prepare(&c.Row)
	if err != nil {
		return err
	}
	server, err := s.q.server(s.card, units, &c.Row)
	if err == nil {
		c.server, c.wave.p = *server, server.Predictor
	}
	return err
}

// tooMany remembers that the load takes more units than are allowed.
func (s *search) tooMany(c *config, units int) {
	r := c.Row
	s.sized(&r, units)
	r.TTFT, r.TPOT, r.E2E = c.single.TTFT.Expected.Times(c.slower), c.single.TPOT.Expected.Times(c.slower),
		c.single.E2E.Expected.Times(c.slower)
	s.falls(&r)
}

// sized makes a row one of so many units.
func (s *search) sized(r *Row, units int) {
	r.DP, r.GPUs = r.DP*units, r.GPUs*units
	r.PerHour = unit.Dollars(float64(s.card.Price) * float64(r.GPUs))
}

// rate is the requests a second that come; 0 where clients wait for their answers.
func (q *Request) rate() float64 {
	if q.Load.Throughput > 0 {
		return q.Load.Throughput / q.Gen.MeanLength()
	}
	return q.Load.Rate
}

// serve finds the fewest units with which the deployment qualifies, unless they are more
// GPUs than the best one has. More units of the same never make anything slower.
func (s *search) serve(c *config, found incumbent) (r Row, ok bool) {
	if s.q.By == Latency && float64(c.mixed)*c.slower > found.figure {
		return r, false
	}
	most := s.paidUnits(c, s.mostUnits(c, found))
	if most < c.least {
		return r, false
	}
	first, last := c.least, most
	if s.q.By == Latency {
		first = most // more units have shorter queues
	}
	if s.q.rate() == 0 {
		return s.answering(c, first, last, found.figure)
	}
	if s.fewestGPUs() && first < last { // most deployments do not qualify with any number
		if r, ok = s.steady(c, last); !ok {
			return r, false
		}
	}
	for step := 1; first <= last; step *= 2 {
		units := min(first+step-1, last)
		if r, ok = s.steady(c, units); s.q.By == Energy && float64(r.JToken) > found.figure {
			return r, false // and more units take more energy
		} else if ok {
			r = s.fewest(c, r, max(first, units-step/2), units)
			s.expectBest(c, &r, found.figure)
			return r, true
		}
		if units == last {
			break
		}
	}
	return r, false
}

// answering finds the fewest units with which clients that wait for their answers are served. Numbers with which no replica has
// fewer clients than with less of them are left out, since each one is simulated.
func (s *search) answering(c *config, first, last int, least float64) (r Row, ok bool) {
	units := s.q.unlike(c, first, last)
	if s.q.By == Latency {
		units = []int{last}
	}
	if target := s.q.Targets.TPOT; target > 0 {
		w := c.wave
		few := sort.Search(len(units)-1, func(i int) bool { return w.leastTPOT(s, c, units[i]) <= target })
		units = units[few:]
	}
	if s.fewestGPUs() {
		if r, ok = s.steady(c, units[len(units)-1]); !ok || s.first { // as most deployments, with any number
			return r, ok
		}
	}
	if r, ok = s.steady(c, units[0]); s.q.By == Energy && float64(r.JToken) > least {
		return r, false // and more units take more energy
	}
	if !ok {
		enough := s.q.fewestOf(units[1:], func(n int) bool {
			found, good := s.steady(c, n)
			if good || !ok {
				r, ok = found, good
			}
			return good
		})
		ok = enough > 0
	}
	if ok {
		s.expectBest(c, &r, least)
	}
	return r, ok
}

// unlike are numbers of units, from a first to a last one, of which each leaves some replica fewer clients than those before do.
func (q *Request) unlike(c *config, first, last int) (units []int) {
	share := 0
	for n := first; n <= last; n++ {
		replicas := n * c.DP
		if each := (q.Load.Concurrency + replicas - 1) / replicas; n == first || each < share {
			units, share = append(units, n), each
		}
	}
	return units
}

// fewestOf is the first of rising numbers of units that is good, 0 if none is. Numbers that divide the clients are tried before those
// between them: a part of the clients stands for all there, whose waves are short to simulate.
func (q *Request) fewestOf(units []int, good func(n int) bool) int {
	var even []int
	for _, n := range units {
		if q.Load.Concurrency%n == 0 {
			even = append(even, n)
		}
	}
	after, found := 0, 0
	if i := sort.Search(len(even), func(i int) bool { return good(even[i]) }); i < len(even) {
		found = even[i]
		even = even[:i]
	}
	if len(even) > 0 {
		after = even[len(even)-1]
	}
	between := slices.DeleteFunc(slices.Clone(units), func(n int) bool { return n <= after || found > 0 && n >= found })
	if i := sort.Search(len(between), func(i int) bool { return good(between[i]) }); i < len(between) {
		found = between[i]
	}
	return found
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

// steady is the deployment with so many units, and whether it qualifies.
func (s *search) steady(c *config, units int) (r Row, ok bool) {
	r = c.Row
	s.sized(&r, units)
	if target := s.q.Targets.TPOT; target > 0 && s.q.rate() == 0 {
		least := c.wave.leastTPOT(s, c, units)
		if least <= target {
			least = max(least, s.dividedTPOT(c, units))
		}
		if least > target {
			s.tooSlow(c, &r, least)
			return r, false
		}
	}
	if s.farther(c, units) {
		r.TTFT = c.single.TTFT.Expected.Times(c.slower) // at least
		return r, false
	}
	return s.settled(c, r)
}

// tooSlow remembers a row whose time per token is at least so much, and misses the target.
func (s *search) tooSlow(c *config, r *Row, least unit.Seconds) {
	target := s.q.Targets.TPOT
	r.TTFT, r.TPOT = c.single.TTFT.Expected.Times(c.slower), least // at least
	if by := float64(least / target); by < s.miss.By {
		own := *r
		s.missed(Miss{fmt.Sprintf("nearest is %s, with a TPOT of at least %s for %v", &own, beyond(least, target), target), by, &own})
	}
}

// settled is a row of the deployment at its steady state, at the end of the interval that was asked
// for, and whether it qualifies.
func (s *search) settled(c *config, r Row) (Row, bool) {
	slow, err := s.q.state(c, &r, c.slower)
	s.searched++
	if err != nil {
		if !s.nearer(unstable) {
			return r, false
		}
		if _, sooner := s.q.state(c, &r, 1); sooner != nil {
			err = sooner
		}
		s.missed(Miss{fmt.Sprintf("nearest is %s: %v", r.String(), err), unstable, nil})
		return r, false
	}
	r.TTFT, r.TPOT, r.E2E = slow.TTFT, slow.TPOT, slow.E2E
	r.Throughput = slow.Rate * s.q.Gen.MeanLength()
	r.slower, r.alone = c.slower, c.single
	r.Running, r.Utilization = slow.Running, slow.Utilization
	r.JToken = s.q.perToken(slow) // at the least: where everything takes longer more sequences share a step
	r.PerMillion = unit.Dollars(float64(r.PerHour) / 3600 / r.Throughput * 1e6)
	return r, !s.falls(&r)
}

// capacity is the most requests a second that so many units answer.
func (c *config) capacity(units int) float64 {
	most, _ := c.steadies.Capacity(serving.Layout{Replicas: units * c.DP})
	return most.Rate
}

// perToken is the energy of a generated token.
func (q *Request) perToken(st *serving.Steady) unit.Joules {
	return st.Energy.Times(1 / q.Gen.MeanLength())
}

// expectBest is expect, except for a row that ranks behind another of its card where only the best is shown.
func (s *search) expectBest(c *config, r *Row, least float64) {
	if !s.q.bestOnly() || s.q.By == Energy || s.figure(r) <= least {
		s.expect(c, r)
	}
}

// expect adds the interval and the expected energy to a row that qualifies. Only such rows need a steady state of their
// expected times, which is the slow one where it has no answer.
func (s *search) expect(c *config, r *Row) {
	expected, err := s.q.state(c, r, 1)
	if err != nil {
		expected = &serving.Steady{TTFT: r.TTFT, TPOT: r.TPOT, E2E: r.E2E, Energy: r.JToken.Times(s.q.Gen.MeanLength())}
	}
	r.JToken = s.q.perToken(expected)
	span := func(alone analytic.Span, mean, high unit.Seconds) analytic.Span {
		return analytic.Span{Floor: alone.Floor, Expected: mean, Low: mean.Times(float64(alone.Low / max(alone.Expected, 1e-12))), High: high}
	}
	r.Estimate = Spans{span(c.single.TTFT, expected.TTFT, r.TTFT), span(c.single.TPOT, expected.TPOT, r.TPOT),
		span(c.single.E2E, expected.E2E, r.E2E)}
}
