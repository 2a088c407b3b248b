package engine_test

import (
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
)

// mixers are the kernels of attention of a kind of layers, by the type of their main operators.
func mixers(t *testing.T, model, engine, gpu string, tp int, s func(*operator.Rank) operator.Step) map[operator.Type][]analytic.Kernel {
	t.Helper()
	c := testCase(t, model, gpu, 1, tp)
	c.Machine = casetest.Machine(t, gpu, engine)
	shard := operator.NewRank(c.Model, c.Parallel, c.Scheme, nil)
	step, all := s(&shard), map[operator.Type][]analytic.Kernel{}
	for i := range c.Model.Layers {
		l := analytic.Lowering{Step: &step, Part: operator.PartLayers, Ops: step.AppendLayer(nil, &c.Model.Layers[i]), GPU: c.Machine.GPU,
			Constants: &c.Machine.Cal.Constants}
		c.Machine.Engine.Lower(&l)
		all = map[operator.Type][]analytic.Kernel{}
		for k := range l.Kernels {
			if o := &l.Ops[l.Kernels[k].Main]; o.At == 0 {
				all[o.Type] = append(all[o.Type], l.Kernels[k])
			}
		}
		if len(all[operator.Index]) > 0 {
			break
		}
	}
	return all
}

// TestSparseKernels holds that sparse attention has classes of its own by what its cache holds, that projections of the same inputs are one
// GEMM, and that kernels of latent vectors pad the heads of a rank to 64 and read as many keys of a prompt as can be chosen.
func TestSparseKernels(t *testing.T) {
	decode := func(s *operator.Rank) operator.Step { return s.Step(1, 1, 4096, 1) }
	for _, x := range []struct {
		model         string
		index, attend roofline.Class
		gemms         int // Products of one input are one GEMM.
	}{
		{"deepseek-v3.2", roofline.Index, roofline.SparseAttention, 3}, {"glm-5", roofline.Index, roofline.SparseAttention, 3},
		{"deepseek-v4-flash", roofline.IndexEntries, roofline.SparseEntries, 5},
		{"minimax-m3", roofline.IndexBlocks, roofline.SparseBlocks, 2},
	} {
		all := mixers(t, x.model, "vllm", "h200", 8, decode)
		if k := all[operator.Index]; len(k) != 1 || k[0].Class != x.index {
			t.Errorf("%s chooses by %+v", x.model, k)
		}
		if k := all[operator.Attend]; len(k) != 1 || k[0].Class != x.attend {
			t.Errorf("%s attends by %+v", x.model, k)
		}
		gemms := 0
		for _, k := range all[operator.Product] {
			if k.Class == roofline.GEMM {
				gemms++
			}
		}
		if gemms != x.gemms {
			t.Errorf("%s has %d GEMMs in a layer's attention, want %d", x.model, gemms, x.gemms)
		}
	}
	for tp, heads := range map[int]float64{1: 128, 2: 64, 8: 64} {
		prompt := mixers(t, "deepseek-v3.2", "vllm", "h200", tp, func(s *operator.Rank) operator.Step { return s.Step(1, 512, 0, 1) })
		near(t, "FLOPs of a prompt", float64(prompt[operator.Attend][0].Work.FLOPs), 2*heads*(576+512)*2048*512, 1e-9)
	}
	dense := mixers(t, "deepseek-v3.2", "sglang", "h200", 1, func(s *operator.Rank) operator.Step { return s.Step(1, 512, 0, 1) })
	if k := dense[operator.Attend][0]; k.Class != roofline.LatentPrefill {
		t.Errorf("SGLang attends to a short prompt by class %v", k.Class)
	}
}
