package serving

import (
	"fmt"

	"llmprof/analytic/engine"
)

// checkRules returns what is wrong with the rules of a scheduler, if anything is.
func checkRules(s *engine.Scheduler) error {
	switch {
	case s.Budget < 1 || s.Budget > maxLength:
		return fmt.Errorf("a step of at most %d tokens: want from 1 to %d", s.Budget, maxLength)
	case s.MaxSeqs < 1 || s.MaxSeqs > 1<<20:
		return fmt.Errorf("at most %d sequences: want from 1 to %d", s.MaxSeqs, 1<<20)
	case s.Block < 1 || s.Block > 1<<16:
		return fmt.Errorf("KV blocks of %d tokens: want from 1 to %d", s.Block, 1<<16)
	case !(s.Watermark >= 0 && s.Watermark < 1):
		return fmt.Errorf("a watermark of %g: want from 0 and below 1", s.Watermark)
	}
	return nil
}
