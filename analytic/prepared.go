package analytic

import (
	"math"
	"sync"

	"llmprof/roofline"
	"llmprof/unit"
)

// A Prepared answers for many workloads of one case, each with the interval that
// Calibrated gives it. It remembers the prefill and the first decode step of the
// workload before, which workloads that differ in their generated length alone share. It
// is for one goroutine.
type Prepared struct {
	*Predictor
	machines *Machines
	priced   *Predictor // the same one; it remembers steps where there are constants to move
	interval *Prepared  // gives the intervals: by the constants of the calibration alone
	moved    []movedPredictor

	last      Workload // whose prefill is remembered
	known     bool
	prompt    total
	promptOff float64
	first     firstStep
	run       Workload // whose decode steps are remembered; the zero one where none are
	decoded   total
}

// A movedPredictor has one constant at the slow end of its interval.
type movedPredictor struct {
	*Predictor
	first firstStep
}

// Prepare prepares for estimates of c on a machine of all, or on one that differs from it
// in constants that were asked for, whatever the Workload.
func (c *Case) Prepare(all *Machines, on *Machine) (*Prepared, error) {
	own := *c
	own.Machine = on
	p, err := NewPredictor(&own)
	if err != nil {
		return nil, err
	}
	prepared := newPrepared(p, all)
	if on != all.Machine {
		prepared.interval = newPrepared(p.on(all.Machine), all)
	}
	prepared.interval.move()
	return prepared, nil
}

// newPrepared answers by one machine, without an interval.
func newPrepared(p *Predictor, all *Machines) *Prepared {
	prepared := &Prepared{Predictor: p, priced: p, machines: all}
	prepared.interval = prepared
	return prepared
}

// move adds the predictors of which each has one constant moved.
func (p *Prepared) move() {
	if len(p.machines.moved) == 0 {
		return
	}
	p.priced = p.on(p.machine)
	p.priced.known = &pricedSteps{base: p.Predictor}
	for i := range p.machines.moved {
		m := &p.machines.moved[i]
		moved := p.on(m.Machine)
		moved.known, moved.changed = p.priced.known, m.changed
		p.moved = append(p.moved, movedPredictor{Predictor: moved})
	}
}

// on is the predictor on another machine of the same GPU and engine.
func (p *Predictor) on(m *Machine) *Predictor {
	q := *p
	q.machine = m
	return &q
}

// Predict answers for one workload.
func (p *Prepared) Predict(w *Workload) (Estimate, error) {
	e, _, err := p.predict(w)
	return e, err
}

// predict answers for one workload, and says how wide its interval is.
func (p *Prepared) predict(w *Workload) (e Estimate, off widths, err error) {
	if err := w.Check(p.Par.MicroBatches); err != nil {
		return e, off, err
	}
	p.prefills(w)
	decode := &total{}
	if w.GenLen > 1 {
		decode = p.decodes(w)
	}
	off = p.interval.widths(w)
	p.fill(&e, w, &p.prompt, decode, off)
	return e, off, nil
}

// prefills sums the prefill of a workload, unless it is that of the workload before. It
// depends on the generated length only where a cache of fixed length does.
func (p *Prepared) prefills(w *Workload) {
	key := *w
	if !p.machine.Engine.Profile().FixedCache {
		key.GenLen = 0
	}
	if p.known && key == p.last {
		return
	}
	p.priced.known.forget()
	p.prompt = p.priced.prefill(w)
	p.limit(&p.prompt, true)
	p.last, p.known = key, true
	p.promptOff = spread(p.moved, &p.prompt, func(m *movedPredictor) total {
		t := m.prefill(w)
		m.limit(&t, true)
		return t
	})
}

// decodes sums the decode steps of a workload.
func (p *Prepared) decodes(w *Workload) *total {
	if p.run != *w {
		p.priced.known.forget()
		p.decoded = p.priced.decode(w, &p.first)
		p.limit(&p.decoded, false)
		p.run = *w
	}
	return &p.decoded
}

// widths are how wide the intervals of a workload are.
func (p *Prepared) widths(w *Workload) (off widths) {
	cal := p.machine.Cal
	if p.Scheme.Act == unit.FP32 {
		cal.Board = 0 // tables are in 16 bits and less
	}
	p.prefills(w)
	off.prefill = p.machines.within(math.Hypot(p.promptOff, p.prompt.scattered()), cal.Board, cal.PrefillError)
	if w.GenLen > 1 {
		decode := p.decodes(w)
		off.decode = spread(p.moved, decode, func(m *movedPredictor) total {
			t := m.decode(w, &m.first)
			m.limit(&t, false)
			return t
		})
		off.decode = p.machines.within(math.Hypot(off.decode, decode.scattered()), cal.Board, cal.DecodeError)
	}
	if w.GenLen == 1 { // no time of decode is asked for
		off.decode = off.prefill
	}
	return off
}

// within is the half-width of an interval whose constants and shapes make it so wide. Where
// no calibration timed the kernels of the engine and its host, the board may be off
// besides; where the operators of no board of its kind were timed, the interval is no
// narrower than the generation's.
func (a *Machines) within(off, board, generation float64) float64 {
	switch {
	case a.fitted && a.serves:
		return off
	case board > 0:
		return math.Hypot(off, board)
	}
	return max(off, generation)
}

// spread is how far the time of a phase lies off where each of the constants that it
// depends on lies at the end of its interval, in quadrature.
func spread(moved []movedPredictor, base *total, phase func(*movedPredictor) total) (off float64) {
	for i := range moved {
		if m := &moved[i]; m.changed&(base.terms|beyondKernels()) != 0 {
			t := phase(m)
			off = math.Hypot(off, float64(max(t.Expected, t.least)/max(base.Expected, base.least))-1)
		}
	}
	return off
}

// beyondKernels are the constants that a phase depends on beside those of its kernels: the
// host's, and those of the power limit.
var beyondKernels = sync.OnceValue(func() roofline.Set {
	all := roofline.SetOf(roofline.GEMMCompute, roofline.GEMMSustained, roofline.GEMMMemory)
	for _, k := range roofline.All() {
		if k.Info().Engine {
			all |= roofline.SetOf(k)
		}
	}
	return all
})
