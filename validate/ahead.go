package validate

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// predictAhead answers for the configurations of observations on all processors, so that
// the rows are then made from what is kept. What all answers read (models, GPUs and
// calibrations) is found first, one after the other.
func (s *Scorer) predictAhead(all []Observation) {
	var todo []Config
	known := map[Config]bool{}
	for i := range all {
		c := all[i].Config
		if _, kept := s.answers[c]; kept || known[c] || all[i].Check() != nil {
			continue
		}
		known[c] = true
		s.findInputs(&c)
		todo = append(todo, c)
	}
	answers := make([]found[prediction], len(todo))
	var workers sync.WaitGroup
	var next atomic.Int64
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(todo); i = int(next.Add(1)) - 1 {
				answers[i].value, answers[i].err = s.estimate(todo[i])
			}
		})
	}
	workers.Wait()
	if s.answers == nil {
		s.answers = make(map[Config]found[prediction], len(todo))
	}
	for i, c := range todo {
		s.answers[c] = answers[i]
	}
}

// findInputs looks up what the answer for a configuration reads.
func (s *Scorer) findInputs(c *Config) {
	if m, err := once(&s.models, c.Model, s.Model); err == nil { // the answer says what was wrong
		_, _ = s.store(c, m)
	}
	_, _ = once(&s.gpus, c.GPU, s.GPU)
	if s.change != nil {
		_, _ = once(&s.altered, c.runner(), s.changed)
		return
	}
	_, _ = once(&s.machines, c.runner(), s.prepare)
}
