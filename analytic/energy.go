package analytic

import "llmprof/unit"

// The power model. A GPU draws its idle power all the time, and of the rest of
// its power limit the shares of hardware.Power while its matrix units, its memory
// and its links work, added up and never above the limit.

// Energy is what the GPUs draw, all of them together, for one sequence.
type Energy struct {
	PerPrompt  unit.Joules // the prefill
	PerToken   unit.Joules // each token after the first
	PerRequest unit.Joules // prompt and all tokens
	Prefill    unit.Watts  // mean of one GPU
	Decode     unit.Watts
	IdleKnown  bool // the idle power has a source
}

// idle is the GPU's idle power.
func (m *Machine) idle() unit.Watts {
	if w, ok := m.GPU.Idle(); ok {
		return w
	}
	return unit.Watts(m.Cal.Power.Idle * float64(m.GPU.TDP))
}

// active is the time at full power above idling that the busy times of the matrix
// units, the memory and the links are worth, in seconds.
func (m *Machine) active(compute, memory, network unit.Seconds) float64 {
	p := &m.Cal.Power
	return p.Compute*float64(compute) + p.Memory*float64(memory) + p.Network*float64(network)
}

// power is what the GPU draws on the mean of a phase: ranks work on it in turn,
// each for its share of the time.
func (m *Machine) power(t *tally, stages float64) unit.Watts {
	idle := m.idle()
	if t.expected <= 0 {
		return idle
	}
	active := m.active(t.busy[0], t.busy[1], t.busy[2])
	share := min(active/float64(t.expected), 1) / stages
	return idle + unit.Watts(share*float64(m.GPU.TDP-idle))
}

// energy of a workload's prefill and decode.
func (p *Predictor) energy(w *Workload, prefill, decode *tally) Energy {
	stages := float64(p.par.PP)
	each := float64(p.par.TP*p.par.PP) / float64(w.Batch)
	_, known := p.machine.GPU.Idle()
	e := Energy{IdleKnown: known, Prefill: p.machine.power(prefill, stages)}
	e.PerPrompt = e.Prefill.For(prefill.expected).Times(each)
	e.PerRequest = e.PerPrompt
	if w.Gen > 1 {
		e.Decode = p.machine.power(decode, stages)
		all := e.Decode.For(decode.expected).Times(each)
		e.PerToken = all.Times(1 / float64(w.Gen-1))
		e.PerRequest += all
	}
	return e
}
