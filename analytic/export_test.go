package analytic

import (
	"llmprof/analytic/energy"
	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// The inside of the package, for tests of it that need an engine, which imports it.

// A Sum is what a run of steps comes to.
type Sum struct {
	Expected, Floor unit.Seconds
	Work            roofline.Work
}

func totalOf(t *total) Sum { return Sum{t.Expected, t.least, t.Work} }

// OneStep is what one step comes to.
func (p *Predictor) OneStep(batch, fresh, past, logits float64) Sum {
	s := p.Step(batch, fresh, past, logits)
	var t total
	p.step(&t, &s, estimate)
	return totalOf(&t)
}

// Run is what count steps come to.
func (p *Predictor) Run(batch, fresh, past, logits, count float64) Sum {
	r := runner{p: p, detail: estimate, budget: maxSteps}
	var t total
	r.sum(&t, &operator.Run{First: p.Step(batch, fresh, past, logits), Steps: int(count), Times: 1})
	return totalOf(&t)
}

// AtClock is how long the steps of a workload's prefill, or its decode step, take where
// arithmetic takes x times as long as on base, and what they draw there in shares of what
// lies between waiting and the limit.
func (p *Predictor) AtClock(base *Machine, w *Workload, x float64) (time, drawn float64) {
	r := runner{p: p, detail: times, budget: maxSteps}
	var t total
	if w.GenLen == 1 {
		r.prefill(&t, w)
	} else {
		s := p.FirstDecode(w)
		p.step(&t, &s, estimate)
	}
	t.Compute = t.Compute.Times(1 / x)
	return float64(t.Expected), float64(base.Active(&t.Busy, energy.Clocks{At: x, Own: x})) / float64(base.Rest)
}

// Work is that of a step of several groups.
func (p *Predictor) Work(groups ...operator.Group) roofline.Work {
	s := p.Mixed(groups)
	var t total
	p.step(&t, &s, estimate)
	return t.Work
}

// Unfitted is the share of the kernels' time in a decode step whose constants were not read off the board.
func (p *Predictor) Unfitted(s *operator.Step) float64 {
	var t total
	p.step(&t, s, estimate)
	return t.share(t.unmeasured.low) / p.machine.Cal.Board
}

// Scatter is the half-width of the times of a step's kernels that the residuals of their laws give.
func (p *Predictor) Scatter(batch, fresh, past, logits float64) unit.Seconds {
	s := p.Step(batch, fresh, past, logits)
	var t total
	p.step(&t, &s, estimate)
	return t.scatter
}

// Slopes is the time of a step and its derivatives.
func (p *Predictor) Slopes(s *operator.Step) (unit.Seconds, *roofline.Slopes) {
	var t total
	p.step(&t, s, estimate)
	return t.Expected, &t.slopes
}

// Spreads is what uncertain constants leave of the interval of both phases.
func (p *Predictor) Spreads(w *Workload) (prefill, decode float64) {
	_, first, rest, err := p.predict(w, estimate, false)
	if err != nil {
		return 0, 0
	}
	return p.machine.evidence.spread(&first), p.machine.evidence.spread(&rest)
}

// UnmeasuredFormat is how far kernels of a class may be off whose number format was not measured.
func UnmeasuredFormat(c roofline.Class) (low, high float64) {
	e := unmeasuredFormat(c)
	return e.low, e.high
}
