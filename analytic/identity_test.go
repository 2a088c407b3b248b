package analytic_test

import (
	"slices"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/operator"
	"llmprof/internal/testkit/casetest"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// Every figure of this file is found a second time by another route.

// part is the part of a step that an operator belongs to.
func part(ops []operator.Op, i int) operator.Part {
	switch {
	case ops[i].Layer != "" || ops[i].Type == operator.Send:
		return operator.PartLayers
	case i > 0 && part(ops, i-1) != operator.PartFirst:
		return operator.PartLast
	}
	return operator.PartFirst
}

// lowered is the expected time of a step by another route: the operators that AppendOps
// lists, lowered part by part and priced kernel by kernel.
func lowered(c *analytic.Case, ops []operator.Op, st *operator.Step) (sum unit.Seconds) {
	for i := 0; i < len(ops); {
		j := i
		for j < len(ops) && ops[j].Layer == ops[i].Layer && part(ops, j) == part(ops, i) {
			j++
		}
		l := analytic.Lowering{Step: st, Part: part(ops, i), Ops: ops[i:j], GPU: c.Machine.GPU, Constants: &c.Machine.Cal.Constants}
		c.Machine.Engine.Lower(&l)
		for k := range l.Kernels {
			cost := casetest.Cost(c.Machine, &l.Kernels[k].Kernel)
			sum += cost.Time
			if k := &l.Kernels[k]; k.Partial {
				l.Ops[k.Main].Work = k.Work
			}
		}
		i = j
	}
	return sum
}

// A Predictor's price of a step is the sum of the costs of the kernels that the engine
// makes of the operators that AppendOps lists, and its work that of the operators.
func TestPredictorAddsUpOperators(t *testing.T) {
	for _, name := range variety {
		for _, tp := range []int{1, 2} {
			c := testCase(t, name, "h200", 1, tp)
			if c.Check() != nil {
				continue
			}
			p, err := analytic.NewPredictor(c)
			if err != nil {
				t.Fatal(err)
			}
			for _, shape := range [][4]float64{{1, 1, 1024, 1}, {8, 1, 5000, 1}, {3, 517, 0, 1}, {2, 64, 999, 0}, {1, 33, 0, 33}} {
				st := p.Step(shape[0], shape[1], shape[2], shape[3])
				ops := st.AppendOps(nil)
				got := p.OneStep(shape[0], shape[1], shape[2], shape[3])
				want := lowered(c, ops, &st) + unit.Seconds(c.Machine.Cal.Constants[roofline.HostStep])
				var work roofline.Work
				for i := range ops {
					work.Add(&ops[i].Work, ops[i].Count)
				}
				near(t, name+" expected", got.Expected, want, 1e-9)
				near(t, name+" FLOPs", got.Work.FLOPs, work.FLOPs, 1e-9)
				near(t, name+" traffic", got.Work.Traffic(), work.Traffic(), 1e-9)
			}
		}
	}
}

// A run of steps in closed form is the sum of its steps one by one.
func TestRunIsSumOfSteps(t *testing.T) {
	for _, name := range variety {
		c := testCase(t, name, "h200", 4, 1)
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []struct{ past, n, count float64 }{
			{1024, 1, 127}, {1, 1, 300}, {120, 1, 20}, {4000, 1, 500}, {8100, 1, 200}, {0, 128, 40}, {64, 96, 50},
		} {
			got := p.Run(4, run.n, run.past, 1, run.count)
			var want analytic.Sum
			for i := range int(run.count) {
				one := p.OneStep(4, run.n, run.past+float64(i)*run.n, 1)
				want.Expected += one.Expected
				want.Floor += one.Floor
				want.Work.Add(&one.Work, 1)
			}
			near(t, name+" expected", got.Expected, want.Expected, 1e-9)
			near(t, name+" floor", got.Floor, want.Floor, 1e-9)
			near(t, name+" FLOPs", got.Work.FLOPs, want.Work.FLOPs, 1e-9)
			near(t, name+" traffic", got.Work.Traffic(), want.Work.Traffic(), 1e-9)
		}
	}
}

// A prompt in chunks, or behind a cached prefix, has the FLOPs of the layers that
// the whole prompt has.
func TestChunkedPrefillIsWholePrefill(t *testing.T) {
	for _, name := range []string{"llama3.1-8b", "gemma2-9b", "mixtral-8x7b", "falcon-mamba-7b", "gpt2"} {
		c := testCase(t, name, "h200", 2, 1)
		c.Workload.PromptLen = 1000
		whole := explain(t, c)
		for _, chunk := range []int{1, 7, 256, 999, 1000, 5000} {
			c.Workload.Chunk = chunk
			r := explain(t, c)
			near(t, name+" FLOPs in chunks", r.Prefill.FLOPs, whole.Prefill.FLOPs, 1e-9)
			if r.TTFT.Expected < whole.TTFT.Expected {
				t.Errorf("%s: chunks of %d are faster than the whole prompt: %v, %v", name, chunk, r.TTFT.Expected, whole.TTFT.Expected)
			}
		}
		c.Workload.Chunk, c.Workload.CachedPrefix = 0, 600
		rest := explain(t, c)
		c.Workload.CachedPrefix, c.Workload.PromptLen = 0, 600
		first := explain(t, c)
		head := line(t, first.PrefillOps, "lm_head").FLOPs
		near(t, name+" FLOPs around a cached prefix", rest.Prefill.FLOPs+first.Prefill.FLOPs-head, whole.Prefill.FLOPs, 1e-9)
	}
}

// A decode step with so many tokens that every expert is chosen reads every weight
// of every model of the table once, the embedding's apart and those of layers for images.
func TestDecodeReadsEveryWeightOnce(t *testing.T) {
	c := testCase(t, "llama2-70b", "h200", 4096, 1)
	for _, m := range casetest.Models(t) {
		if reuses(m) {
			continue
		}
		c.Model = m
		r := explain(t, c)
		var read unit.Bytes
		for i := range r.DecodeOps {
			l := &r.DecodeOps[i]
			if l.Name != "embedding" {
				read += l.Weights
			}
		}
		want := m.Params() - m.EmbeddingParams() - small(m)
		if slices.ContainsFunc(m.Layers, func(l models.Layer) bool { return l.Idle }) {
			want -= m.Params() - m.ActiveParams() // No such model has experts.
		}
		if m.TiedHead {
			want += int64(m.Head.In) * int64(m.Head.Out)
		}
		for _, l := range m.Embedding.Project {
			want += l.Params()
		}
		near(t, m.Name+": bytes of weights read", read, unit.BF16.Bytes(float64(want)), 1e-3)
	}
}

// reuses reports whether m runs a block's weights more than once (Zamba).
func reuses(m *models.Model) bool {
	for i := range m.Layers {
		l := &m.Layers[i]
		for _, b := range l.Blocks {
			if b.Reused {
				return true
			}
		}
	}
	return false
}

// small is the parameters that the operators leave out for being of no account.
func small(m *models.Model) (n int64) {
	for i := range m.Layers {
		l := &m.Layers[i]
		for _, b := range l.Blocks {
			n += b.Extra * int64(l.Count)
			if b.Scan != nil { // of which the convolution's weights are read
				n -= int64(b.Scan.Conv) * int64(b.Scan.Kernel) * int64(l.Count)
			}
		}
	}
	return n
}

// FLOPs over all ranks are those of one GPU.
func TestRanksShareTheWork(t *testing.T) {
	for _, name := range []string{"llama2-70b", "qwen3-30b-a3b", "mixtral-8x7b"} {
		one := explain(t, testCase(t, name, "h200", 4, 1))
		for _, tp := range []int{2, 4} { // no more than KV heads, which would be computed twice
			r := explain(t, testCase(t, name, "h200", 4, tp))
			near(t, name+": FLOPs of the model", r.Prefill.FLOPs, one.Prefill.FLOPs, 1e-3)
			near(t, name+": FLOPs of all ranks", r.Prefill.Executed.Times(float64(tp)), one.Prefill.Executed, 2e-2)
		}
	}
}

// The lines of a report add up to its phases.
func TestLinesAddUp(t *testing.T) {
	for _, name := range variety {
		c := testCase(t, name, "h200", 4, 1)
		c.Workload.Chunk = 300
		for _, r := range []breakdown.Report{explain(t, c)} {
			for _, phase := range []struct {
				lines []breakdown.Operator
				p     analytic.Phase
			}{{r.PrefillOps, r.Prefill}, {r.DecodeOps, r.Decode}} {
				var time, floors unit.Seconds
				var flops unit.FLOPs
				var share float64
				for i := range phase.lines {
					l := &phase.lines[i]
					time += l.Expected
					floors += l.Floor
					flops += l.FLOPs
					share += l.Share
				}
				near(t, name+" time", time, phase.p.Expected, 2e-3)
				near(t, name+" FLOPs", flops, phase.p.Executed, 2e-3)
				near(t, name+" shares", share, 1, 2e-3)
				var layers unit.Seconds
				for _, l := range breakdown.Layers(phase.lines) {
					layers += l.Expected
				}
				near(t, name+" time of the layers", layers, time, 1e-9)
				if floors < phase.p.Floor.Times(1-2e-3) {
					t.Errorf("%s: floors of the operators are %v, less than the step's %v", name, floors, phase.p.Floor)
				}
			}
		}
	}
}
