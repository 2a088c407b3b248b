package engine_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/roofline"
)

// ggmlCase is a case of llama.cpp on an H100 with weights in a quantization of its own, or
// in another format.
func ggmlCase(t *testing.T, model, weights string, batch int) *analytic.Case {
	t.Helper()
	c := onEngine(t, model, "llama.cpp", analytic.Workload{Batch: batch, PromptLen: 1024, GenLen: 8})
	c.Machine = casetest.Machine(t, "h100", "llama.cpp")
	if !models.IsFileType(weights) {
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

// sameExperts gives every token of a case the same 8 of 128 experts, as a router whose weights are all ones does
// (experiments/h100-llamacpp).
func sameExperts(c *analytic.Case) *analytic.Case {
	c.Popularity = &operator.Popularity{Loads: make([]float64, 128)}
	for i := range 8 {
		c.Popularity.Loads[i] = 1
	}
	return c
}

// TestLlamaCPPExperts holds the products of experts to the log of kernels (experiments/h100-llamacpp/kernels.csv): with 32 sequences, and
// with a pass of 512 tokens, of which 47 layers are logged.
func TestLlamaCPPExperts(t *testing.T) {
	step := sameExperts(ggmlCase(t, "qwen3-30b-a3b", "q4_k_m", 32))
	pass := sameExperts(ggmlCase(t, "qwen3-30b-a3b", "q4_k_m", 1))
	pass.Workload.CachedPrefix = 512
	for _, logged := range []struct {
		what string
		ops  []analytic.Operator
		want map[string]float64
	}{
		{"32 sequences", explain(t, step).DecodeOps, map[string]float64{"experts_gate_up": 2.85e-3, "experts_down": 1.55e-3}},
		{"a pass of 512", explain(t, pass).PrefillOps,
			map[string]float64{"experts_gate_up": 10.84e-3 * 48 / 47, "experts_down": 7.12e-3 * 48 / 47}},
	} {
		for _, o := range logged.ops {
			if want := logged.want[o.Name]; want > 0 {
				near(t, o.Name+" of "+logged.what, float64(o.Expected), want, 0.3)
			}
		}
	}
}

// TestLlamaCPPExpertTiles holds that a tile of an expert takes as long whatever part of it has tokens: 512 tokens over all experts take
// twice as many tiles as have data, and a pass of 2048 tokens takes less time for each token.
func TestLlamaCPPExpertTiles(t *testing.T) {
	took := func(tokens int, c *analytic.Case) float64 {
		c.Workload = analytic.Workload{Batch: 1, PromptLen: tokens, GenLen: 1, Budget: tokens}
		for _, o := range explain(t, c).PrefillOps {
			if o.Name == "experts_gate_up" {
				return float64(o.Expected) / float64(tokens)
			}
		}
		return 0
	}
	even := func() *analytic.Case { return ggmlCase(t, "qwen3-30b-a3b", "q4_k_m", 1) }
	near(t, "tiles of all experts over those of 8", took(512, even())/took(512, sameExperts(even())), 128/33.0, 0.35)
	near(t, "2048 tokens over 512", took(2048, even())/took(512, even()), 1.6/4, 0.15)
}

// TestLlamaCPPGraphs holds that decode steps are CUDA graphs, whose launches take the host no time: 280 and 308 tokens a second were
// measured on two H200 where 1110 launches alone take 5.9 ms.
func TestLlamaCPPGraphs(t *testing.T) {
	c := ggmlCase(t, "qwen3-30b-a3b", "q4_k_m", 1)
	c.Machine = casetest.Machine(t, "h200", "llama.cpp")
	near(t, "TPOT by graphs", float64(predict(t, c).TPOT.Expected), 1/294.0, 0.12)
	c.Machine = casetest.Machine(t, "h200", "llama.cpp+no-graphs")
	near(t, "TPOT launch by launch", float64(predict(t, c).TPOT.Expected), 1110*5.3e-6, 0.1)
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
