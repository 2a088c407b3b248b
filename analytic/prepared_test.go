package analytic_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/casetest"
	"llmprof/hardware"
)

// builtIn is the calibration of a GPU that comes with the program.
func builtIn(t testing.TB, g *hardware.GPU, engine string) *hardware.CalibrationFile {
	t.Helper()
	f, err := hardware.BuiltIn(llmprof.Calibrations, g, engine)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// movedByHand is the spread of a case by its definition: an estimate for every constant
// of the calibration, relevant or not.
func movedByHand(t *testing.T, c *analytic.Case, g *hardware.GPU, e analytic.Engine, f *hardware.CalibrationFile) (prefill,
	decode float64) {
	t.Helper()
	base := predict(t, c)
	moved, err := f.Moved(g, e.Profile().Name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range moved {
		cal := moved[i].Calibration
		e.Profile().Set(g, &cal)
		one := *c
		if one.Machine, err = analytic.NewMachine(g, cal, e); err != nil {
			t.Fatal(err)
		}
		slow := predict(t, &one)
		prefill = math.Hypot(prefill, float64(slow.TTFT.Expected/base.TTFT.Expected)-1)
		decode = math.Hypot(decode, float64(slow.TPOT.Expected/base.TPOT.Expected)-1)
	}
	return prefill, decode
}

// A series of workloads gets what each of them gets alone, intervals included, whatever it
// remembers of the workloads before, in other numbers of micro-batches too.
func TestPreparedSeries(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct {
		model, gpu, engine string
		tp, pp             int
	}{
		{"llama3.1-8b", "h200", "native", 1, 1}, {"qwen3-30b-a3b", "h200", "native", 2, 1}, {"llama3.1-8b", "h100", "vllm", 2, 1},
		{"gemma2-9b", "a100", "transformers-graph", 1, 1}, {"deepseek-v3", "h200", "vllm", 8, 1},
		{"gemma3-27b", "h200", "vllm", 1, 2}, {"llama3.1-8b", "h100", "native", 1, 2}, {"nemotron-h-8b", "h200", "sglang", 1, 1},
	} {
		g, e := casetest.GPU(t, x.gpu), casetest.Engine(t, x.engine)
		f := builtIn(t, g, x.engine)
		c := testCase(t, x.model, x.gpu, 1, x.tp)
		c.Parallel.PP = x.pp
		all, err := analytic.Calibrated(g, e, f)
		if err != nil {
			t.Fatal(err)
		}
		series, err := c.Prepare(all, all.Machine)
		if err != nil {
			t.Fatal(err)
		}
		for range 40 {
			if x.pp > 1 {
				c.Parallel.MicroBatches = 1 + random.IntN(2)
				series = series.WithMicroBatches(c.Parallel.MicroBatches)
			}
			w := analytic.Workload{Batch: max(c.Parallel.MicroBatches, 1) << random.IntN(7), PromptLen: 512 << random.IntN(2),
				GenLen: 2 + random.IntN(300), Chunk: 256 * random.IntN(2)}
			got, err := series.Predict(&w)
			if err != nil {
				t.Fatal(err)
			}
			one := *c
			one.Workload = w
			if one.Machine, err = casetest.Calibrated(&one, g, e, f); err != nil {
				t.Fatal(err)
			}
			if want := predict(t, &one); got != want {
				t.Fatalf("%+v of %+v: the series has %+v, alone it is %+v", w, x, got, want)
			}
			if f != nil {
				prefill, decode := movedByHand(t, &one, g, e, f)
				cal := &one.Machine.Cal
				// What the shapes of kernels scatter comes in quadrature, and the board where no row of the file says what kernels take.
				if !f.Serves(x.engine) {
					ofPrefill, ofDecode := series.Unfitted()
					prefill, decode = math.Hypot(prefill, cal.Board*ofPrefill), math.Hypot(decode, cal.Board*ofDecode)
				}
				ofPrefill, ofDecode := series.Scatter()
				prefill, decode = math.Hypot(prefill, ofPrefill), math.Hypot(decode, ofDecode)
				if math.Abs(prefill-cal.PrefillError) > 1e-12 || math.Abs(decode-cal.DecodeError) > 1e-12 {
					t.Errorf("%+v of %+v: ±%v and ±%v, by hand ±%v and ±%v", w, x, cal.PrefillError, cal.DecodeError, prefill, decode)
				}
			}
		}
	}
}

// A prefill is remembered for answers of other lengths only where no kernel depends on the
// length of the cache: the native engine's attention does where a window is outgrown, and a
// cache of fixed length is copied whole.
func TestPreparedFixedCache(t *testing.T) {
	for _, engine := range []string{"native", "transformers-graph"} {
		g, e := casetest.GPU(t, "h100"), casetest.Engine(t, engine)
		all, err := analytic.Calibrated(g, e, builtIn(t, g, engine))
		if err != nil {
			t.Fatal(err)
		}
		c := testCase(t, "mistral-7b-v0.1", "h100", 1, 1)
		series, err := c.Prepare(all, all.Machine)
		if err != nil {
			t.Fatal(err)
		}
		for _, gen := range []int{50, 300, 20, 2} {
			w := analytic.Workload{Batch: 4, PromptLen: 4000, GenLen: gen}
			got, err := series.Predict(&w)
			if err != nil {
				t.Fatal(err)
			}
			one := *c
			one.Workload = w
			one.Machine = one.On(all)
			if want := predict(t, &one); got != want {
				t.Errorf("%s, %d tokens: the series has %+v, alone it is %+v", engine, gen, got, want)
			}
		}
	}
}

// BenchmarkPreparedSeries is an estimate of one more generated length, batch or, where the
// calibration was measured, of either with its interval.
func BenchmarkPreparedSeries(b *testing.B) {
	for _, x := range []struct{ name, gpu, engine string }{{"default", "a100", "vllm"}, {"measured", "h200", "native"}} {
		g, e := casetest.GPU(b, x.gpu), casetest.Engine(b, x.engine)
		c := testCase(b, "llama3.1-8b", x.gpu, 1, 1)
		all, err := analytic.Calibrated(g, e, builtIn(b, g, x.engine))
		if err != nil {
			b.Fatal(err)
		}
		series, err := c.Prepare(all, all.Machine)
		if err != nil {
			b.Fatal(err)
		}
		run := func(vary func(w *analytic.Workload, i int)) func(*testing.B) {
			return func(b *testing.B) {
				w := analytic.Workload{Batch: 8, PromptLen: 1024, GenLen: 128}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					vary(&w, i)
					if _, err := series.Predict(&w); err != nil {
						b.Fatal(err)
					}
				}
			}
		}
		b.Run(x.name+"/gen", run(func(w *analytic.Workload, i int) { w.GenLen = 2 + i%1000 }))
		b.Run(x.name+"/batch", run(func(w *analytic.Workload, i int) { w.Batch = 1 + i%256 }))
	}
}
