package plan

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/serving"
	"llmprof/unit"
)

// A candidate is a deployment whose number of replicas is still open: a unit of replicas that share their experts, or one replica.
type candidate struct {
	Row
	deployed *deployment.Deployment
	alone    analytic.Estimate // estimate of a request that has the unit for itself
	slower   float64           // how many times as long as expected everything takes at the end that is asked for
	units    int               // units that the load takes by the closed form
	likely   float64           // what the row ranks by, by the closed form
	missed   float64           // the closed form over the target that is missed most; at most 1 where none is
	atLoad   float64           // the same with those units under the load; without targets the time of a request
	tried    map[setting]*Row
	prompts  float64 // share of the time that prompts take by the closed form
	best     *Row    // the best row of batches that start together; nil where none qualifies

	servers map[variant]*serving.Steadies // whatever prefills
}

// A setting is a variant of a deployment with a number of units.
type setting struct {
	variant
	units int
}

// release frees the steady states, which hold the times of many steps.
func (c *candidate) release() { c.servers = nil }

// predictor prices the steps of the unit.
func (c *candidate) predictor() *analytic.Predictor {
	p, err := c.deployed.Predictor()
	if err != nil {
		panic(err) // it was prepared when the candidate was made
	}
	return p
}

// A base is the card's request in one of its formats, from which deployments differ by how they are spread.
type base struct {
	formats  Formats
	deployed *deployment.Deployment
}

// estimate prepares the formats of the card, and estimates the deployments that may be the likeliest.
func (s *search) estimate(ctx context.Context) {
	if s.miss.Reason = cmp.Or(s.impossible(), s.miss.Reason); s.impossible() != "" {
		s.splits = nil
		return
	}
	for _, f := range s.card.Formats {
		if ctx.Err() != nil {
			return
		}
		q := s.card.Request
		q.Weights, q.KV = f.Weights, f.cache(s.card.Model)
		d, err := s.q.From.Bare(ctx, &q)
		if err != nil {
			s.missed(Miss{unit.Text(err, flagOf), infinite, nil})
			continue
		}
		s.bases = append(s.bases, base{f, d})
	}
	s.splits = slices.Clone(s.splits)
	slices.SortStableFunc(s.splits, func(a, b Split) int { return a.gpus() - b.gpus() })
	s.widen(ctx, func() float64 { return s.least })
}

// widen estimates deployments whose replicas have more and more GPUs, until those of one unit cost more than may be better than a score.
// The closed form says no less of a deployment than what its least unit costs, so that those left out are none that loaded would try. Where
// one row of a card is shown and no load is given, splits are estimated in the format that was the likeliest so far, and the likeliest
// splits in all formats.
func (s *search) widen(ctx context.Context, score func() float64) {
	for len(s.splits) > 0 && !s.tooWide(score()) && ctx.Err() == nil {
		for _, b := range s.likeliest() {
			s.split(ctx, b, s.splits[0])
		}
		s.splits = s.splits[1:]
	}
	slices.SortStableFunc(s.open, s.before)
	for _, split := range s.leading() {
		for i := range s.bases {
			if b := &s.bases[i]; !slices.ContainsFunc(s.open, func(c *candidate) bool { return c.Split == split && c.Formats == b.formats }) {
				s.split(ctx, b, split)
			}
		}
	}
	slices.SortStableFunc(s.open, s.before)
}

// before orders deployments, the likeliest first.
func (s *search) before(a, b *candidate) int {
	return cmp.Or(cmp.Compare(a.likely, b.likely), cmp.Compare(a.Split.PP, b.Split.PP), cmp.Compare(s.q.unseen(&a.Row), s.q.unseen(&b.Row)),
		cmp.Compare(a.atLoad, b.atLoad))
}

// likeliest are the formats in which the next split is estimated: all, until a deployment qualifies by the closed form.
func (s *search) likeliest() (all []*base) {
	var best *candidate
	if len(s.open) > 0 && s.q.PerGPU == 1 && !s.continuous() {
		best = slices.MinFunc(s.open, s.before)
	}
	for i := range s.bases {
		if b := &s.bases[i]; best == nil || best.missed > 1 || math.IsInf(best.likely, 1) || b.formats == best.Formats {
			all = append(all, b)
		}
	}
	return all
}

// leading are the splits that are estimated in all formats.
func (s *search) leading() (all []Split) {
	for _, c := range s.open {
		if len(all) < leadingSplits && s.q.PerGPU == 1 && !s.continuous() && !slices.Contains(all, c.Split) {
			all = append(all, c.Split)
		}
	}
	return all
}

const leadingSplits = 4

// tooWide reports whether a unit of the splits that are not estimated costs more than may be better than a score.
func (s *search) tooWide(score float64) bool {
	return s.continuous() && s.q.cheapest() && s.q.PerGPU == 1 && float64(s.card.hour(s.splits[0].gpus())) > beyondOf(score)
}

// wider estimates deployments with wider replicas where these may be better than the best row, and reports whether there are any.
func (s *search) wider(ctx context.Context) bool {
	left, score := len(s.splits), math.Inf(1)
	if best := s.answering(); best != nil {
		score = s.q.score(best)
	}
	s.widen(ctx, func() float64 { return score })
	return len(s.splits) < left
}

// split estimates a split in a format.
func (s *search) split(ctx context.Context, b *base, split Split) {
	for _, parts := range s.microBatches(split) {
		if ctx.Err() != nil {
			return
		}
		d := b.deployed
		c := &candidate{Row: Row{Card: s.card, Formats: b.formats, Split: split, DP: split.sharing(), MicroBatches: parts, Scheme: d.Scheme.Name}}
		if c.GPUs = split.gpus(); c.GPUs > s.q.MaxGPUs {
			return
		}
		c.Batch = parts
		q := c.Request(s.q)
		if s.continuous() {
			q.Rate, q.Concurrency = s.q.load()
		}
		var err error
		if c.deployed, err = d.Spread(&q); err == nil {
			_, err = c.deployed.Predictor()
		}
		if err == nil {
			c.Placement = c.deployed.Placement
			c.alone, err = c.predictor().Fitting(s.q.workload(parts, 0))
		}
		s.searched++
		switch {
		case err != nil:
			s.missed(Miss{unit.Text(err, flagOf), infinite, nil})
			continue
		case !c.alone.Memory.Fits():
			s.tooLarge(&c.Row, &c.alone.Memory)
			continue
		}
		if c.slower = 1; !s.q.Expected {
			c.slower = deployment.Slower(&c.alone)
		}
		if s.continuous() {
			if s.guess(c); c.missed <= 1 {
				s.least = min(s.least, c.likely)
			}
		} else {
			s.largest(c)
		}
		s.open = append(s.open, c)
	}
}

// microBatches are the numbers of parts in which a batch goes through a pipeline. Servers have as many batches in it as there are stages,
// or one.
func (s *search) microBatches(split Split) []int {
	switch pipelined := s.card.Machine.Engine.Profile().Pipelined; {
	case split.PP == 1, s.continuous() && !pipelined:
		return []int{1}
	case s.continuous():
		return []int{split.PP}
	}
	return []int{1, split.PP}
}

// tooLarge remembers that a row does not fit, where that may be for want of GPUs with how many are allowed.
func (s *search) tooLarge(r *Row, m *analytic.Memory) {
	if by := unfit * float64(m.Total/m.Usable); by <= s.miss.By {
		on := ""
		if s.q.MaxGPUs < DefaultGPUs {
			on = fmt.Sprintf(" on %d of them", s.q.MaxGPUs)
		}
		s.missed(Miss{fmt.Sprintf("does not fit%s: %s needs %v of the %v that the engine may take of a GPU", on, r, m.Total, m.Usable), by, nil})
	}
}

// largest ranks a deployment of batches that start together by the largest batch that qualifies, or by the smallest where the plan is by
// latency. A deployment without a batch that qualifies ranks behind all that have one. Batches near the largest one of the deployment
// before it are tried first.
func (s *search) largest(c *candidate) {
	sizes := slices.DeleteFunc(slices.Clone(s.q.Batches), func(n int) bool { return n%c.MicroBatches != 0 })
	try := func(n int) bool { // a larger batch than the n-th one may qualify
		r, larger := s.batch(c, sizes[n-1])
		if r.Batch > 0 && (c.best == nil || s.q.compare(&r, c.best) < 0) {
			c.best = &r
		}
		return larger
	}
	switch {
	case len(sizes) == 0:
	case s.q.By == Latency:
		for n := 1; n <= len(sizes) && c.best == nil; n++ {
			if !try(n) {
				break
			}
		}
	default:
		past := func(n int) bool { return n > len(sizes) || !try(n) }
		s.past = fewest(min(max(s.past, 1), len(sizes)+1), len(sizes)+1, past, false)
	}
	if c.likely = math.Inf(1); c.best != nil {
		c.likely = s.q.score(c.best)
	}
}

// The closed form knows three times of a replica: that of a decode step with b sequences, that which a prompt adds to steps, and that of a
// prompt alone. While b sequences decode, a replica answers one request in the time that its prompt adds and a b-th of its decode steps, by
// which b and the times of a request follow from a rate (Little's law). It orders deployments; what is shown are steady states.

// A guess is what the closed form says of a replica with so many sequences that decode.
type guess struct {
	rate, inSystem  float64 // requests a second that it answers, and those that are in it
	ttft, tpot, e2e float64
	wait            float64 // the part of TTFT in which prompts that came before run
	energy          float64
}

// guess ranks a candidate under a load by the closed form.
func (s *search) guess(c *candidate) {
	points := s.ladder(c)
	if len(points) == 0 {
		c.likely = math.Inf(1)
		return
	}
	best, missed := guess{}, math.Inf(1)
	for _, g := range points {
		over := s.q.over(&g, c.slower)
		if over <= 1 && g.rate > best.rate || missed > 1 && over < missed {
			best, missed = g, over
		}
	}
	c.missed = missed
	need := s.q.rate() * c.slower / best.rate
	if n := s.q.clients(); n > 0 && len(s.q.Targets) > 0 { // Without targets one unit is enough.
		need = float64(n) / best.inSystem
	}
	c.units = max(int(math.Ceil(min(need/float64(c.DP), 1<<20))), 1)
	shares := float64(c.units * c.DP)
	for i := range points {
		g := &points[i]
		if c.atLoad = s.q.over(g, c.slower); c.atLoad == 0 {
			c.atLoad = max(g.e2e, float64(s.q.clients())/shares/g.rate) * c.slower // Clients who wait take as long as Little's law says.
		}
		if g.rate >= s.q.rate()*c.slower/shares && g.inSystem >= float64(s.q.clients())/shares {
			break
		}
	}
	if c.likely = s.ranked(c, points, &best); missed > 1 {
		c.likely = beyondOf(beyondOf(c.likely)) + math.Abs(c.likely)*missed // behind those that qualify
	}
}

// ranked is the figure that the row ranks by where each replica is as a guess has it.
func (s *search) ranked(c *candidate, points []guess, g *guess) float64 {
	gpus := float64(c.units * c.GPUs)
	switch q := s.q; {
	case q.By == Energy:
		return g.energy
	case q.By == Latency: // All units that are allowed are taken.
		units := float64(max(q.affordable(&c.Row, c.GPUs), 1) * c.DP)
		for i := range points {
			if p := &points[i]; p.rate >= q.rate()*c.slower/units && p.inSystem >= float64(q.clients())/units {
				return p.e2e * c.slower
			}
		}
		return points[len(points)-1].e2e * c.slower
	case q.By == Throughput && q.clients() > 0:
		return -g.rate * q.Gen.MeanLength() * float64(c.DP) / float64(c.GPUs)
	case q.By == Throughput:
		return gpus
	}
	return float64(s.card.hour(int(gpus)))
}

// finer are the steps of the ladder between two sizes that are priced.
const finer = 6

// A size is a number of sequences that decode, with the time of a step and the energy of a request.
type size struct{ b, step, energy float64 }

// sizes are rising numbers of sequences, up to those whose steps miss a target by far, and the least time that a prompt adds to steps.
func (s *search) sizes(c *candidate, gain float64) (all []size, adds float64) {
	rules, err := engine.SchedulerOf(s.card.Machine.Engine.Profile().Engine(), s.card.Machine.Engine, s.card.GPU)
	if err != nil {
		return nil, 0
	}
	most, e := max(min(rules.MaxSeqs, c.alone.Memory.MaxBatch), c.MicroBatches), c.alone
	adds = math.Inf(1)
	for b := c.MicroBatches; err == nil && e.Memory.Fits(); {
		adds = min(adds, float64(e.TTFT.Expected)/float64(b))
		all = append(all, size{float64(b), float64(e.TPOT.Expected), float64(e.Energy.PerRequest)})
		step := guess{tpot: float64(e.TPOT.Expected) / gain}
		if b >= most || s.q.over(&step, c.slower) > hopeful {
			break
		}
		b = (min(8*b, most) + c.MicroBatches - 1) / c.MicroBatches * c.MicroBatches
		e, err = c.predictor().Fitting(s.q.workload(b, 0))
		s.searched++
	}
	return all, adds * float64(c.MicroBatches) / c.turns()
}

// turns is how many turns of a stage the micro-batches of a batch take: the first has gone through all stages after as many as there are,
// and then one ends in each turn.
func (c *candidate) turns() float64 { return float64(c.Split.PP + c.MicroBatches - 1) }

// ladder is what the closed form says of rising numbers of sequences that decode.
func (s *search) ladder(c *candidate) (all []guess) {
	gain := 1.0
	if n := len(s.q.Drafts); n > 0 {
		gain = (&serving.Speculation{Drafts: s.q.Drafts[n-1], Acceptance: s.q.Acceptance}).Yields()
	}
	sizes, adds := s.sizes(c, gain)
	steps := s.q.steps()
	prompt := float64(c.alone.TTFT.Expected) * float64(c.Split.PP) / c.turns()
	for i := range sizes {
		for k := range finer {
			x, at := float64(k)/finer, sizes[i]
			if i+1 < len(sizes) {
				next := sizes[i+1]
				at = size{at.b * math.Pow(next.b/at.b, x), at.step + x*(next.step-at.step), at.energy + x*(next.energy-at.energy)}
			} else if k > 0 {
				break
			}
			decode := at.step * steps / gain
			g := guess{rate: 1 / (adds + decode/at.b), energy: at.energy / s.q.Gen.MeanLength()}
			busy := g.rate * adds
			if steps > 0 {
				g.tpot = at.step / gain / (1 - busy)
			}
			g.wait = busy * prompt / 2 / (1 - min(busy, 0.95))
			g.ttft = prompt + at.step + g.wait
			g.e2e = g.ttft + g.tpot*steps
			g.inSystem = max(g.rate*g.e2e, at.b)
			all = append(all, g)
		}
	}
	if len(all) > 0 {
		c.prompts = adds / (adds + sizes[len(sizes)-1].step*steps/gain/sizes[len(sizes)-1].b)
	}
	return all
}

// over is by how many times a guess misses the target that it misses most; at most 1 where it misses none. The longest of some requests
// take longer by the spread of their prompts, and wait for longer.
func (q *Request) over(g *guess, slower float64) (worst float64) {
	for i := range q.Targets {
		t := &q.Targets[i]
		is := [...]float64{g.ttft, g.tpot, g.tpot, g.e2e}[t.Of]
		switch {
		case t.At >= 0.9 && t.Of == TTFT:
			is = (g.ttft-g.wait)*max(q.Prompt.Quantile(t.At)/q.Prompt.MeanLength(), 1) + g.wait*(1-math.Log(1-t.At))
		case t.At >= 0.9 && t.Of == E2E:
			is *= max(q.Gen.Quantile(t.At)/q.Gen.MeanLength(), 1)
		}
		worst = max(worst, is*slower/float64(t.Most))
	}
	return worst
}

// steps is how many steps an answer decodes for.
func (q *Request) steps() float64 { return q.Gen.MeanLength() - 1 }

// workload is a batch of requests of mean lengths, in steps of at most so many tokens; 0 for the engine's.
func (q *Request) workload(batch, budget int) *analytic.Workload {
	prompt, gen := q.tokens()
	return &analytic.Workload{Batch: batch, PromptLen: prompt, GenLen: gen, Budget: budget, CachedPrefix: int(q.HitRate * float64(prompt))}
}

// end is the end of an interval that is asked for.
func (q *Request) end(s analytic.Span) unit.Seconds {
	if q.Expected {
		return s.Expected
	}
	return s.High
}
