package analytic_test

import (
	"fmt"
	"math"
	"testing"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/roofline"
	"llmprof/unit"
)

// prepared is a case with the intervals that users see.
func prepared(t *testing.T, c *analytic.Case) *analytic.Predictor {
	t.Helper()
	g, e := c.Machine.GPU, c.Machine.Engine
	f, err := hardware.BuiltIn(llmprof.Calibrations, g, e.Profile().Name)
	if err != nil {
		t.Fatal(err)
	}
	one := *c
	if one.Machine, err = analytic.Calibrated(g, e, f); err != nil {
		t.Fatal(err)
	}
	p, err := analytic.NewPredictor(&one)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// leastExpected is what is allowed of the expected time: tiles of experts that more tokens fill take some 0.01 % less in two of 280,000
// steps.
const leastExpected = 0.9998

// leastEnd is what is allowed of the ends of an interval: the residual of a kernel's law is that of its leading constant, and another one
// may lead.
const leastEnd = 0.995

// TestLongerPromptsTakeNoLess holds that a longer prompt lowers neither TTFT nor its floor nor either end of its interval, whatever the
// model, the GPU, the engine and the split, unless the engine chooses other kernels for it by thresholds of its own. LLMPROF_TEST_LONG=1
// draws more.
func TestLongerPromptsTakeNoLess(t *testing.T) {
	d := newDraw(t, 7)
	count := testkit.Cases(1000, 40_000)
	for n := range count {
		c := d.next()
		p, w := prepared(t, c), c.Workload
		w.GenLen, w.PromptLen = 1, 1+d.IntN(1<<d.IntN(13))
		var last analytic.Span
		var was threshold
		for i := range 8 {
			e, err := p.Predict(&w)
			if err != nil {
				t.Fatal(err)
			}
			now := thresholds(p, &w)
			s := e.TTFT
			falls := s.Floor < last.Floor.Times(least) || s.Expected < last.Expected.Times(leastExpected)
			if n < 2000 && was.sums == now.sums { // Of some in 10,000 an end falls by more, where another constant leads a law.
				falls = falls || s.Low < last.Low.Times(leastEnd) || s.High < last.High.Times(leastEnd)
			}
			if i > 0 && was.kernels == now.kernels && falls {
				longer := analytic.Case{Model: c.Model, Machine: c.Machine, Scheme: c.Scheme, Workload: w, Parallel: c.Parallel}
				t.Errorf("%s: TTFT %+v, of a shorter prompt %+v", describe(&longer), s, last)
			}
			last, was = e.TTFT, now
			w.PromptLen += pick(d, 1, 1, 2, 7, 64, 1+d.IntN(500), int(math.Ceil(float64(w.PromptLen)*d.Float64())))
		}
	}
}

// TestLastTokenOfPrompts holds that prompts of which the cache has all but one token take no longer than those of which it lacks two: they
// are no decode step, beside which the host works for each sequence.
func TestLastTokenOfPrompts(t *testing.T) {
	c := testCase(t, "distilgpt2", "tpu-v7x-192gb", 1, 1)
	c.Machine = newDraw(t, 0).machine(c.Machine.GPU, "vllm")
	p := prepared(t, c)
	for _, batch := range []int{1, 100, 1000, 9939} {
		one, err := p.Predict(&analytic.Workload{Batch: batch, PromptLen: 7, CachedPrefix: 6, GenLen: 1})
		if err != nil {
			t.Fatal(err)
		}
		two, err := p.Predict(&analytic.Workload{Batch: batch, PromptLen: 8, CachedPrefix: 6, GenLen: 1})
		if err != nil {
			t.Fatal(err)
		}
		if one.TTFT.Expected > two.TTFT.Expected || one.TTFT.High > two.TTFT.High {
			t.Errorf("batch %d: TTFT is %+v with one token to compute, %+v with two", batch, one.TTFT, two.TTFT)
		}
	}
}

// A threshold is what an engine chooses for the steps of a prompt by thresholds of its own: tiles of known sizes, whose empty rows may take
// longer than rows of data, and how many prompts share a step (docs/operator-tables.md); and how ranks sum, and whether chunks have one
// token, since the laws of those are off by other shares.
type threshold struct{ kernels, sums string }

func thresholds(p *analytic.Predictor, w *analytic.Workload) (all threshold) {
	for _, r := range p.Prefill(w) {
		if r.Steps == 0 {
			continue
		}
		all.kernels += fmt.Sprint(r.First.Batch)
		all.sums += fmt.Sprint(r.First.New == 1)
		p.Walk(&r.First, func(l *analytic.Lowering, _ []roofline.Cost) {
			for i := range l.Kernels {
				switch k := &l.Kernels[i]; {
				case l.Ops[k.Main].Type == operator.Reduce:
					all.sums += fmt.Sprint(" ", k.Class)
				case k.Class == roofline.GEMM && k.Tile.Rows > 0:
					all.kernels += fmt.Sprint(" rows ", k.Shape.M)
				case k.Tile.Rows > 0:
					all.kernels += fmt.Sprint(" tile ", k.Tile.Rows, k.Scheme)
				}
			}
		})
	}
	return all
}

// TestHostBehindKernels checks that the ends of TTFT's interval do not jump where the kernels of a longer prompt take longer than the host.
func TestHostBehindKernels(t *testing.T) {
	for _, name := range []string{"transformers", "sglang", "vllm"} {
		c := testCase(t, "gpt2", "agx-orin-64gb", 32, 1)
		c.Machine = newDraw(t, 0).machine(c.Machine.GPU, name)
		p := prepared(t, c)
		var last unit.Seconds
		for prompt := 1; prompt < 40; prompt++ {
			e, err := p.Predict(&analytic.Workload{Batch: 32, PromptLen: prompt, GenLen: 1})
			if err != nil {
				t.Fatal(err)
			}
			if e.TTFT.Low < last.Times(least) {
				t.Errorf("%s: the low end of TTFT is %v for %d tokens, %v for one token less", name, e.TTFT.Low, prompt, last)
			}
			last = e.TTFT.Low
		}
	}
}
