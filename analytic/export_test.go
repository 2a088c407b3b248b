package analytic

import (
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

func sumOf(t *total) Sum { return Sum{t.Expected, t.least, t.Work} }

// OneStep is what one step comes to.
func (p *Predictor) OneStep(batch, fresh, past, logits float64) Sum {
	s := p.Step(batch, fresh, past, logits)
	var t total
	p.step(&t, &s)
	return sumOf(&t)
}

// Run is what count steps come to.
func (p *Predictor) Run(batch, fresh, past, logits, count float64) Sum {
	r := runner{p: p, budget: maxSteps}
	var t total
	r.sum(&t, &operator.Run{First: p.Step(batch, fresh, past, logits), Steps: int(count)})
	return sumOf(&t)
}

// AtClock is how long the steps of a workload's prefill, or its decode step, take where
// arithmetic takes x times as long as on base, and what they draw there in shares of what
// lies between waiting and the limit.
func (p *Predictor) AtClock(base *Machine, w *Workload, x float64) (time, drawn float64) {
	r := runner{p: p, budget: maxSteps}
	var t total
	if w.GenLen == 1 {
		runs := p.Prefill(w)
		r.prefill(&t, &runs)
	} else {
		s := p.FirstDecode(w)
		p.step(&t, &s)
	}
	t.Compute = t.Compute.Times(1 / x)
	return float64(t.Expected), float64(base.Active(&t.Busy, x)) / float64(base.Rest)
}

// Work is that of a step of several groups.
func (p *Predictor) Work(groups ...operator.Group) roofline.Work {
	s := p.Mixed(groups)
	var t total
	p.step(&t, &s)
	return t.Work
}

// Scatter is the half-widths that the shapes of kernels give the phases of the workload that
// was predicted last.
func (p *Prepared) Scatter() (prefill, decode float64) {
	return p.prompt.scattered(), p.decoded.scattered()
}

// Unfitted is the shares of the kernels' time, in the phases of the workload that was predicted last, whose constants were
// not read off the board.
func (p *Prepared) Unfitted() (prefill, decode float64) {
	return p.prompt.share(p.prompt.unfitted), p.decoded.share(p.decoded.unfitted)
}

// Scatter is the half-width of the times of a step's kernels that the residuals of their laws give.
func (p *Predictor) Scatter(batch, fresh, past, logits float64) unit.Seconds {
	s := p.Step(batch, fresh, past, logits)
	var t total
	p.step(&t, &s)
	return t.scatter
}
