package plan

import (
	"math"
	"slices"
	"sort"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/serving"
	"llmprof/unit"
)

// atLeast bounds from below how many units the load takes, the energy, and the time of a request: no request takes less of a replica
// than its share of steps with as many sequences as the memory has room for. Of clients that wait for their answers there are no more
// in a step than there are.
func (s *search) atLeast(c *config, w *wave, fits int) (open bool) {
	if s.q.rate() == 0 {
		if !w.enough(s, c) {
			return false
		}
		if s.q.cheapest() {
			return true
		}
	}
	took, energy := w.least(s, c, fits)
	busy := took
	c.rate = float64(c.DP) / float64(took) / c.slower
	if s.q.rate() > 0 {
		if c.least = max(int(math.Ceil(s.q.rate()/c.rate)), 1); c.least*c.GPUs > s.q.MaxGPUs || s.dear(c, c.least) {
			s.tooMany(c, c.least)
			return false
		}
		busy = 0
	}
	c.work = float64(energy+w.waiting().For(busy)) / s.q.Gen.MeanLength() * s.lone(&c.Row)
	if s.q.By == Latency {
		c.latency = w.longest(s, c)
	}
	return true
}

// waits is what GPUs of a unit draw that wait, for each token that comes at a rate.
func (s *search) waits(r *Row) float64 {
	rate := s.q.rate()
	if rate == 0 {
		return 0
	}
	return float64(s.card.Machine.Waiting) * float64(r.GPUs) / rate / s.q.Gen.MeanLength() * s.lone(r)
}

// lone is the part of the energy that is certain where replicas share experts at a rate: those of all serve a prompt that comes alone, so
// that it takes less than one of several that each replica has. Random cases come to 13 % less, and with drafts, by which answers take
// fewer steps beside their prompt, to 19 % (TestBoundsOfEnergy).
func (s *search) lone(r *Row) float64 {
	switch {
	case s.q.rate() == 0 || r.Split.sharing() == 1:
		return 1
	case s.gain() > 1:
		return 0.8
	}
	return 0.85
}

// dear reports whether so many units are over the budget.
func (s *search) dear(c *config, units int) bool {
	return s.q.Budget > 0 && float64(s.card.Price)*float64(units*c.GPUs) > float64(s.q.Budget)
}

// A wave is steps of one replica in which sequences decode, with a context that is their mean over time, beside prompts.
type wave struct {
	p        *analytic.Predictor
	q        *Request
	budgets  []int             // most tokens of a step that servers of the search have
	shortest int               // most tokens of the shortest of steps
	gain     float64           // tokens of a decode step, by speculation more than one
	drafts   int               // tokens that a decode step verifies besides those of its own at least
	prompt   analytic.StepCost // what a prompt adds to steps at the least
	full     unit.Seconds      // time of a step that is full of prompts; 0 before it is known
	// Decode steps, by their batch, context, sequences of all replicas that share experts, and drafts.
	known map[[4]float64]analytic.StepCost
}

// wave prices the steps that deployments are bounded by, which are the same for any number of units.
func (s *search) wave(p *analytic.Predictor, sequences int) *wave {
	shortest := s.shortest(p, sequences)
	return &wave{p: p, q: s.q, budgets: s.budgets(p, shortest), shortest: shortest, gain: s.gain()}
}

// forget frees the steps that were priced, and the predictor.
func (w *wave) forget() { w.p, w.known = nil, nil }

// least bounds the time of a replica that a request takes, and the energy beyond that of GPUs that wait.
func (w *wave) least(s *search, c *config, fits int) (took unit.Seconds, energy unit.Joules) {
	most := math.Inf(1)
	if n := s.q.Load.Concurrency; n > 0 {
		most = max(float64(n)/float64(c.DP), 1)
	} else if t := s.q.Targets.TPOT; t > 0 { // no more decode on average than come while one does
		most = max(s.q.rate()*s.q.steps()*float64(t)/float64(c.DP), 1)
	}
	return w.among(w.upTo(c.Batch, min(most, float64(w.q.roomless(c.Batch, fits)))), c.slower/w.gain)
}

// upTo are steps of the sizes up to the first that has as many sequences as decode at most.
func (w *wave) upTo(batch int, most float64) (all []decoding) {
	for _, n := range w.q.sizes(batch) {
		d := decoding{batch: min(float64(n), most)}
		if all = append(all, d); d.batch == most {
			break
		}
	}
	return all
}

// roomless is the first size of which the memory has no room for half; the largest where it has.
func (q *Request) roomless(batch, fits int) int {
	sizes := q.sizes(batch)
	for _, n := range sizes {
		if n > 2*fits {
			return n
		}
	}
	return sizes[len(sizes)-1]
}

// among is the least where on average one of these batches decodes, of rising size, and none beyond the first whose step takes longer than
// the target, by so much slower than expected.
func (w *wave) among(all []decoding, slower float64) (took unit.Seconds, energy unit.Joules) {
	if target := w.q.Targets.TPOT; target > 0 {
		first := sort.Search(len(all)-1, func(i int) bool { return w.decode(all[i].batch).Time.Times(slower) > target })
		all = all[:first+1]
	}
	took, energy = w.share(all)
	w.prompt = w.adds(all[0], all[len(all)-1])
	return took.Times(1/w.gain) + w.prompt.Time, energy.Times(1/w.gain) + w.prompt.Energy
}

// share is the least that the steps of an answer take for each of the sequences that decode. A larger batch shortens no step and saves no
// energy, so that batches between two are not priced where a step of the smaller one takes more than the least even if it is shared by as
// many as they have at most.
func (w *wave) share(all []decoding) (took unit.Seconds, energy unit.Joules) {
	took, energy = unit.Seconds(math.Inf(1)), unit.Joules(math.Inf(1))
	each := func(d *decoding, batch float64) (unit.Seconds, unit.Joules) {
		return d.Time.Times(w.q.steps() / batch), w.beyond(&d.StepCost).Times(w.q.steps() / batch)
	}
	price := func(d *decoding) {
		d.StepCost = w.decode(d.batch)
		time, joules := each(d, d.batch)
		took, energy = min(took, time), min(energy, joules)
	}
	var between func(some []decoding)
	between = func(some []decoding) {
		last := len(some) - 1
		if last < 2 {
			return
		}
		if time, joules := each(&some[0], some[last-1].batch); time >= took && joules >= energy {
			return
		}
		price(&some[last/2])
		between(some[last/2:])
		between(some[:last/2+1])
	}
	price(&all[0])
	price(&all[len(all)-1])
	between(all)
	return took, energy
}

// A decoding is a step in which a batch decodes and nothing else is.
type decoding struct {
	batch float64
	analytic.StepCost
}

// sizes are batches up to the largest that a server of the search may have.
func (q *Request) sizes(batch int) []int {
	all := slices.Compact(append([]int{1}, q.Batches...))
	most := max(batch, all[len(all)-1])
	if len(q.Limits) > 0 {
		most = max(most, slices.Max(q.Limits))
	}
	return append(all, most)
}

// decode is a step in which a batch decodes and nothing else is.
func (w *wave) decode(batch float64) analytic.StepCost {
	return w.step(batch, w.context(), batch*float64(w.p.Par.ExpertReplicas()))
}

// step is a step in which a batch decodes with a mean context and nothing else is, where all replicas that share experts have so many
// sequences.
func (w *wave) step(batch, context, sequences float64) analytic.StepCost {
	if w.q.steps() == 0 {
		return analytic.StepCost{}
	}
	key := [4]float64{batch, context, sequences, float64(w.drafts)}
	c, ok := w.known[key]
	if !ok {
		if w.known == nil {
			w.known = map[[4]float64]analytic.StepCost{}
		}
		fresh, together := float64(1+w.drafts), 0.0 // each replica has as many
		if peers := float64(w.p.Par.ExpertReplicas()); sequences != batch*peers {
			together = sequences*fresh + max(peers-sequences, 0) // one that has nothing runs a token
		}
		c = w.p.StepCost([]operator.Group{{Batch: batch, New: fresh, Past: context, Logits: fresh, Drafted: w.drafts > 0}}, together)
		w.known[key] = c
	}
	return c
}

// context is that of a sequence that decodes, mean over time: longer answers decode for longer.
func (w *wave) context() float64 {
	return w.q.Prompt.MeanLength() + w.q.Gen.MeanSquare()/(2*w.q.Gen.MeanLength()) - 0.5
}

// steps is how many steps an answer decodes for.
func (q *Request) steps() float64 { return q.Gen.MeanLength() - 1 }

// adds bounds what a prompt adds to steps in which batches decode, mean over prompts.
func (w *wave) adds(decodes ...decoding) (mean analytic.StepCost) {
	prompts := w.q.Prompt.Quantiles()
	for _, tokens := range prompts {
		time, energy := w.added(float64(tokens), decodes)
		mean.Time += time.Times(1 / float64(len(prompts)))
		mean.Energy += energy.Times(1 / float64(len(prompts)))
	}
	return mean
}

// added is the least that a prompt adds: what steps with one like it, and with as many as there is room for, take more, for each of them.
// The host launches it while the step before runs. Prompts in all batches of a pipeline follow each other from stage to stage.
func (w *wave) added(tokens float64, decodes []decoding) (time unit.Seconds, energy unit.Joules) {
	time, energy = unit.Seconds(math.Inf(1)), unit.Joules(math.Inf(1))
	var chunks []float64
	for i := range decodes {
		d := &decodes[i]
		chunks = chunks[:0]
		for _, budget := range w.budgets {
			room := max(float64(budget)-d.batch, float64(budget)/64, 1)
			chunks = append(chunks, min(tokens, room), min(max(math.Floor(room/tokens), 1)*tokens, room))
		}
		slices.Sort(chunks)
		for _, chunk := range slices.Compact(chunks) {
			groups := []operator.Group{{Batch: d.batch, New: 1, Past: w.context(), Logits: 1},
				{Batch: chunk / min(chunk, tokens), New: min(chunk, tokens), Past: max(tokens-chunk, 0) / 2, Logits: 1}}
			if w.q.steps() == 0 {
				groups = groups[1:]
			}
			c := w.p.StepCost(groups, 0)
			each := tokens / chunk
			time = min(time, max(c.Time-c.Waits-d.Time, 0).Times(each))
			energy = min(energy, max(w.beyond(&c)-w.beyond(&d.StepCost), 0).Times(each))
		}
	}
	return time.Times(1 / float64(w.p.Par.MicroBatches)), energy
}

// beyond is the energy of a step beyond that of GPUs that wait.
func (w *wave) beyond(c *analytic.StepCost) unit.Joules { return c.Energy - w.waiting().For(c.Time) }

// fewer is a step in which one sequence fewer decodes than do on average: the times of steps have stairs, and averages lie between them.
func (w *wave) fewer(batch float64) analytic.StepCost { return w.decode(max(math.Floor(batch)-1, 1)) }

// fewerTogether is fewer at a rate, where replicas that share experts have the tokens of one sequence fewer for these in all.
func (w *wave) fewerTogether(batch float64) analytic.StepCost {
	each, sequences := w.together(batch)
	return w.step(each, w.context(), sequences)
}

// together is a sequence fewer than a batch of a replica, and than those of all replicas that share experts.
func (w *wave) together(batch float64) (each, sequences float64) {
	return max(math.Floor(batch)-1, 1), max(math.Floor(batch*float64(w.p.Par.ExpertReplicas()))-1, 1)
}

// waiting is what a replica draws while no step runs.
func (w *wave) waiting() unit.Watts {
	gpus, _ := w.p.Replica()
	return unit.Watts(float64(w.p.Waiting()) * float64(gpus))
}

// longest bounds the time of a request where there are as many units as are allowed: clients that wait are as many as the requests that
// are answered in it (Little's law). At a rate a sequence decodes beside as many as come while it does.
func (w *wave) longest(s *search, c *config) unit.Seconds {
	n := s.q.steps()
	replicas := float64(max(s.mostUnits(c, none), 1) * c.DP)
	if clients := s.q.Load.Concurrency; clients > 0 {
		each := max(float64(clients)/replicas, 1)
		step := w.fewer(each)
		time := step.Time.Times(n) + w.prompt.Time.Times(each)
		return time
	}
	if n == 0 {
		return 0
	}
	// The truth is up to 1.2 % below the bound in random cases, and 8.3 % of pipelines (TestBoundsOfLatency), as where replicas share experts.
	less := 0.98
	if c.Split.PP > 1 || c.Split.sharing() > 1 {
		less = 0.91
	}
	c.mixed = (c.single.TTFT.Expected + w.decodes(s.q.rate()*c.slower/replicas, w.prompt.Time)).Times(less)
	return min(c.mixed, w.apart(s, c, 1))
}

// apart is longest where so many units only prefill, and the others that are allowed decode. Without the factor the truth is up to 1.4 %
// below the bound in random cases, 5 % where replicas share experts, since the mean time of their steps is below that of a mean step, and
// 14 % where lengths differ besides (TestBoundsOfLatency).
func (w *wave) apart(s *search, c *config, prefill int) unit.Seconds {
	units := s.mostUnits(c, none) - prefill
	if units < 1 || s.q.Together {
		return unit.Seconds(infinite)
	}
	less := 0.98
	if w.p.Par.ExpertReplicas() > 1 {
		if less = 0.93; !w.q.fixed() {
			less = 0.8
		}
	}
	return (c.single.TTFT.Expected + w.decodes(s.q.rate()*c.slower/float64(units*c.DP), 0)).Times(less)
}

// decodes bounds the time for which a request decodes, where requests come to a replica at a rate and the prompt of each adds a time to
// its steps. A sequence decodes beside as many as come while it does (Little's law), which turn by turn lifts the bound. As many prompts
// lengthen its steps, but for one: a router that gives requests to replicas in turn lets all others have one before the next comes to the
// same replica.
func (w *wave) decodes(rate float64, prompt unit.Seconds) (time unit.Seconds) {
	share := 1 - rate*float64(prompt)
	if share <= 0 {
		return 0 // the steady state says that there is none
	}
	batch := 1 / float64(w.p.Par.ExpertReplicas()) // one sequence of all replicas that share experts
	steps := w.q.steps() / w.gain
	for range 8 {
		step := w.fewerTogether(batch)
		alone := step.Time.Times(steps)
		time = max(alone, (alone - prompt).Times(1/share))
		if prompt > 0 {
			time = max(time, alone+w.held(rate, batch, &step, steps))
		}
		more := rate * float64(time)
		if more < batch*1.02 {
			break
		}
		batch = more
	}
	return time
}

// held bounds by how much longer so many steps are for prompts that come to any of the replicas which share experts: all of them wait for
// one that has a prompt. Prompts that come in the same step may take as long as one, of which a step with little room has a part.
func (w *wave) held(rate, batch float64, step *analytic.StepCost, steps float64) unit.Seconds {
	peers := float64(w.p.Par.ExpertReplicas())
	if peers == 1 || w.p.Par.MicroBatches > 1 {
		return 0
	}
	each, sequences := w.together(batch)
	chunk := operator.Group{Batch: 1, New: min(w.q.Prompt.MeanLength(), max(float64(w.shortest)-batch, 1)), Logits: 1}
	c := w.p.StepCost([]operator.Group{{Batch: each, New: 1, Past: w.context(), Logits: 1}, chunk},
		sequences+max(peers-sequences-1, 0)+chunk.New)
	come := steps*(1-math.Exp(-rate*peers*float64(step.Time))) - 1
	return max(c.Time-c.Waits-step.Time, 0).Times(max(come, 0))
}

// enough bounds from below how many units clients that wait for their answers take, by their time per token, and says how many are likely.
// It reports whether as many as are allowed may do. Other limits of sequences than the scheduler's may shorten steps further.
func (w *wave) enough(s *search, c *config) bool {
	target := s.q.Targets.TPOT
	units := s.q.unlike(c, 1, s.mostUnits(c, none))
	if target == 0 || len(units) == 0 || len(s.q.Limits) > 0 {
		return true
	}
	few := sort.Search(len(units), func(i int) bool { return w.leastTPOT(s, c, units[i]) <= target })
	if few == len(units) {
		r, most := c.Row, units[few-1]
		s.sized(&r, most)
		s.tooSlow(c, &r, w.leastTPOT(s, c, most))
		return false
	}
	c.least = units[few]
	c.likely = units[few+sort.Search(len(units)-1-few, func(i int) bool { return w.likelyTPOT(s, c, units[few+i]) <= target })]
	return true
}

// likelyTPOT is about the time per token of clients that wait for their answers: that of a step, and a part of the prompts of the others.
func (w *wave) likelyTPOT(s *search, c *config, units int) unit.Seconds {
	each := w.clients(c, units)
	step := w.decode(each)
	return (step.Time + w.prompts(each-1).Times(1/s.q.steps())).Times(c.slower)
}

// clients is how many of those that wait for their answers are in the steps of a replica.
func (w *wave) clients(c *config, units int) float64 {
	return min(max(float64(w.q.Load.Concurrency)/float64(units*c.DP), 1), float64(c.Batch))
}

// prompts is the time of so many prompts in full steps.
func (w *wave) prompts(n float64) unit.Seconds {
	tokens := w.q.Prompt.MeanLength()
	together := max(math.Floor(float64(w.p.Budget())/tokens), 1)
	if w.full == 0 {
		w.full = w.p.StepCost([]operator.Group{{Batch: together, New: tokens, Logits: 1}}, 0).Time
	}
	return w.full.Times(n / together)
}

// leastTPOT bounds the time per token of clients that wait for their answers, at the end of the interval that is asked for: of the time of
// a request, which longest bounds, the prompts of all clients of a replica may take a part, in full steps and in the two at either end. By
// Little's law no larger part of the clients waits for first tokens, and the steps of the others have as many sequences. The host keeps a
// first token for as long as it launches the next step, which takes less than a prompt does. It is 0, for no bound, where answers are too
// short for that. Clients of a pipeline of several batches that come back together are all in one of them, and may take less: the
// deployment with one batch has as good a row then.
func (w *wave) leastTPOT(s *search, c *config, units int) unit.Seconds {
	n := s.q.steps()
	if s.q.Load.Concurrency == 0 || n < fewestSteps || c.MicroBatches > 1 && !s.q.fixed() { // batches of a pipeline differ with the lengths
		return 0
	}
	each, ttft := w.clients(c, units), c.single.TTFT.Expected
	before := min(w.prompts(each)+ttft.Times(2), ttft.Times(each))
	least := w.fewer(each).Time - before.Times(1/n)
	decodes := max(least, w.mean(1, each)).Times(n)
	return max(least, w.mean(each*float64(decodes/(before+decodes)), each)-ttft.Times(1/n)).Times(c.slower)
}

// fewestSteps is the steps of the shortest answers whose time per token is bounded.
const fewestSteps = 8

// mean bounds the mean step of an answer that decodes beside between few and many sequences: half of its steps have no less than the mean
// context, and the others no less than that of a prompt. Where an engine changes kernels many may take less time than few. Prompts may let
// the host launch steps ahead.
func (w *wave) mean(few, many float64) unit.Seconds {
	least := unit.Seconds(math.Inf(1))
	for _, batch := range [...]float64{max(math.Floor(few)-1, 1), max(many, 1)} {
		early, middle := w.step(batch, w.q.Prompt.MeanLength(), batch*float64(w.p.Par.ExpertReplicas())), w.decode(batch)
		least = min(least, (early.Time - early.Waits + middle.Time - middle.Waits).Times(0.5))
	}
	return least
}

// dividedTPOT bounds the time per token of clients that do not divide evenly over replicas, by that of replicas which all have the fewest
// clients of one: one such replica is simulated in a hundredth of the time. Random cases come to 1.4 % less (TestBounds).
func (s *search) dividedTPOT(c *config, units int) unit.Seconds {
	clients, replicas := s.q.Load.Concurrency, units*c.DP
	if clients < replicas || clients%units == 0 || s.q.steps() < fewestSteps || s.q.Gen.Kind != "fixed" || s.q.prepare(c) != nil {
		return 0
	}
	st, err := c.steadies.Clients(clients/replicas*c.DP, serving.Layout{Replicas: c.DP})
	if err != nil {
		return 0
	}
	return st.TPOT.Times(0.97 * c.slower)
}

// farther reports whether the targets are missed with so many units of a deployment, and no row or miss of the card depends on by how
// much. The steady state need not be worked out then.
func (s *search) farther(c *config, units int) bool { return s.outdone(s.leastMiss(c, units)) }

// outdone reports whether a miss by at least so much is no nearer than another one of the card, or than a row.
func (s *search) outdone(by float64) bool {
	return by > 1 && (len(s.rows) > 0 || by >= s.miss.By)
}

// leastMiss bounds by how many times too much a time is, with so many units of a deployment.
func (s *search) leastMiss(c *config, units int) float64 {
	if s.q.rate() > 0 {
		return s.leastOpenMiss(c, units)
	}
	t := &s.q.Targets
	longest := t.TTFT + t.TPOT.Times(s.q.steps())
	if t.TTFT == 0 || t.TPOT == 0 {
		longest = unit.Seconds(math.Inf(1))
	}
	if t.E2E > 0 {
		longest = min(longest, t.E2E)
	}
	if math.IsInf(float64(longest), 1) || s.q.By == Energy || len(s.q.Limits) > 0 {
		return 0
	}
	return float64(s.leastE2E(c, units) / longest)
}

// leastOpenMiss bounds by how many times too much the time per token is at a rate, where so many units decode: by steps without prompts.
// Random cases come to 1 % less (TestBounds), and to less still where lengths differ or batches of a pipeline wait for each other.
func (s *search) leastOpenMiss(c *config, units int) float64 {
	less := 0.97
	switch {
	case s.q.Targets.TPOT == 0 || s.q.steps() == 0 || !s.q.fixed():
		return 0
	case c.MicroBatches > 1:
		less = 0.9
	}
	w := *c.wave
	w.gain, w.drafts = s.yields(c.Drafts), c.Drafts
	decode := w.decodes(s.q.rate()*c.slower/float64(units*c.DP), 0)
	return less * float64(decode/s.q.Targets.TPOT) * c.slower / s.q.steps()
}

// leastE2E bounds the time of a request of clients that wait for their answers, at the end of the interval that is asked for. By
// Little's law it is as many times what a request takes of a replica as there are clients of one. The times of steps have stairs, and
// averages lie up to 5 % below them in random cases (TestBounds).
func (s *search) leastE2E(c *config, units int) unit.Seconds {
	const less = 0.9
	if c.MicroBatches > 1 {
		return 0
	}
	each := max(float64(s.q.Load.Concurrency)/float64(units*c.DP), 1)
	w := *c.wave
	took, _ := w.among(w.upTo(c.Batch, each), 0)
	return took.Times(each * c.slower * less)
}

// budgets are the most tokens of a step that servers of the search have: the scheduler's, and the shortest and the largest that are tried.
func (s *search) budgets(p *analytic.Predictor, shortest int) []int {
	all := []int{int(p.Budget())}
	if s.q.rate() > 0 && len(s.q.Budgets) > 0 {
		all = append(all, shortest, slices.Max(s.q.Budgets))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// shortest is the most tokens of the shortest steps that are tried with so many sequences.
func (s *search) shortest(p *analytic.Predictor, sequences int) int {
	least := int(p.Budget())
	for _, n := range s.q.Budgets {
		if n >= 2*sequences {
			least = min(least, n)
		}
	}
	return least
}

// gain is by how many times speculation may shorten a decode at most.
func (s *search) gain() float64 {
	if len(s.q.Drafts) == 0 || s.q.rate() == 0 {
		return 1
	}
	return s.yields(slices.Max(s.q.Drafts))
}

// yields is the mean of the tokens that a decode step with so many drafts gains for a sequence.
func (s *search) yields(drafts int) float64 {
	return (&serving.Speculation{Drafts: drafts, Acceptance: s.q.Acceptance}).Yields()
}
