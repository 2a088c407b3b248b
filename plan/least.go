package plan

import (
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/operator"
	"llmprof/unit"
)

// atLeast bounds from below how many units the load takes, the energy, and the time of a request: no request takes less of a replica
// than its share of steps with as many sequences as the memory has room for. Of clients that wait for their answers there are no more
// in a step than there are.
func (s *search) atLeast(c *config, units *analytic.Prepared, fits int) (why string) {
	if s.q.rate() == 0 && s.q.By == Cost {
		return ""
	}
	w := wave{p: units.Predictor, q: s.q, budgets: s.budgets(units.Predictor)}
	took, energy := w.least(s, c, fits)
	took, energy = took.Times(1/s.gain()), energy.Times(1/s.gain())
	busy := took
	c.rate = float64(c.DP) / float64(took) / c.slower
	if s.q.rate() > 0 {
		if c.least = max(int(math.Ceil(s.q.rate()/c.rate)), 1); c.least*c.GPUs > s.q.MaxGPUs || s.dear(c, c.least) {
			return s.tooMany(c, c.least)
		}
		busy = unit.Seconds(float64(c.least*c.DP) / (s.q.rate() * c.slower)) // GPUs draw power while no step runs, too
	}
	c.energy = float64(energy+w.waiting().For(busy)) / float64(s.q.Gen)
	if s.q.By == Latency {
		c.latency = w.longest(s, c)
	}
	return ""
}

// dear reports whether so many units are over the budget.
func (s *search) dear(c *config, units int) bool {
	return s.q.Budget > 0 && float64(s.card.Price)*float64(units*c.GPUs) > float64(s.q.Budget)
}

// A wave is steps of one replica in which sequences decode, with a context that is their mean over time, beside prompts.
type wave struct {
	p       *analytic.Predictor
	q       *Request
	budgets []int             // most tokens of a step that servers of the search have
	prompt  analytic.StepCost // what a prompt adds to steps at the least
}

// least bounds the time of a replica that a request takes, and the energy beyond that of GPUs that wait.
func (w *wave) least(s *search, c *config, fits int) (took unit.Seconds, energy unit.Joules) {
	took, energy = unit.Seconds(math.Inf(1)), unit.Joules(math.Inf(1))
	most := math.Inf(1)
	if n := s.q.Load.Concurrency; n > 0 {
		most = max(float64(n)/float64(c.DP), 1)
	} else if t := s.q.Targets.TPOT; t > 0 { // no more decode on average than come while one does
		most = max(s.q.rate()*float64(s.q.Gen-1)*float64(t)/float64(c.DP), 1)
	}
	var steps []analytic.StepCost
	var batches []float64
	for _, n := range append(append([]int{1}, s.q.Batches...), max(c.Batch, s.q.Batches[len(s.q.Batches)-1])) {
		batch := min(float64(n), most)
		steps, batches = append(steps, w.decode(batch)), append(batches, batch)
		if s.q.Targets.TPOT > 0 && steps[len(steps)-1].Time.Times(c.slower/s.gain()) > s.q.Targets.TPOT || n > 2*fits || batch == most {
			break
		}
	}
	last := len(steps) - 1
	w.adds(batches[0], &steps[0])
	w.adds(batches[last], &steps[last])
	n := float64(s.q.Gen - 1)
	for i := range steps {
		took = min(took, steps[i].Time.Times(n/batches[i])+w.prompt.Time)
		energy = min(energy, w.beyond(&steps[i]).Times(n/batches[i])+w.prompt.Energy)
	}
	return took, energy
}

// decode is a step in which a batch decodes and nothing else is.
func (w *wave) decode(batch float64) analytic.StepCost {
	if w.q.Gen == 1 {
		return analytic.StepCost{}
	}
	return w.p.DecodeCost(batch, w.context())
}

func (w *wave) context() float64 { return float64(w.q.Prompt) + float64(w.q.Gen-1)/2 }

// adds works out what a prompt adds to a step in which a batch decodes: what steps with one prompt, and with as many as there is room for,
// take more, for each of them. The host launches it while the step before runs.
func (w *wave) adds(batch float64, decodes *analytic.StepCost) {
	for _, budget := range w.budgets {
		room := max(float64(budget)-batch, float64(budget)/64, 1)
		tokens := float64(w.q.Prompt)
		for _, chunk := range []float64{min(tokens, room), min(max(math.Floor(room/tokens), 1)*tokens, room)} {
			groups := []operator.Group{{Batch: batch, New: 1, Past: w.context(), Logits: 1}, {Batch: chunk / min(chunk, tokens), New: min(chunk, tokens), Past: max(tokens-chunk, 0) / 2, Logits: 1}}
			if w.q.Gen == 1 {
				groups = groups[1:]
			}
			c := w.p.StepCost(groups, 0)
			each := tokens / chunk
			time, energy := max(c.Time-c.Waits-decodes.Time, 0).Times(each), max(w.beyond(&c)-w.beyond(decodes), 0).Times(each)
			if w.prompt.Time == 0 || time < w.prompt.Time {
				w.prompt.Time = time
			}
			if w.prompt.Energy == 0 || energy < w.prompt.Energy {
				w.prompt.Energy = energy
			}
		}
	}
}

// beyond is the energy of a step beyond that of GPUs that wait.
func (w *wave) beyond(c *analytic.StepCost) unit.Joules { return c.Energy - w.waiting().For(c.Time) }

// fewer is a step in which one sequence fewer decodes than do on average: the times of steps have stairs, and averages lie between them.
func (w *wave) fewer(batch float64) analytic.StepCost { return w.decode(max(math.Floor(batch)-1, 1)) }

// waiting is what a replica draws while no step runs.
func (w *wave) waiting() unit.Watts {
	gpus, _ := w.p.Replica()
	return unit.Watts(float64(w.p.Waiting()) * float64(gpus))
}

// longest bounds the time of a request where there are as many units as are allowed: clients that wait are as many as the requests that
// are answered in it (Little's law). At a rate a sequence decodes beside as many as come while it does.
func (w *wave) longest(s *search, c *config) unit.Seconds {
	n := float64(s.q.Gen - 1)
	replicas := float64(max(s.mostUnits(c, math.Inf(1)), 1) * c.DP)
	if clients := s.q.Load.Concurrency; clients > 0 {
		each := max(float64(clients)/replicas, 1)
		step := w.fewer(each)
		return step.Time.Times(n) + w.prompt.Time.Times(each)
	}
	if s.gain() > 1 || n == 0 {
		return 0
	}
	batch, time := 1.0, unit.Seconds(0)
	for range 4 {
		step := w.fewer(batch)
		time = step.Time.Times(n)
		batch = max(s.q.rate()*c.slower/replicas*float64(time), 1)
	}
	return c.single.TTFT.Expected + time
}

// budgets are the most tokens of a step that servers of the search have: the scheduler's, and the least and the largest that is tried.
func (s *search) budgets(p *analytic.Predictor) []int {
	all := []int{int(p.Budget())}
	if s.q.rate() > 0 && len(s.q.Budgets) > 0 {
		all = append(all, slices.Min(s.q.Budgets), slices.Max(s.q.Budgets))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// gain is by how many times speculation may shorten a decode at most.
func (s *search) gain() float64 {
	if len(s.q.Drafts) == 0 || s.q.rate() == 0 {
		return 1
	}
	return float64(1 + slices.Max(s.q.Drafts))
}
