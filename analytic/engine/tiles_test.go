package engine_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// The tiles of vLLM's GEMMs in FP8 on Hopper are those of its dispatch by rows.
func TestVLLMTiles(t *testing.T) {
	small, skinny, middle, large, largest := roofline.Tile{Rows: 16, Columns: 64, Blocks: 1}, roofline.Tile{Rows: 64, Columns: 64, Blocks: 1},
		roofline.Tile{Rows: 128, Columns: 128, Blocks: 2}, roofline.Tile{Rows: 256, Columns: 128, Blocks: 2},
		roofline.Tile{Rows: 512, Columns: 128, Blocks: 2}
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

// An H20 has a quarter of an H200's tensor cores and the same memory accelerator: 65 rows of a tile of 128 take no longer than 128 there.
// They took half as long again.
func TestEmptyRowsOfAnH20(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "h20-96gb", 1, 1)
	c.Machine, c.Scheme = casetest.Machine(t, "h20-96gb", "vllm"), scheme(t, "fp8", casetest.GPU(t, "h20-96gb"))
	product := func(batch int) unit.Seconds {
		c.Workload = analytic.Workload{Batch: batch, PromptLen: 16, GenLen: 2}
		return line(t, explain(t, c).DecodeOps, "gate_up_proj").Expected
	}
	for _, rows := range []int{64, 128, 256, 512} {
		if few, all := product(rows/2+1), product(rows); few > all.Times(1+1e-9) {
			t.Errorf("gate_up_proj of %d rows takes %v, of %d %v", rows/2+1, few, rows, all)
		}
	}
}
