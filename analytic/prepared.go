package analytic

// A Prepared answers for many workloads of one case, each with the interval of Calibrated.
// It remembers steps, and the prefill of the workload before: workloads that differ only in their generated length share it.
// It serves one goroutine.
type Prepared struct {
	*Predictor // predicts on the machine that was asked for
	machines   *Machines
	priced     *Predictor   // prices the steps that are remembered
	remembered *Predictor   // predicts on that machine by the steps that it remembers
	interval   *Prepared    // gives the intervals: p itself, or the calibrated machine if the user set constants
	moved      []*Predictor // predicts by the same steps with one uncertain constant of the calibration at the slow end of its interval, each

	last      Workload // workload whose prefill is remembered; zero if there is none
	prompt    total
	promptOff float64
	run       Workload // workload whose decode steps are remembered; zero if there is none
	decoded   total
}

// Prepare prepares for estimates of c, whatever its Workload, on the machine of all or on one
// with other constants.
func (c *Case) Prepare(all *Machines, on *Machine) (*Prepared, error) {
	return c.PrepareAfter(nil, all, on)
}

// PrepareAfter is Prepare, and takes over the memory of old, which must not be asked any more; old may be nil.
func (c *Case) PrepareAfter(old *Prepared, all *Machines, on *Machine) (*Prepared, error) {
	there := *c
	there.Machine = on
	p, err := NewPredictor(&there)
	if err != nil {
		return nil, err
	}
	prepared := newPrepared(p, all, old)
	if on != all.Machine {
		prepared.interval = newPrepared(p.on(all.Machine), all, nil)
	}
	return prepared, nil
}

// newPrepared answers by one machine, without an interval.
func newPrepared(p *Predictor, all *Machines, old *Prepared) *Prepared {
	prepared := &Prepared{Predictor: p, priced: p.on(p.machine), remembered: p.on(p.machine), machines: all}
	prepared.interval = prepared
	if old == nil {
		prepared.remembered.steps = newStepMemory(prepared.priced)
		return prepared
	}
	prepared.remembered.steps = old.remembered.steps
	prepared.remembered.steps.forget(prepared.priced)
	return prepared
}

// move adds the predictors of which each has one constant moved, once intervals are asked for.
func (p *Prepared) move() {
	if len(p.moved) == len(p.machines.moved) {
		return
	}
	p.priced.moves = newMoves(p.machines.moved, p.machine)
	for i := range p.machines.moved {
		m := &p.machines.moved[i]
		moved := p.on(m.Machine)
		moved.steps, moved.changed, moved.shifted = p.remembered.steps, m.changed, i+1
		p.moved = append(p.moved, moved)
	}
}

// AnyMicroBatches makes p remember steps from now on as any number of micro-batches needs them, which takes more memory.
func (p *Prepared) AnyMicroBatches() {
	if !p.priced.anyMicroBatches {
		p.priced.anyMicroBatches = true
		p.remembered.steps.forget(p.priced)
	}
}

// WithMicroBatches is p for another number of micro-batches. Both share the steps that were priced, since a micro-batch is priced as a
// batch of its size. The two must not be used by two goroutines at once.
func (p *Prepared) WithMicroBatches(microBatches int) *Prepared {
	if p.Par.MicroBatches == microBatches {
		return p
	}
	p.AnyMicroBatches()
	there := *p.OneBatch()
	there.Par.MicroBatches = microBatches
	q := &Prepared{Predictor: &there, priced: p.priced, remembered: there.on(p.machine), machines: p.machines}
	q.remembered.steps = p.remembered.steps
	if q.interval = q; p.interval != p {
		q.interval = p.interval.WithMicroBatches(microBatches)
	}
	return q
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

// Expected is Predict with intervals by the errors of the GPU's generation, which take less work. An estimate that
// does not fit in memory has its memory alone.
func (p *Prepared) Expected(w *Workload) (Estimate, error) {
	if err := w.Check(p.Par.MicroBatches); err != nil {
		return Estimate{}, err
	}
	if m := p.memory(w); !m.Fits() {
		return Estimate{Memory: m}, nil
	}
	return p.Predictor.Predict(w)
}

// Fitting is Predict. An estimate that does not fit in memory has its memory and GPUs alone, which take no work.
func (p *Prepared) Fitting(w *Workload) (Estimate, error) {
	if err := w.Check(p.Par.MicroBatches); err != nil {
		return Estimate{}, err
	}
	if m := p.memory(w); !m.Fits() {
		return Estimate{Memory: m, GPUs: p.Par.GPUs()}, nil
	}
	return p.Predict(w)
}

// predict answers for one workload, and gives the half-widths of its intervals.
func (p *Prepared) predict(w *Workload) (e Estimate, off widths, err error) {
	if err := w.Check(p.Par.MicroBatches); err != nil {
		return e, off, err
	}
	p.interval.move()
	p.prefills(w)
	decode := &total{}
	if w.GenLen > 1 {
		decode = p.decodes(w)
	}
	off = p.interval.widths(w)
	p.fill(&e, w, &p.prompt, decode, off)
	return e, off, nil
}

// prefills sums the prefill of a workload, unless the workload before had an equal one. It depends
// on the generated length only if the length of the KV cache is fixed.
func (p *Prepared) prefills(w *Workload) {
	key := *w
	if !p.fixedCache {
		key.GenLen = 0
	}
	if key == p.last {
		return
	}
	runs := p.Prefill(w)
	p.prompt = p.remembered.prefill(&runs)
	p.last = key
	p.promptOff = spread(p.moved, &p.prompt, func(m *Predictor) total { return m.prefill(&runs) })
}

func (p *Prepared) decodes(w *Workload) *total {
	if p.run != *w {
		run := p.decoding(w)
		p.decoded = p.remembered.decode(&run)
		p.run = *w
	}
	return &p.decoded
}
