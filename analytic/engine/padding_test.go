package engine_test

import (
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// Engines keep experts in MXFP4 in the sizes of their kernels: gpt-oss has a hidden size of 2880 and 128 experts of 2880 in
// each of 36 layers, of 17 bytes for 32 weights.
func TestExpertsInMXFP4TakePaddedMemory(t *testing.T) {
	weights := func(engine, gpu string, tp int) float64 {
		c := onEngine(t, "gpt-oss-120b", engine, analytic.Workload{Batch: 1, PromptLen: 1024, GenLen: 2})
		c.Machine = casetest.Machine(t, gpu, engine)
		c.Parallel.TP = tp
		c.Scheme = models.StoredScheme(c.Model).For(c.Machine.GPU)
		m := predict(t, c).Memory
		return float64(m.Weights + m.HostWeights) // llama.cpp has the embedding on the host
	}
	for _, x := range []struct {
		engine, gpu   string
		tp            int
		hidden, width float64
	}{
		{"vllm", "b200", 1, 3072, 3072}, {"vllm", "b200", 8, 3072, 512}, // FlashInfer
		{"vllm", "a100", 1, 3072, 2944}, {"vllm", "rtx-pro-6000", 2, 3072, 1536}, // Marlin
		{"vllm", "mi300x", 1, 3072, 3072},
		{"sglang", "b200", 1, 3072, 3072},
		{"tensorrt-llm", "b200", 4, 2944, 768},
	} {
		const each = 36 * 128 * 3 * 17.0 / 32
		more := each * (x.hidden*x.width - 2880*2880/float64(x.tp))
		got := weights(x.engine, x.gpu, x.tp) - weights("llama.cpp", x.gpu, x.tp)
		if diff := got - more; diff < -1e6 || diff > 40e6 { // the biases of padded outputs, and a table of rotary positions
			t.Errorf("%s on %s over %d: %.0f MB of padding, want %.0f", x.engine, x.gpu, x.tp, got/1e6, more/1e6)
		}
	}
}

// The rows of a CUDA graph are whole though its step takes a share of a batch. A longer prompt took less time while 10⁻¹⁵ of a row beyond
// the last tile counted as one more tile.
func TestRowsOfGraphsAreWhole(t *testing.T) {
	w := analytic.Workload{Batch: 64, PromptLen: 500, GenLen: 2, Chunk: 2048}
	c := onEngine(t, "llama3.1-8b", "sglang", w)
	c.Machine = casetest.Machine(t, "a100", "sglang")
	p, err := analytic.NewPredictor(c)
	if err != nil {
		t.Fatal(err)
	}
	var last unit.Seconds
	for ; w.PromptLen < 1000; w.PromptLen++ {
		e, err := p.Predict(&w)
		if err != nil {
			t.Fatal(err)
		}
		runs := p.Prefill(&w)
		p.Walk(&runs[3].First, func(l *analytic.Lowering, _ []roofline.Cost) {
			for i := range l.Kernels {
				k := &l.Kernels[i]
				if m := k.Shape.M; k.Class == roofline.GEMM && k.Graphed && m != math.Trunc(m) {
					t.Errorf("%d tokens: %s has %v rows", w.PromptLen, l.Ops[k.Main].Name, m)
				}
			}
		})
		if e.TTFT.Expected < last {
			t.Errorf("TTFT is %v with %d tokens, and %v with one less", e.TTFT.Expected, w.PromptLen, last)
		}
		last = e.TTFT.Expected
	}
}
