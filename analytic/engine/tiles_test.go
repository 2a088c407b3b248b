package engine_test

import (
	"testing"

	"llmprof/analytic/casetest"
	"llmprof/analytic/engine"
	"llmprof/roofline"
)

// The tiles of vLLM's GEMMs in FP8 on Hopper are those of its dispatch by rows.
func TestVLLMTiles(t *testing.T) {
	small, skinny, middle, large, largest := roofline.Tile{Rows: 16, Columns: 64, Blocks: 1}, roofline.Tile{Rows: 64, Columns: 64, Blocks: 1},
		roofline.Tile{Rows: 128, Columns: 128, Blocks: 2}, roofline.Tile{Rows: 256, Columns: 128, Blocks: 2}, roofline.Tile{Rows: 512, Columns: 128, Blocks: 2}
	for _, c := range []struct {
		gpu     string
		scheme  roofline.Scheme
		m, n, k float64
		want    roofline.Tile
	}{
		{"h200", roofline.FP8, 1, 4096, 4096, small},
		{"h200", roofline.FP8, 16, 4096, 4096, small},
		{"h200", roofline.FP8, 17, 4096, 4096, skinny},
		{"h100", roofline.FP8, 64, 1281, 4096, skinny},
		{"h100", roofline.FP8, 64, 1280, 4096, small},
		{"h200", roofline.FP8, 65, 1280, 4096, middle},
		{"h200", roofline.FP8, 129, 4096, 4096, large},
		{"h200", roofline.FP8, 8192, 4096, 6143, large},
		{"h200", roofline.FP8, 8192, 4096, 6144, largest},
		{"h200", roofline.Unquantized, 17, 4096, 4096, roofline.Tile{}},
		{"h200", roofline.FP8Block, 17, 4096, 4096, roofline.Tile{}},
		{"b200", roofline.FP8, 17, 4096, 4096, roofline.Tile{}},
		{"l40s", roofline.FP8, 17, 4096, 4096, roofline.Tile{}},
		{"mi300x", roofline.FP8, 17, 4096, 4096, roofline.Tile{}},
	} {
		k := roofline.Kernel{Class: roofline.GEMM, Scheme: c.scheme, Shape: roofline.Shape{M: c.m, N: c.n, K: c.k}}
		engine.SetTile("sglang", casetest.GPU(t, c.gpu), &k)
		if k.Tile != (roofline.Tile{}) {
			t.Errorf("SGLang has tiles of vLLM: %v", k.Tile)
		}
		engine.SetTile("vllm", casetest.GPU(t, c.gpu), &k)
		if k.Tile != c.want {
			t.Errorf("%s, %s, %v × %v × %v: %v, not %v", c.gpu, c.scheme, c.m, c.n, c.k, k.Tile, c.want)
		}
	}
}
