package analytic_test

import (
	"math"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// FuzzPredict asks for whatever fits the types: a case is refused, or its answer
// is finite and positive, not below its floor, and grows with batch, prompt,
// answer and layers.
func FuzzPredict(f *testing.F) {
	f.Add(uint8(0), 1, 1024, 128, 0, 0, 1, 1, 1, 1, uint8(0))
	f.Add(uint8(1), 32, 1, 1, 7, 0, 8, 2, 1, 3, uint8(5))
	f.Add(uint8(9), 3, 4096, 2000, 512, 100, 2, 1, 2, 1, uint8(11))
	f.Add(uint8(12), 0, -1, 1<<40, -5, 1<<31, -3, 0, 0, 0, uint8(255))
	f.Add(uint8(3), 1, 8191, 5, 8191, 0, 1, 1, 1, 1, uint8(7))
	names := models.SchemeNames()
	cases := make([]*analytic.Case, len(variety))
	for i, name := range variety {
		cases[i] = testCase(f, name, "h200", 1, 1)
	}
	f.Fuzz(func(t *testing.T, model uint8, batch, prompt, gen, chunk, prefix, tp, pp, ep, dp int, sch uint8) {
		c := *cases[int(model)%len(cases)]
		c.Workload = analytic.Workload{Batch: batch, PromptLen: prompt, GenLen: gen, Chunk: chunk, CachedPrefix: prefix}
		c.Parallel = analytic.Parallelism{TP: tp, PP: pp, EP: ep, DP: dp, GPUsPerNode: 8}
		c.Scheme = scheme(t, names[int(sch)%len(names)], c.Machine.GPU)
		p, err := analytic.NewPredictor(&c)
		if err != nil {
			return
		}
		e, err := p.Predict(&c.Workload)
		if err != nil {
			return
		}
		sane(t, &c, &e)
		for _, more := range []func(*analytic.Workload){
			func(w *analytic.Workload) { w.Batch *= 2 },
			func(w *analytic.Workload) {
				if c.Model.Family != "llama4_text" { // whose attention starts anew at every chunk
					w.PromptLen++
				}
			},
			func(w *analytic.Workload) { w.GenLen++ },
		} {
			w := c.Workload
			more(&w)
			grown, err := p.Predict(&w)
			if err != nil {
				continue
			}
			notLess(t, &c, &w, &e, &grown)
		}
		deeper(t, c, &e)
	})
}

func sane(t *testing.T, c *analytic.Case, e *analytic.Estimate) {
	t.Helper()
	if !finite(e) {
		t.Fatalf("%+v %+v: not finite or negative: %+v", c.Workload, c.Parallel, e)
	}
	for _, s := range []analytic.Span{e.TTFT, e.TTLT} {
		if !(s.Floor > 0 && s.Floor <= s.Low && s.Low <= s.Expected && s.Expected <= s.High) {
			t.Fatalf("%+v %+v: out of order: %+v", c.Workload, c.Parallel, s)
		}
	}
	if e.MFU > 1 || e.MBU > 1 {
		t.Fatalf("%+v: MFU %v, MBU %v", c.Workload, e.MFU, e.MBU)
	}
}

func notLess(t *testing.T, c *analytic.Case, w *analytic.Workload, small, large *analytic.Estimate) {
	t.Helper()
	const slack = 1 - 1e-9
	fuller := tiled(c) && (w.Batch != c.Workload.Batch || w.PromptLen != c.Workload.PromptLen)
	if !fuller && large.TTLT.Expected < small.TTLT.Expected*slack || large.TTLT.Floor < small.TTLT.Floor*slack ||
		large.Memory.Total < small.Memory.Total*slack {
		t.Fatalf("%s %+v: %+v takes less than %+v: %v after %v", c.Model.Name, c.Parallel, *w, c.Workload, large.TTLT, small.TTLT)
	}
}

// tiled reports whether the case has GEMMs that take less time the fuller their last tile is.
func tiled(c *analytic.Case) bool {
	k := roofline.Kernel{Class: roofline.GEMM, Scheme: roofline.FP8, Shape: roofline.Shape{M: 1, N: 1, K: 1}}
	engine.SetTile(c.Machine.Engine.Profile().Engine(), c.Machine.GPU, &k)
	return k.Tile.Rows > 0 && (c.Scheme.Act == unit.FP8 || c.Scheme.Stored)
}

// deeper gives the model one more layer of its first kind.
func deeper(t *testing.T, c analytic.Case, e *analytic.Estimate) {
	t.Helper()
	m := *c.Model
	m.Layers = append(m.Layers[:0:0], m.Layers...)
	m.Layers[0].Count++
	c.Model = &m
	if c.Parallel.PP > 1 {
		return // one more layer may even out the stages
	}
	grown, err := analytic.Predict(&c)
	if err != nil {
		t.Fatalf("one more layer: %v", err)
	}
	notLess(t, &c, &c.Workload, e, &grown)
}

// finite reports whether every figure of an estimate is one.
func finite(e *analytic.Estimate) bool {
	for _, x := range []float64{
		float64(e.TTFT.Expected), float64(e.TPOT.Expected), float64(e.TTLT.Expected), float64(e.TTLT.Floor),
		float64(e.Memory.Total), e.Throughput, e.MFU, e.MBU, float64(e.Energy.PerRequest),
	} {
		if math.IsNaN(x) || math.IsInf(x, 0) || x < 0 {
			return false
		}
	}
	return true
}
