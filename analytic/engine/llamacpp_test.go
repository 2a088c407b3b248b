package engine_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/roofline"
)

// ggmlCase is a case of llama.cpp on an H100 with weights in a quantization of its own, or
// in another format.
func ggmlCase(t *testing.T, model, weights string, batch int) *analytic.Case {
	t.Helper()
	c := onEngine(t, model, "llama.cpp", analytic.Workload{Batch: batch, PromptLen: 1024, GenLen: 8})
	c.Machine = casetest.Machine(t, "h100", "llama.cpp")
	if !models.IsMix(weights) {
		c.Scheme = scheme(t, weights, c.Machine.GPU)
		return c
	}
	m, err := models.Quantize(c.Model, weights)
	if err != nil {
		t.Fatal(err)
	}
	c.Model = m
	stored := models.StoredScheme(m)
	c.Scheme = stored.For(c.Machine.GPU)
	return c
}

// TestLlamaCPPLaunches holds the kernels of a decode step to those that were counted in
// llama.cpp's steps on an H100 (experiments/h100-llamacpp/steps.csv), without the copies
// between GPU and host. A mixture of 8 sequences, and products by cuBLAS, were counted too, but
// not to the kernel.
func TestLlamaCPPLaunches(t *testing.T) {
	for _, counted := range []struct {
		model, weights string
		batch          int
		kernels        float64
	}{
		{"llama3.1-8b", "q4_k_m", 1, 614},
		{"llama3.1-8b", "q4_k_m", 4, 837},
		{"llama3.1-8b", "q4_k_m", 8, 837},
		{"llama3.1-8b", "q4_k_m", 32, 1029},
		{"llama3.1-8b", "q8_0", 1, 614},
		{"llama3.1-8b", "q8_0", 8, 837},
		{"llama3.1-8b", "fp16", 1, 421},
		{"llama3.1-8b", "fp16", 4, 612},
		{"llama3.2-1b", "q4_k_m", 1, 310},
		{"llama3.2-1b", "q4_k_m", 32, 517},
		{"qwen3-8b", "q4_k_m", 1, 690},
		{"qwen3-8b", "q4_k_m", 8, 941},
		{"qwen3-30b-a3b", "q4_k_m", 1, 1110},
		{"qwen3-30b-a3b", "q4_k_m", 8, 1253},
	} {
		got := ggmlLaunches(t, ggmlCase(t, counted.model, counted.weights, counted.batch))
		if got != counted.kernels {
			t.Errorf("%s in %s, batch %d: %v kernels, %v were counted", counted.model, counted.weights, counted.batch, got, counted.kernels)
		}
	}
}

// ggmlLaunches counts the kernels of the first decode step of a case.
func ggmlLaunches(t *testing.T, c *analytic.Case) (n float64) {
	t.Helper()
	p, err := analytic.NewPredictor(c)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Parse("llama.cpp")
	if err != nil {
		t.Fatal(err)
	}
	s := p.FirstDecode(&c.Workload)
	ops := s.AppendOps(nil)
	last := len(ops) - 3 // final norm, head and sampling
	for _, part := range []struct {
		part operator.Part
		ops  []operator.Op
	}{{operator.PartFirst, ops[:1]}, {operator.PartLayers, ops[1:last]}, {operator.PartLast, ops[last:]}} {
		l := analytic.Lowering{Step: &s, Part: part.part, Ops: part.ops, GPU: c.Machine.GPU, Constants: &c.Machine.Cal.Constants}
		e.Lower(&l)
		for i := range l.Kernels {
			if k := &l.Kernels[i]; k.Class != roofline.HostCopy {
				n += k.Launches * k.Count
			}
		}
	}
	return n
}

// TestUnpackByHand works out a product of 8 rows with Q8_0 weights: 8.5 bits each at the
// bandwidth, and 1.6 + 8·2.45 operations each at the FP32 peak.
func TestUnpackByHand(t *testing.T) {
	for _, l := range explain(t, ggmlCase(t, "llama3.1-8b", "q8_0", 8)).DecodeOps {
		if l.Name != "down_proj" {
			continue
		}
		const weights = 32 * 4096 * 14336.0
		if vector := weights * (1.6 + 8*2.45) / (0.5 * 66.9e12); float64(l.Expected) < vector || float64(l.Expected) > 1.6*vector {
			t.Errorf("32 products down take %v, the operations alone %.3g s", l.Expected, vector)
		}
		return
	}
	t.Error("there is no product down")
}

// TestLlamaCPPExperts holds the products of experts at batch 32, each of two or three rows, to 2.85 ms of gate and up and 1.55
// ms of down in the log of kernels (experiments/h100-llamacpp/kernels.csv). The experts of its sequences, whose prompts are one,
// may be fewer than chance has.
func TestLlamaCPPExperts(t *testing.T) {
	for _, l := range explain(t, ggmlCase(t, "qwen3-30b-a3b", "q4_k_m", 32)).DecodeOps {
		want := map[string]float64{"experts_gate_up": 2.85e-3, "experts_down": 1.55e-3}[l.Name]
		if got := float64(l.Expected); want > 0 && (got < 0.8*want || got > 1.9*want) {
			t.Errorf("%s takes %v, %v was seen", l.Name, l.Expected, want)
		}
	}
}

// TestHalfSums holds that prompts with weights in FP16 are faster than in BF16 where a GPU adds up in FP16 at twice the rate,
// and only there, and that their floor is at that rate: ggml-org/llama.cpp#4766 has 512 tokens of Llama 2 7B in 46.3 ms on an RTX 4090.
func TestHalfSums(t *testing.T) {
	prompt := func(model, gpu, weights string) analytic.Estimate {
		c := onEngine(t, model, "llama.cpp", analytic.Workload{Batch: 1, PromptLen: 512, GenLen: 1})
		c.Machine = casetest.Machine(t, gpu, "llama.cpp")
		c.Scheme = scheme(t, weights, c.Machine.GPU)
		return predict(t, c)
	}
	near(t, "512 tokens on an RTX 4090", prompt("llama2-7b", "rtx-4090", "fp16").TTFT.Expected, 46.34e-3, 0.2)
	for _, gpu := range []string{"rtx-3090", "rtx-4090"} {
		if half, full := prompt("llama3-8b", gpu, "fp16"), prompt("llama3-8b", gpu, "bf16"); half.TTFT.Expected > 0.8*full.TTFT.Expected ||
			half.TTFT.Floor > 0.6*full.TTFT.Floor {
			t.Errorf("%s: a prompt takes %+v in FP16 and %+v in BF16", gpu, half.TTFT, full.TTFT)
		}
	}
	for _, gpu := range []string{"a6000", "h100", "b300"} {
		half, full := prompt("llama3-8b", gpu, "fp16").TTFT, prompt("llama3-8b", gpu, "bf16").TTFT
		near(t, "a prompt in FP16 on "+gpu, half.Expected, full.Expected, 1e-9)
		near(t, "the floor of a prompt in FP16 on "+gpu, half.Floor, full.Floor, 1e-9)
	}
}

// TestLlamaCPPSecondSequence checks that a decode step of two sequences takes no less than one of a single sequence, whose
// GEMMs have other kernels, with a longer least time.
func TestLlamaCPPSecondSequence(t *testing.T) {
	c := testCase(t, "mamba-2.8b", "gaudi3-128gb", 1, 16)
	c.Machine = casetest.Machine(t, "gaudi3-128gb", "llama.cpp")
	one := predict(t, c)
	for c.Workload.Batch = 2; c.Workload.Batch <= 4; c.Workload.Batch++ {
		if more := predict(t, c); more.TPOT.Expected < one.TPOT.Expected {
			t.Errorf("batch %d: TPOT %v, of one sequence %v", c.Workload.Batch, more.TPOT.Expected, one.TPOT.Expected)
		}
	}
}
