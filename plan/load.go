package plan

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/serving"
	"llmprof/unit"
)

// A variant is the settings that differ from those that a server starts with; 0 for none.
type variant struct{ Budget, Limit, Drafts, Prefill int }

const manyFinalists = 20

// tuned is how many of the finalists are tried with settings that a server does not start with; the others where nothing qualifies yet.
const tuned = 4

// finalists is how many deployments of a card are tried.
func (s *search) finalists() int {
	switch {
	case s.q.Top == 0 && s.q.PerGPU == 0:
		return 2 * manyFinalists
	case s.q.PerGPU == 1:
		return 8
	}
	return manyFinalists
}

// loaded works out the steady states of the likeliest deployments of the card, and of the two best with other settings.
func (s *search) loaded(ctx context.Context, behind bool) {
	some := s.open[:1]
	if !behind {
		some = s.chosen()
	}
	for i, c := range some {
		best := s.answering()
		switch {
		case ctx.Err() != nil:
			return
		case i > 0 && c.missed > c.hopeful(), best != nil && s.q.PerGPU == 1 && c.likely > beyondOf(s.q.score(best)):
			continue
		}
		most := s.mostUnits(c, best)
		if s.q.PerGPU == 1 { // the closed form orders those that cost the same
			most = s.saving(c)
		}
		s.keep(ctx, c, variant{}, most)
	}
	if behind || s.q.rate() == 0 && len(s.q.Limits) == 0 {
		return
	}
	for i, c := range some {
		if i >= tuned && len(s.rows) > 0 {
			return
		}
		if c.missed <= c.hopeful() {
			s.variants(ctx, c)
		}
	}
}

// hopeful is by how many times the closed form, or a steady state with fewer GPUs than the best row, may miss a target of a deployment
// that is tried nevertheless, with other settings.
const hopeful = 1.4

// hopeful is less of a pipeline, whose steady states are simulated: they take ten times as long as others, and few hold that miss by more.
func (c *candidate) hopeful() float64 {
	if c.Split.PP > 1 {
		return 1.1
	}
	return hopeful
}

// tunable is by how many times a deployment may miss a target that is tried with other settings: steps of fewer tokens halve a 99th
// percentile of TPOT.
const tunable = 2.5

// ofSplit is how many of the first deployments have one split: those that differ in formats alone are alike.
const ofSplit = 2

// chosen are the likeliest deployments of different splits, and the likeliest of each number of GPUs that none of them has: percentiles may
// want wider ones.
func (s *search) chosen() (some []*candidate) {
	sizes := map[int]bool{}
	for _, c := range s.open {
		alike := 0
		for _, x := range some {
			if x.Split == c.Split && x.MicroBatches == c.MicroBatches {
				alike++
			}
		}
		many := len(some) >= s.finalists()
		if many && sizes[c.GPUs] || !many && alike >= ofSplit && s.finalists() < manyFinalists {
			continue
		}
		sizes[c.GPUs] = true
		some = append(some, c)
	}
	return some
}

// answering is the best row of the card so far, whatever the budget; nil for none.
func (s *search) answering() *Row {
	rows := s.rows
	if len(rows) == 0 {
		rows = s.dear
	}
	if len(rows) == 0 {
		return nil
	}
	return slices.MinFunc(rows, s.q.compare)
}

// fewestGPUs reports whether deployments rank by the GPUs that they take.
func (q *Request) fewestGPUs() bool { return q.cheapest() || q.By == Throughput && q.rate() > 0 }

// mostUnits is how many units are allowed where one more row has to be no worse than the best. The budget is no limit here, so that the
// nearest miss of a card is a deployment that answers the load.
func (s *search) mostUnits(c *candidate, best *Row) int {
	most := s.q.MaxGPUs / c.GPUs
	if s.q.By == Latency || s.q.By == Throughput && s.q.clients() > 0 {
		return max(min(most, s.q.affordable(&c.Row, c.GPUs)), min(most, 1))
	}
	if best != nil && s.q.fewestGPUs() && s.q.PerGPU == 1 {
		most = min(most, best.GPUs/c.GPUs)
	}
	return most
}

// keep adds the row of a deployment with the fewest units with which it qualifies, if there are any; by latency with the most.
func (s *search) keep(ctx context.Context, c *candidate, v variant, most int) {
	first := min(max(c.units, 1), most)
	if s.q.By == Latency || v != (variant{}) { // Of other settings most save nothing.
		first = most
	}
	units := fewest(first, most, func(units int) bool { return s.qualifies(ctx, c, v, units).meets }, s.q.By == Latency)
	if units > 0 {
		s.add(ctx, c, s.qualifies(ctx, c, v, units))
	}
}

// add adds a row that meets the targets, if it is within the budget.
func (s *search) add(ctx context.Context, c *candidate, r *Row) bool {
	if s.q.Budget > 0 && s.falls(r) {
		s.dear = append(s.dear, r)
		return false
	}
	if r.Estimate == (Spans{}) {
		s.exact(ctx, c, r)
	}
	s.rows = append(s.rows, r)
	return true
}

// fewest is the least number from 1 to most that holds, 0 where none does. What holds for a number holds for larger ones. Numbers near the
// first are tried first; with only no other number is.
func fewest(first, most int, holds func(int) bool, only bool) int {
	if most < 1 {
		return 0
	}
	low, high := 0, first // low does not hold; high does
	switch ok := holds(first); {
	case ok && only:
		return first
	case ok:
		for step := 1; ; step *= 2 {
			if low = max(high-step, 0); low == 0 || !holds(low) {
				break
			}
			high = low
		}
	case first == most || only:
		return 0
	default:
		low = first
		for step := 1; ; step *= 2 {
			if high = min(low+step, most); holds(high) {
				break
			}
			if high == most || step == 1 && !holds(most) { // Where the next number does not hold, often none does.
				return 0
			}
			low = high
		}
	}
	for low+1 < high {
		if middle := (low + high) / 2; holds(middle) {
			high = middle
		} else {
			low = middle
		}
	}
	return high
}

// variants tries a deployment with other settings than a server starts with: other limits of sequences and of tokens of a step,
// speculation, and replicas that only prefill. Where the price counts they have to save a GPU over the best row. What the deployment with
// as few GPUs misses without them says which may do.
func (s *search) variants(ctx context.Context, c *candidate) {
	rules, err := engine.SchedulerOf(s.card.Machine.Engine.Profile().Engine(), s.card.Machine.Engine, s.card.GPU)
	most := s.saving(c)
	if err != nil || most < 1 {
		return
	}
	plain := s.qualifies(ctx, c, variant{}, most)
	answers := plain.Utilization > 0
	shorter, faster := answers && s.q.misses(plain, TPOT, ITL), !answers || s.q.misses(plain, TTFT)
	if len(s.q.Drafts) == 0 && (s.q.exceeds(plain) > tunable*c.hopeful()/hopeful || !answers && s.short(ctx, c, plain) > hopeful) {
		return
	}
	running := plain.Running / float64(plain.DP)
	better := answers && s.q.exceeds(plain) == 0 // it qualifies, so that any may be better yet
	var all []variant
	budgets := s.q.Budgets
	if rules.Pass > 0 { // a pass has as many tokens, whatever a step has
		budgets = nil
	}
	for _, drafts := range append([]int{0}, s.q.Drafts...) {
		if drafts > 0 {
			all = append(all, variant{Drafts: drafts})
		}
		for _, n := range budgets {
			longer := n > rules.Budget && (faster || shorter && n <= 2*rules.Budget) // Steps twice as long may take less time for each token.
			if float64(n) > running*float64(1+drafts) && (n < rules.Budget && shorter || longer || n != rules.Budget && better) {
				all = append(all, variant{Drafts: drafts, Budget: n})
			}
		}
	}
	for _, n := range s.q.Limits { // A limit of twice the mean is hardly ever reached.
		if n < rules.MaxSeqs && shorter && float64(n) < 2*running || n > rules.MaxSeqs && (!answers || faster && 2*running > float64(c.Batch)) {
			all = append(all, variant{Limit: n})
		}
	}
	for _, v := range all {
		if s.q.rate() > 0 || v.Budget+v.Drafts == 0 {
			s.keep(ctx, c, v, s.saving(c))
		}
	}
	if s.q.rate() == 0 || s.q.Together || s.q.steps() < 1 || !answers || rules.Admission == engine.ForSlot {
		return // no slot of a server takes over a cache of another one
	}
	for _, drafts := range append([]int{0}, s.q.Drafts...) {
		s.apart(ctx, c, drafts)
	}
}

// short is by how many times the load is more than a row answers at most.
func (s *search) short(ctx context.Context, c *candidate, r *Row) float64 {
	all, err := s.steadies(ctx, c, r.setting.variant)
	if err != nil {
		return infinite
	}
	most, err := all.Capacity(r.layout())
	if err != nil {
		return infinite
	}
	return s.q.rate() * r.slower / most.Rate
}

// saving is the most units that save a GPU over the best row, and cost less than what is to be undercut.
func (s *search) saving(c *candidate) int {
	best := s.answering()
	most := s.mostUnits(c, best)
	if best != nil && s.q.fewestGPUs() {
		most = min(most, (best.GPUs-1)/c.GPUs)
	}
	if s.below > 0 {
		most = sort.Search(most, func(n int) bool { return s.card.hour((n+1)*c.GPUs) >= s.below })
	}
	return most
}

// apart tries replicas that only prefill beside others that decode, in about the shares of the time that both take, with fewer and fewer
// units in all.
func (s *search) apart(ctx context.Context, c *candidate, drafts int) {
	total := s.saving(c)
	if s.q.By != Latency {
		total = min(total, 2*c.units+2)
	}
	for ; total >= 2 && ctx.Err() == nil; total-- {
		near := int(c.prompts*float64(total) + 0.5)
		ok, least, most := false, 1, total-1
		for _, prefill := range []int{near, near + 1, near - 1, near + 2} {
			if ok || prefill < least || prefill > most {
				continue
			}
			r := s.qualifies(ctx, c, variant{Drafts: drafts, Prefill: prefill}, total-prefill)
			ok = r.meets && s.add(ctx, c, r)
			if s.q.misses(r, TTFT) { // With fewer that prefill each has more to do.
				least = prefill + 1
			}
			if s.q.misses(r, TPOT, ITL) { // With fewer that decode each has more to do.
				most = prefill - 1
			}
		}
		if !ok || s.q.By == Latency {
			return
		}
	}
}

// qualifies is the deployment with so many units, which meets the targets if its steady state does, with its percentiles.
func (s *search) qualifies(ctx context.Context, c *candidate, v variant, units int) *Row {
	key := setting{v, units}
	if r := c.tried[key]; r != nil {
		if !r.simulated() { // Simulations may have said since how much longer it takes.
			r.meets = r.Utilization > 0 && !s.q.tooSlow(r)
		}
		return r
	}
	if c.tried == nil {
		c.tried = map[setting]*Row{}
	}
	r := c.Row
	c.tried[key] = &r
	s.sized(&r, units)
	r.Budget, r.Limit, r.Drafts = v.Budget, v.Limit, v.Drafts
	if v.Prefill > 0 {
		r.Prefill, r.GPUs = c.DP*v.Prefill, r.GPUs+c.GPUs*v.Prefill
		r.PerHour = s.card.hour(r.GPUs)
	}
	if v.Limit > 0 {
		r.Batch = v.Limit
	}
	r.setting, r.from, r.search = key, c, s
	err := s.fillSteady(ctx, c, v, &r)
	switch {
	case err != nil:
		s.unanswered(c, v, &r, err)
		return &r
	case s.q.tailed() && !s.q.tooSlow(&r):
		err = s.tails(ctx, c, v, &r)
	}
	switch {
	case err != nil:
		s.missed(Miss{err.Error(), infinite, nil})
	case s.q.tooSlow(&r):
		s.falls(&r)
	default:
		r.meets = true
	}
	return &r
}

// tails gives a row percentiles: those of the sample path of its steady state, or of a short simulation where that has none.
func (s *search) tails(ctx context.Context, c *candidate, v variant, r *Row) error {
	gaps := func(t Target) bool { return t.Of == ITL }
	if s.q.clients() > 0 || slices.ContainsFunc(s.q.Targets, gaps) {
		return r.simulate(ctx, s.q, quick)
	}
	all, err := s.steadies(ctx, c, v)
	if err != nil {
		return err
	}
	parts, ok := all.Tails(s.q.rate()*r.slower, r.layout(), seeds)
	if !ok {
		return r.simulate(ctx, s.q, quick)
	}
	r.Simulated = summary(parts, r.slower)
	r.Simulated.Path = true
	return ctx.Err()
}

// unanswered remembers a deployment that comes to no steady state.
func (s *search) unanswered(c *candidate, v variant, r *Row, err error) {
	if unstable >= s.miss.By {
		return
	}
	if _, sooner := s.state(context.Background(), c, v, r, 1); sooner != nil {
		err = sooner
	}
	s.missed(Miss{fmt.Sprintf("nearest is %s: %s", r, unit.Text(err, flagOf)), unstable, nil})
}

// fillSteady fills a row with its steady state, at the end of the interval that was asked for.
func (s *search) fillSteady(ctx context.Context, c *candidate, v variant, r *Row) error {
	r.slower = c.slower
	if v.Budget > 0 && s.q.Prompt.Longest() > v.Budget { // its steps are others, and so is the interval
		if e, err := c.predictor().Predict(s.q.workload(c.MicroBatches, v.Budget)); err == nil && !s.q.Expected {
			r.slower = deployment.Slower(&e)
		}
	}
	slow, err := s.state(ctx, c, v, r, r.slower)
	s.searched++
	if err != nil {
		return err
	}
	if r.Limit == 0 {
		r.Batch = c.Batch
	}
	r.TTFT, r.TPOT, r.E2E = slow.TTFT, slow.TPOT, slow.E2E
	r.Throughput = slow.Rate * s.q.Gen.MeanLength()
	r.Running, r.Utilization, r.Capacity = slow.Running, slow.Utilization, slow.Capacity.Rate
	r.JToken = slow.Energy.Times(1 / s.q.Gen.MeanLength())
	r.perMillion()
	return nil
}

// state is the steady state of a row where everything takes x times as long as expected.
func (s *search) state(ctx context.Context, c *candidate, v variant, r *Row, x float64) (*serving.Steady, error) {
	all, err := s.steadies(ctx, c, v)
	if err != nil {
		return nil, err
	}
	if n := s.q.clients(); n > 0 {
		st, err := s.clients(all, c, r, n)
		if err != nil {
			return nil, err
		}
		return deployment.Stretched(st, x), nil
	}
	st, err := all.Rate(s.q.rate()*x, r.layout())
	if err != nil {
		return nil, err
	}
	return deployment.Stretched(st, x), nil
}

// clients is the steady state of one unit with its share of the clients, rounded up, for all: fewer clients wait for less.
func (s *search) clients(all *serving.Steadies, c *candidate, r *Row, n int) (*serving.Steady, error) {
	units := r.DP / c.DP
	whole, err := all.Clients((n+units-1)/units, serving.Layout{Replicas: c.DP})
	if err != nil {
		return nil, err
	}
	whole.Running *= float64(units)
	whole.Rate *= float64(units)
	whole.Throughput *= float64(units)
	return whole, nil
}

// steadies prepares the steady states of a variant of a candidate. Those of steps of another length share the costs that are known; drafts
// and limits of sequences change the memory, so that they are deployments of their own.
func (s *search) steadies(ctx context.Context, c *candidate, v variant) (*serving.Steadies, error) {
	if c.servers == nil {
		c.servers = map[variant]*serving.Steadies{}
	}
	v.Prefill = 0
	if all := c.servers[v]; all != nil {
		return all, nil
	}
	all, err := s.prepare(ctx, c, v)
	if err != nil {
		return nil, err
	}
	c.servers[v] = all
	return all, nil
}

// prepare is steadies of a variant that no steady state was of.
func (s *search) prepare(ctx context.Context, c *candidate, v variant) (*serving.Steadies, error) {
	if v.Budget > 0 {
		all, err := s.steadies(ctx, c, variant{Drafts: v.Drafts, Limit: v.Limit})
		if err != nil {
			return nil, err
		}
		rules := all.Scheduler()
		rules.Budget = v.Budget
		return all.With(rules)
	}
	one := c.Row
	one.Drafts, one.Limit = v.Drafts, v.Limit
	q := one.Request(s.q)
	d, err := c.deployed.Spread(&q)
	if err != nil {
		return nil, err
	}
	server, err := d.Server(ctx)
	if err != nil {
		return nil, err
	}
	if v.Limit == 0 {
		c.Batch = server.Scheduler.MaxSeqs
	}
	server.Predictor = server.Predictor.ForPrompts(s.q.Prompt.MeanLength() * (1 - server.HitRate))
	all, err := server.Steadies(ctx, s.q.Prompt, s.q.Gen)
	if err == nil {
		all.Within(s.events)
	}
	return all, err
}

// exact gives a row the figures that an estimate of it has, with its interval and expected energy: only rows that are kept need a steady
// state of all clients, and of their expected times.
func (s *search) exact(ctx context.Context, c *candidate, r *Row) {
	v := variant{r.Budget, r.Limit, r.Drafts, r.Prefill / c.DP}
	if n := s.q.clients(); n > 0 && n%(r.DP/c.DP) != 0 {
		if all, err := s.steadies(ctx, c, v); err == nil {
			if st, err := all.Clients(n, r.layout()); err == nil {
				slow := deployment.Stretched(st, r.slower)
				r.TTFT, r.TPOT, r.E2E, r.Running = slow.TTFT, slow.TPOT, slow.E2E, slow.Running
				r.Throughput, r.Utilization = slow.Rate*s.q.Gen.MeanLength(), slow.Utilization
				r.perMillion()
				s.expect(c, r, st)
				return
			}
		}
	}
	expected, err := s.state(ctx, c, v, r, 1)
	if err != nil {
		expected = &serving.Steady{TTFT: r.TTFT, TPOT: r.TPOT, E2E: r.E2E, Energy: r.JToken.Times(s.q.Gen.MeanLength())}
	}
	s.expect(c, r, expected)
}

// expect adds the interval and the expected energy to a row.
func (s *search) expect(c *candidate, r *Row, expected *serving.Steady) {
	r.JToken = expected.Energy.Times(1 / s.q.Gen.MeanLength())
	span := func(alone analytic.Span, mean, end unit.Seconds) analytic.Span {
		of := max(alone.Expected, 1e-12)
		if s.q.Expected {
			end = mean.Times(float64(alone.High / of))
		}
		return analytic.Span{Floor: alone.Floor, Expected: mean, Low: mean.Times(float64(alone.Low / of)), High: end}
	}
	e := &c.alone
	r.Estimate = Spans{span(e.TTFT, expected.TTFT, r.TTFT), span(e.TPOT, expected.TPOT, r.TPOT), span(e.TTLT, expected.E2E, r.E2E)}
}
