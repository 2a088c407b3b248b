package plan

import (
	"math"
	"slices"

	"llmprof/analytic"
	"llmprof/unit"
)

// atLeast bounds from below how many units the load takes, and the energy: no more requests a second are
// answered than by a batch, started together, of as many sequences as the memory has room for. Of clients that wait
// for their answers there are no more in a batch than there are.
func (s *search) atLeast(c *config, units *analytic.Prepared, fits int) (why string) {
	rate, clients := s.q.rate(), s.q.Load.Concurrency
	if rate == 0 && s.q.By != Energy && s.q.By != Throughput {
		return ""
	}
	var most float64
	c.energy = math.Inf(1)
	w := wave{p: units.Predictor, q: s.q, budget: s.longest(units.Predictor)}
	for _, batch := range append([]int{c.MicroBatches}, s.q.Batches...) {
		if batch%c.MicroBatches != 0 {
			continue
		}
		tpot, all, energy, err := w.of(batch)
		s.searched++
		if err != nil {
			break
		}
		most = max(most, float64(batch*c.DP)/float64(all))
		c.energy = min(c.energy, float64(energy)/float64(s.q.Gen)/s.gain()/s.spared())
		if s.q.Targets.TPOT > 0 && tpot.Times(c.slower/s.gain()) > s.q.Targets.TPOT || batch > 2*fits || clients > 0 && batch >= clients {
			break
		}
	}
	if c.rate = most * s.gain() / c.slower; rate == 0 {
		return ""
	}
	c.least = max(int(math.Ceil(rate*c.slower/(most*s.gain()))), 1)
	if c.least*c.GPUs > s.q.MaxGPUs {
		return s.tooMany(c, c.least)
	}
	if s.q.Budget > 0 && float64(s.card.Price)*float64(c.least*c.GPUs) > float64(s.q.Budget) {
		return s.tooMany(c, c.least)
	}
	return ""
}

// spared is by how many times prompts and decodes that share steps take less energy than by themselves, at most. In a mixture
// decodes come with the experts that prompts have read. Both are above what random cases need (TestBounds): they are not derived.
func (s *search) spared() float64 {
	if hasExperts(s.q.Model) {
		return 1.5
	}
	return 1.25
}

// A wave is batches that start together, with each step as long as the one at the mean context.
type wave struct {
	p      *analytic.Predictor
	q      *Request
	budget int               // most tokens of a step that any server of the search has; 0 for no limit
	prompt analytic.Estimate // prefill of as many prompts as one step takes, or of one that several take
	batch  int               // of it
	share  float64           // of the tokens that its steps have room for
}

// of bounds the time between tokens of a batch, the time until all of it is answered, and the energy of a request from below. A
// step that has prompts and decodes takes no less than one of either alone.
func (w *wave) of(batch int) (tpot, all unit.Seconds, energy unit.Joules, err error) {
	if err = w.prefill(batch); err != nil {
		return 0, 0, 0, err
	}
	// Prompts that do not fit one step follow each other, and fill steps to the last token.
	all = (w.prompt.TTLT.Expected - w.p.RequestTime()).Times(float64(batch) / float64(w.batch) * w.share)
	energy = w.prompt.Energy.PerRequest.Times(w.share)
	if n := w.q.Gen - 1; n > 0 {
		step := w.p.DecodeCost(float64(batch), float64(w.q.Prompt)+float64(n)/2)
		tpot = step.Time
		all = max(all, tpot.Times(float64(n)))
		energy += step.Energy.Times(float64(n) / float64(batch))
	}
	return tpot, all, energy, nil
}

// prefill predicts the prefill of a batch, or of as many of its prompts as one step takes.
func (w *wave) prefill(batch int) (err error) {
	if w.share = 1; w.budget > 0 && batch*w.q.Prompt > w.budget {
		batch = max(w.budget/w.q.Prompt, 1)
		steps := (w.q.Prompt + w.budget - 1) / w.budget
		w.share = float64(batch*w.q.Prompt) / float64(steps*w.budget)
	}
	if batch == w.batch {
		return nil
	}
	w.batch = batch
	w.prompt, err = w.p.Predict(&analytic.Workload{Batch: batch, PromptLen: w.q.Prompt, GenLen: 1, Budget: w.budget})
	return err
}

// longest is the most tokens of a step that any server has that is tried; 0 where steps have no limit.
func (s *search) longest(p *analytic.Predictor) int {
	budget := int(p.Budget())
	if budget > 0 && s.q.rate() > 0 && len(s.q.Budgets) > 0 {
		budget = max(budget, slices.Max(s.q.Budgets))
	}
	return budget
}

// gain is by how many times speculation may shorten a decode at most.
func (s *search) gain() float64 {
	if len(s.q.Drafts) == 0 || s.q.rate() == 0 {
		return 1
	}
	return float64(1 + slices.Max(s.q.Drafts))
}
