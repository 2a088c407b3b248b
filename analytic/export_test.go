package analytic

import (
	"llmprof/roofline"
	"llmprof/unit"
)

// The inside of the package, for tests of it that need an engine, which imports it.

var (
	WindowPairs = windowPairs
	ChunkPairs  = chunkPairs
)

// A Sum is what a run of steps comes to.
type Sum struct {
	Expected, Floor unit.Seconds
	Work            roofline.Work
}

func sumOf(t *total) Sum { return Sum{t.expected, t.least, t.work} }

// steps is a step of a predictor that its own template fills.
func (p *Predictor) steps(batch, fresh, past, logits float64) Step {
	s := p.template()
	s.Batch, s.New, s.Past, s.Logits = batch, fresh, past, logits
	return s
}

// Template is the step itself, whose operators AppendOps lists.
func (p *Predictor) Template(batch, fresh, past, logits float64) Step {
	return p.steps(batch, fresh, past, logits)
}

// OneStep is what one step comes to.
func (p *Predictor) OneStep(batch, fresh, past, logits float64) Sum {
	s := p.steps(batch, fresh, past, logits)
	t := p.step(&s)
	return sumOf(&t)
}

// Run is what count steps come to, each stride tokens further than the one before.
func (p *Predictor) Run(batch, fresh, past, logits, stride, count float64) Sum {
	r := run{p: p, budget: maxSteps}
	t := r.sum(p.steps(batch, fresh, past, logits), stride, count)
	return sumOf(&t)
}

// Longest is the longest context whose cache fits into left, and what n tokens take.
func (p *Predictor) Longest(left unit.Bytes) int       { return p.footprint.longest(left) }
func (p *Predictor) Cached(context float64) unit.Bytes { return p.footprint.cached(context) }

// Phase is a phase of one kernel at the power limit, and what it draws.
func (m *Machine) Phase(k *roofline.Kernel) (unit.Seconds, unit.Watts) {
	var t timing
	c := m.prices.Cost(k)
	t.takes(&Kernel{Kernel: *k}, &c, m)
	m.limit(&t)
	return t.expected, m.draws(&t, 1)
}

// Draws is what the machine draws in a second of which its arithmetic, its memory and the
// starts of kernels take so much.
func (m *Machine) Draws(compute, memory, fixed unit.Seconds) unit.Watts {
	t := timing{expected: 1, compute: compute, fixed: fixed}
	var c roofline.Cost
	c.Times[roofline.Memory] = memory
	t.draw = m.DrawOf(&c)
	m.limit(&t)
	return m.draws(&t, 1)
}

// AtClock is how long the steps of a workload's prefill, or its decode step, take where
// arithmetic takes x times as long as on base, and what they draw there in shares of what
// lies between waiting and the limit.
func (p *Predictor) AtClock(base *Machine, w *Workload, x float64) (time, drawn float64) {
	r := run{p: p, budget: maxSteps}
	var t total
	if w.Gen == 1 {
		t = r.prefill(w)
	} else {
		s := p.FirstDecode(w)
		t = p.step(&s)
	}
	chip := base.Matrix*float64(t.compute)/x + float64(t.draw.Chip)
	return float64(t.expected), chip/x + float64(t.draw.Memory) + base.others(t.network, t.fixed)
}
