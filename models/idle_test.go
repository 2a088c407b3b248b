package models_test

import (
	"math"
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

// A token of LongCat-Flash takes 8 of its 12 experts on average, since 256 of 768 do nothing: 27 billion parameters, as
// https://huggingface.co/meituan-longcat/LongCat-Flash-Chat says, of which the embedding is no part.
func TestExpertsThatDoNothing(t *testing.T) {
	m, err := builtIn(t).Model("longcat-flash")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.Params()-m.ActiveParams(), int64(28*(512-8)*3*6144*2048); got != want {
		t.Errorf("%d parameters idle, want %d", got, want)
	}
	if got := float64(m.ActiveParams()-m.EmbeddingParams()) / 1e9; math.Abs(got-27) > 0.5 {
		t.Errorf("%.1f billion active parameters, want 27", got)
	}
}
