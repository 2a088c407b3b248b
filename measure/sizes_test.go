package measure

import (
	"testing"

	"llmprof/analytic"
	"llmprof/measure/worker"
)

// TestSizesOfRanks checks that what all ranks hold is set against the theory of
// all, which is of one GPU.
func TestSizesOfRanks(t *testing.T) {
	counted := &worker.Sizes{ParamsBytes: 1600, KVBytes: 640}
	each := &analytic.Memory{Weights: 800, KV: 320, Activations: 10}
	s := sizes(counted, each, 2)
	if said := differ(s); len(said) > 0 {
		t.Errorf("two ranks of half the model: %q", said)
	}
	if got := s.Analytic.Activations; got != 20 {
		t.Errorf("activations of two ranks are %v bytes in theory, want 20", got)
	}
	if said := differ(sizes(counted, each, 1)); len(said) != 2 {
		t.Errorf("one rank that holds twice its theory: %q", said)
	}
}
