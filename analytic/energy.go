package analytic

import "llmprof/unit"

// Energy is what the GPUs draw, all of them together, for one sequence.
type Energy struct {
	PerPrompt  unit.Joules // the prefill
	PerToken   unit.Joules // each token after the first
	PerRequest unit.Joules // prompt and all tokens
	Prefill    unit.Watts  // mean of one GPU
	Decode     unit.Watts
	IdleKnown  bool // the idle power has a source
}

// energy of a workload's prefill and decode.
func (p *Predictor) energy(w *Workload, prefill, decode *total) Energy {
	stages := float64(p.par.PP)
	each := float64(p.par.TP*p.par.PP) / float64(w.Batch)
	_, known := p.machine.GPU.Idle()
	e := Energy{IdleKnown: known, Prefill: p.machine.draws(&prefill.timing, stages)}
	e.PerPrompt = e.Prefill.For(prefill.expected).Times(each)
	e.PerRequest = e.PerPrompt
	if w.Gen > 1 {
		e.Decode = p.machine.draws(&decode.timing, stages)
		all := e.Decode.For(decode.expected).Times(each)
		e.PerToken = all.Times(1 / float64(w.Gen-1))
		e.PerRequest += all
	}
	return e
}
