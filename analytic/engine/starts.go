package engine

import (
	"llmprof/analytic"
	"llmprof/unit"
)

// A vllmStart is the settings of a command of vLLM that its start-up holds against its memory.
type vllmStart struct {
	budget    int // --max-num-batched-tokens
	longest   int // --max-model-len
	sequences int // --max-num-seqs
}

// settle lowers settings with which vLLM would not start, and reports whether it starts. Where the memory cannot be told it is taken to.
//
//   - A step has a token for every sequence: vllm/config/scheduler.py, line 328 of 0.32.
//   - Every sequence has a block of states in a CUDA graph of decode steps: vllm/config/compilation.py, line 1519 of 0.32.
//   - The cache holds one request of the longest length: _check_enough_kv_cache_memory, vllm/v1/core/kv_cache_utils.py, line 1003 of 0.32.
func (s *vllmStart) settle(d *Deployment) bool {
	s.sequences = min(s.sequences, s.budget)
	p := d.served()
	if p == nil {
		return true
	}
	cache, known := p.Start(s.budget, s.sequences, s.longest)
	if scans(d.Model) && known && cache.Blocks < float64(s.sequences) {
		s.sequences = max(int(cache.Blocks), 1)
	}
	if known && cache.Requests < 1 && d.Request < s.longest {
		s.longest = d.Request
		cache, known = p.Start(s.budget, s.sequences, s.longest)
	}
	return !known || cache.Requests >= 1
}

// served is the predictor of one replica by the engine that is started, whatever that of the estimate; nil where it cannot be told.
func (d *Deployment) served() *analytic.Predictor {
	if d.Case == nil {
		return nil
	}
	c, e := *d.Case, d.starts
	if c.Machine.Engine.Profile().Engine() != e.profile.Name {
		constants, err := analytic.Constants(c.Machine.GPU, e, nil)
		if err != nil {
			return nil
		}
		if c.Machine, err = analytic.NewMachine(c.Machine.GPU, constants, e); err != nil {
			return nil
		}
	}
	p, err := analytic.NewPredictor(&c)
	if err != nil {
		return nil
	}
	return p
}

// Starts says why a server of vLLM with its own defaults would not start, and which flag to change; nil where nothing is known against it.
func Starts(c *analytic.Case, m *analytic.Memory) *unit.Warning {
	e, _ := c.Machine.Engine.(*Engine)
	if e == nil || e.profile.Engine() != vllmScheduler.Name || !m.Fits() || !scans(c.Model) {
		return nil
	}
	if most := vllmScheduler.on(c.Machine.GPU).MaxSeqs; m.Logged.Blocks < float64(most) {
		return new(unit.Warn("start_refused", "vllm stops at start-up where --max-num-seqs is above the %.0f blocks of states, and %d is its "+
			"default: give --max-num-seqs %.0f", m.Logged.Blocks, most, m.Logged.Blocks))
	}
	return nil
}
