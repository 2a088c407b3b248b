package engine_test

import (
	"math"
	"testing"

	"llmprof/analytic/engine"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// The rows of a tile of grouped GEMMs are those that each engine's kernel chooses by the pairs of an expert.
func TestExpertTiles(t *testing.T) {
	for _, c := range []struct {
		engine, gpu           string
		scheme                roofline.Scheme
		tokens, experts, topK float64
		ranks, want           float64
	}{
		{"vllm", "h200", roofline.WeightMXFP4, 1, 128, 4, 1, 16},
		{"vllm", "h200", roofline.WeightMXFP4, 512, 128, 4, 1, 16},
		{"vllm", "h200", roofline.WeightMXFP4, 1024, 128, 4, 1, 32},
		{"vllm", "h200", roofline.WeightMXFP4, 512, 128, 4, 8, 128}, // The pairs are those of all ranks, and the experts those of one.
		{"vllm", "h200", roofline.WeightMXFP4, 1e5, 128, 4, 1, 128},
		{"vllm", "b200", roofline.WeightMXFP4, 512, 128, 4, 1, 8},
		{"vllm", "b200", roofline.WeightMXFP4, 1e5, 128, 4, 1, 32},
		{"vllm", "b200", roofline.NVFP4, 1024, 128, 8, 1, 32},
		{"vllm", "b200", roofline.NVFP4, 1024, 128, 8, 4, 128},
		{"vllm", "b200", roofline.FP8Block, 1e5, 128, 8, 1, 64},
		{"vllm", "h200", roofline.FP8, 1, 128, 8, 1, 0}, // Triton chooses its tiles by the tokens.
		{"tensorrt-llm", "b200", roofline.MXFP4, 1, 384, 6, 8, 8},
		{"tensorrt-llm", "b200", roofline.MXFP4, 1024, 384, 6, 8, 128},
		{"tensorrt-llm", "b200", roofline.MXFP4, 1536, 384, 6, 8, 256},
		{"tensorrt-llm", "h200", roofline.FP8, 1, 128, 8, 1, 16},
		{"tensorrt-llm", "b200", roofline.NVFP4, 1024, 128, 8, 1, 32},
		{"tensorrt-llm", "b200", roofline.FP8Block, 1e5, 128, 8, 1, 64},
		{"tensorrt-llm", "rtx-pro-6000-server-96gb", roofline.NVFP4, 1024, 128, 8, 1, 0},
		{"tensorrt-llm", "h200", roofline.WeightMXFP4, 1024, 128, 4, 1, 32},
		{"tensorrt-llm", "b200", roofline.WeightMXFP4, 1024, 128, 4, 1, 0},
		{"vllm", "b200", roofline.WeightINT4, 1, 256, 8, 1, 8},
		{"vllm", "h100", roofline.WeightINT4, 1024, 256, 8, 1, 48},
		{"sglang", "h100", roofline.WeightINT4, 1024, 256, 8, 2, 64},
		{"sglang", "b200", roofline.WeightINT4, 1024, 256, 8, 2, 32},
		{"vllm", "l40s", roofline.WeightINT4, 1024, 256, 8, 1, 0},
		{"sglang", "h200", roofline.Unquantized, 128, 128, 8, 1, 16},
		{"sglang", "h200", roofline.Unquantized, 129, 128, 8, 1, 64},
		{"sglang", "h200", roofline.Unquantized, 128, 128, 8, 2, 64},
		{"sglang", "b200", roofline.Unquantized, 129, 128, 8, 1, 8},
		{"sglang", "b200", roofline.MXFP4, 1e5, 128, 8, 1, 128},
		{"sglang", "rtx-pro-6000-server-96gb", roofline.Unquantized, 129, 128, 8, 1, 64},
		{"sglang", "rtx-pro-6000-server-96gb", roofline.WeightINT4, 129, 128, 8, 1, 0},
		{"vllm", "h200", roofline.FP8Block, 129, 128, 8, 1, 0},
	} {
		s := roofline.Shape{Experts: c.experts, TopK: c.topK, Tokens: c.tokens, Ranks: c.ranks, Pairs: c.tokens * c.topK / c.ranks}
		k := roofline.Kernel{Class: roofline.GroupedGEMM, Scheme: c.scheme, Shape: s}
		if engine.SetTile(c.engine, casetest.GPU(t, c.gpu), &k); k.Tile.Rows != c.want {
			t.Errorf("%+v: tiles of %v rows", c, k.Tile.Rows)
		}
	}
}

// TestHalfLines holds that weights are read again by SGLang's tiles of 64 rows in 16 bits on boards with graphics memory alone.
func TestHalfLines(t *testing.T) {
	for _, c := range []struct {
		engine, gpu string
		scheme      roofline.Scheme
		tokens      float64
		want        bool
	}{
		{"sglang", "l40s", roofline.Unquantized, 129, true}, {"sglang", "rtx-pro-6000-server-96gb", roofline.Unquantized, 129, true},
		{"sglang", "l40s", roofline.Unquantized, 128, false}, {"sglang", "h100", roofline.Unquantized, 129, false},
		{"sglang", "l40s", roofline.WeightINT4, 129, false},
		{"vllm", "l40s", roofline.Unquantized, 129, false},
	} {
		k := roofline.Kernel{
			Class: roofline.GroupedGEMM, Scheme: c.scheme, Work: roofline.Work{Weights: 100},
			Shape: roofline.Shape{Experts: 128, TopK: 8, Tokens: c.tokens, Ranks: 1, Pairs: c.tokens * 8},
		}
		if engine.SetTile(c.engine, casetest.GPU(t, c.gpu), &k); k.Reread > 0 != c.want || k.Reread > k.Work.Weights {
			t.Errorf("%+v: %v of %v are read again", c, k.Reread, k.Work.Weights)
		}
	}
}

// A rank of EP of TensorRT-LLM's experts in FP8 by blocks multiplies the pairs of all ranks on compute capability 12.0, and its own
// elsewhere.
func TestPairsOfAllRanks(t *testing.T) {
	for gpu, want := range map[string]unit.FLOPs{"rtx-pro-6000-server-96gb": 8e9, "h200": 1e9} {
		k := roofline.Kernel{Class: roofline.GroupedGEMM, Scheme: roofline.FP8Block, Shape: roofline.Shape{Ranks: 8},
			Work: roofline.Work{FLOPs: 1e9}}
		if engine.SetTile("tensorrt-llm", casetest.GPU(t, gpu), &k); k.Work.FLOPs != want {
			t.Errorf("%s: %v, want %v", gpu, k.Work.FLOPs, want)
		}
	}
}

// Engines pad the hidden size and the width of experts to whole multiples: gpt-oss has 2880 of each, the width cut by TP.
func TestExpertGrain(t *testing.T) {
	for _, c := range []struct {
		engine, gpu         string
		scheme              roofline.Scheme
		width, hidden, wide float64 // and what is multiplied
	}{
		{"vllm", "b200", roofline.MXFP4, 360, 3072, 512},
		{"vllm", "b200", roofline.WeightMXFP4, 2880, 3072, 3072},
		{"sglang", "b200", roofline.MXFP4, 720, 3072, 768},
		{"tensorrt-llm", "b200", roofline.MXFP4, 360, 2944, 384},
		{"sglang", "b200", roofline.Unquantized, 192, 2880, 256},
		{"tensorrt-llm", "b200", roofline.FP8Block, 192, 2880, 256},
		{"vllm", "b200", roofline.Unquantized, 192, 2880, 192},
		{"vllm", "h200", roofline.WeightMXFP4, 360, 2880, 360},
		{"sglang", "h200", roofline.Unquantized, 192, 2880, 192},
	} {
		k := roofline.Kernel{Class: roofline.GroupedGEMM, Scheme: c.scheme, Work: roofline.Work{FLOPs: 1e9, Weights: 1e6}}
		k.Shape = roofline.Shape{K: 2880, N: 2 * c.width, Matrices: 2, Experts: 128, TopK: 4, Tokens: 8, Ranks: 1, Pairs: 32}
		more := c.hidden * c.wide / (2880 * c.width)
		engine.SetTile(c.engine, casetest.GPU(t, c.gpu), &k)
		if math.Abs(float64(k.Work.FLOPs)/1e9/more-1) > 1e-9 || math.Abs(float64(k.Work.Weights)/1e6/more-1) > 1e-9 {
			t.Errorf("%+v: %v and %v, want %.3f times as much as 1 GFLOP and 1 MB", c, k.Work.FLOPs, k.Work.Weights, more)
		}
	}
}
