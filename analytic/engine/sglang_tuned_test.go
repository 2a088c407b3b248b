package engine_test

import (
	"testing"

	"llmprof/analytic/engine"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
)

// Grouped GEMMs of SGLang in 16 bits are tuned for the shapes of a rank that have a file for the very card, and of other shapes run by
// default tiles.
func TestSGLangTuned(t *testing.T) {
	for _, c := range []struct {
		gpu            string
		scheme         roofline.Scheme
		experts, ranks float64
		width          float64
		want           roofline.Scheme
	}{
		{"h200", roofline.Unquantized, 128, 1, 768, roofline.Unquantized}, // qwen3-30b-a3b
		{"h200", roofline.Unquantized, 128, 1, 384, roofline.Unquantized}, // over two ranks of TP
		{"h200", roofline.Unquantized, 128, 2, 768, roofline.Untuned},     // over two of EP
		{"h200", roofline.Unquantized, 128, 1, 1536, roofline.Untuned},    // qwen3-235b-a22b
		{"h100", roofline.Unquantized, 128, 8, 2048, roofline.Unquantized},
		{"h100-nvl", roofline.Unquantized, 128, 1, 768, roofline.Untuned},
		{"h200", roofline.FP8Block, 128, 1, 1536, roofline.FP8Block},
		{"b200", roofline.Unquantized, 128, 1, 1536, roofline.Unquantized},
		{"l40s", roofline.Unquantized, 128, 1, 1536, roofline.Unquantized},
	} {
		k := roofline.Kernel{Class: roofline.GroupedGEMM, Scheme: c.scheme, Shape: roofline.Shape{
			Experts: c.experts, Ranks: c.ranks, N: 2 * c.width, K: 4096, Matrices: 2, TopK: 8, Tokens: 64, Pairs: 512 / c.ranks,
		}}
		if engine.SetTile("sglang", casetest.GPU(t, c.gpu), &k); k.Scheme != c.want {
			t.Errorf("%+v: %v", c, k.Scheme)
		}
	}

	// Qwen3.5's experts have a file since 0.5.18.
	for release, want := range map[string]roofline.Scheme{"0.5.16": roofline.Untuned, "0.5.23": roofline.Unquantized} {
		k := roofline.Kernel{Class: roofline.GroupedGEMM, Shape: roofline.Shape{
			Experts: 256, N: 1024, K: 2048, Matrices: 2, TopK: 8, Tokens: 1, Pairs: 8,
		}}
		if engine.SetTile("sglang@"+release, casetest.GPU(t, "h200"), &k); k.Scheme != want {
			t.Errorf("%s: %v", release, k.Scheme)
		}
	}
}
