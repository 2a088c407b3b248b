package models_test

import (
	"testing"
)

// Text skips Llama 3.2's layers of cross-attention: a token takes part in what it does in Llama 3.1 8B, and norms of the
// same number of layers.
func TestTextSkipsCrossAttention(t *testing.T) {
	m, err := builtIn(t).Model("llama3.2-11b-vision")
	if err != nil {
		t.Fatal(err)
	}
	llama, err := builtIn(t).Model("llama3.1-8b")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.ActiveParams(), llama.ActiveParams()+8*4096; got != want {
		t.Errorf("%d parameters take part, want %d", got, want)
	}
	if m.Params() != 9775192080 {
		t.Errorf("%d parameters in all", m.Params())
	}
}
