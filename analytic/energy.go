package analytic

import "llmprof/unit"

// The power model. A GPU draws its idle power all the time, and of the rest of
// its power limit
//
//	computeShare while its matrix units run at the rate they reach,
//	memoryShare  while its memory does,
//	networkShare while its links do,
//
// added up and never above the limit. The first two are from an H200 whose large
// GEMMs drew 695 of 700 W at 670 TFLOP/s and whose products of one row drew 562 W
// at 4.26 TB/s (hardware/testdata/h200_operators.json); they put its products of
// 8 and 32 rows within 3 % of the 572 and 663 W measured. Links were not measured
// apart.
const (
	computeShare = 1.15
	memoryShare  = 0.73
	networkShare = 0.15
)

// idleShare of the power limit stands in where no source gives the idle power:
// an H200 without a process idles at 79 of 700 W.
const idleShare = 0.11

// Energy is what the GPUs draw, all of them together, for one sequence.
type Energy struct {
	PerPrompt  unit.Joules // the prefill
	PerToken   unit.Joules // each token after the first
	PerRequest unit.Joules // prompt and all tokens
	Prefill    unit.Watts  // mean of one GPU
	Decode     unit.Watts
	IdleKnown  bool // the idle power has a source
}

// power is what the GPU draws on the mean of a phase: ranks work on it in turn,
// each for its share of the time.
func (m *Machine) power(t *tally, stages float64) unit.Watts {
	idle, ok := m.GPU.Idle()
	if !ok {
		idle = unit.Watts(idleShare * float64(m.GPU.TDP))
	}
	if t.expected <= 0 {
		return idle
	}
	active := computeShare*float64(t.busy[0]) + memoryShare*float64(t.busy[1]) + networkShare*float64(t.busy[2])
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
