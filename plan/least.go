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
	w := wave{p: units.Predictor, q: s.q}
	for _, batch := range append([]int{c.MicroBatches}, s.q.Batches...) {
		if batch%c.MicroBatches != 0 {
			continue
		}
		tpot, all, energy, err := w.of(batch)
		s.searched++
		if err != nil {
			break
		}
		// Sequences come and go: they hold less cache than a batch at its longest.
		most = max(most, 1.25*float64(batch*c.DP)/float64(all))
		c.energy = min(c.energy, float64(energy)/float64(s.q.Gen)/1.25/s.gain())
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

// A wave is batches that start together, with each step as long as the one at the mean context.
type wave struct {
	p      *analytic.Predictor
	q      *Request
	prompt analytic.Estimate // prefill of the last batch that one step takes, or the first that several do
	batch  int               // of it
}

// of is the time between tokens of a batch, the time until all of it is answered, and the energy of a request.
func (w *wave) of(batch int) (tpot, all unit.Seconds, energy unit.Joules, err error) {
	if tokens := float64(w.batch * w.q.Prompt); w.batch == 0 || w.p.Budget() == 0 || tokens < w.p.Budget() {
		one := analytic.Workload{Batch: batch, PromptLen: w.q.Prompt, GenLen: 1}
		if w.prompt, err = w.p.Predict(&one); err != nil {
			return 0, 0, 0, err
		}
		w.batch = batch
	}
	// Prompts that do not fit one step follow each other.
	all, energy = w.prompt.TTLT.Expected.Times(float64(batch)/float64(w.batch)), w.prompt.Energy.PerRequest
	if n := w.q.Gen - 1; n > 0 {
		step := w.p.DecodeCost(float64(batch), float64(w.q.Prompt)+float64(n)/2)
		tpot = step.Time
		all += tpot.Times(float64(n))
		energy += step.Energy.Times(float64(n) / float64(batch))
	}
	return tpot, all, energy, nil
}

// gain is by how many times speculation may shorten a decode at most.
func (s *search) gain() float64 {
	if len(s.q.Drafts) == 0 || s.q.rate() == 0 {
		return 1
	}
	return float64(1 + slices.Max(s.q.Drafts))
}
