package engine_test

import (
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// TestExpertsOfTables holds constants of experts to rows of the operator tables of the same engine, GPU and format. The
// constants of another format or GPU, which each of them had before, were 1.4 to 4 times as slow or as fast.
func TestExpertsOfTables(t *testing.T) {
	for _, x := range []struct {
		engine, gpu          string
		scheme               roofline.Scheme
		stored, format       unit.Format
		experts, k           float64
		hidden, width        float64
		decode, prefill, off float64 // µs of 64 and 8192 tokens; relative error
	}{
		{"vllm", "h100", roofline.WeightMXFP4, unit.MXFP4, unit.BF16, 128, 4, 2880, 720, 205.0, 947.0, 0.15},
		{"vllm", "h200", roofline.WeightMXFP4, unit.MXFP4, unit.BF16, 128, 4, 2880, 720, 190.7, 923.4, 0.15},
		{"vllm", "rtx-pro-6000-server-96gb", roofline.WeightINT4, unit.INT4, unit.BF16, 384, 8, 7168, 256, 828.3, 4255.9, 0.15},
		{"sglang", "rtx-pro-6000-server-96gb", roofline.WeightINT4, unit.INT4, unit.BF16, 384, 8, 7168, 256, 824.2, 4409.8, 0.15},
		{"sglang", "b200", roofline.FP8Block, unit.FP8, unit.FP8, 128, 8, 4096, 384, 121.7, 987.6, 0.2},
		{"tensorrt-llm", "b200", roofline.Unquantized, unit.BF16, unit.BF16, 128, 8, 4096, 1536, 715.1, 1819.1, 0.2},
	} {
		g := casetest.GPU(t, x.gpu)
		e, err := engine.Parse(x.engine)
		if err != nil {
			t.Fatal(err)
		}
		c, err := analytic.Constants(g, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		peaks, err := g.Peaks()
		if err != nil {
			t.Fatal(err)
		}
		if c.Constants[roofline.GroupedOf(x.scheme)] == 0 {
			t.Errorf("%s on %s has no constants of experts %s", x.engine, x.gpu, x.scheme.Help())
			continue
		}
		m := roofline.NewMachine(peaks, &c.Constants)
		for tokens, want := range map[float64]float64{64: x.decode, 8192: x.prefill} {
			pairs := tokens * x.k
			hit, expert := min(x.experts, pairs), 3*x.hidden*x.width
			k := roofline.Kernel{Class: roofline.GroupedGEMM, Scheme: x.scheme, Format: x.format, Count: 1, Launches: 2}
			k.Shape = roofline.Shape{M: pairs, Pairs: pairs, Tokens: tokens, Experts: x.experts, TopK: x.k, Hit: hit}
			k.Work = roofline.Work{FLOPs: unit.FLOPs(2 * pairs * expert), Weights: x.stored.Bytes(hit * expert)}
			k.Permuted = unit.BF16.Bytes(pairs * x.hidden)
			if got := 1e6 * float64(m.Time(&k)); math.Abs(got/want-1) > x.off {
				t.Errorf("%s on %s, experts %s of %v tokens: %.1f µs, measured %.1f", x.engine, x.gpu, x.scheme.Help(), tokens, got, want)
			}
		}
	}
}
