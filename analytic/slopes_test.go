package analytic_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof"
	"llmprof/analytic"
	"llmprof/analytic/operator"
	"llmprof/hardware"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
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

// movedByHand is the interval that uncertain constants give a case by its definition: an estimate for every constant
// of the calibration at the slow end of its interval.
func movedByHand(t *testing.T, c *analytic.Case, f *hardware.CalibrationFile) (prefill, decode float64) {
	t.Helper()
	base := predict(t, c)
	for _, end := range f.SlowEnds(c.Machine.GPU, c.Machine.Engine.Profile().Name, &c.Machine.Cal.Constants) {
		slow := predict(t, with(t, c, func(all *roofline.Constants) {
			for _, x := range end {
				if k := x.Constant; k.Info().Quantity == roofline.Share {
					all[k] /= 1 + x.By
				} else {
					all[k] *= 1 + x.By
				}
			}
		}))
		prefill = math.Hypot(prefill, float64(slow.TTFT.Expected/base.TTFT.Expected)-1)
		decode = math.Hypot(decode, float64(slow.TPOT.Expected/base.TPOT.Expected)-1)
	}
	return prefill, decode
}

// TestIntervalIsMovedConstants compares the interval that follows from derivatives with an estimate for each constant at its slow
// end. Derivatives leave out that a constant that moves far may become what a kernel waits for, and that a slower rate of
// arithmetic leaves the power limit more room.
func TestIntervalIsMovedConstants(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct {
		model, gpu, engine string
		tp, pp             int
	}{
		{"llama3.1-8b", "h200", "native", 1, 1}, {"qwen3-30b-a3b", "h200", "native", 2, 1}, {"llama3.1-8b", "h200", "vllm", 2, 1},
		{"deepseek-v3", "h200", "vllm", 8, 1}, {"gemma3-27b", "h200", "vllm", 1, 2}, {"llama3.1-8b", "h100", "native", 1, 2},
		{"nemotron-h-8b", "h200", "sglang", 1, 1},
	} {
		c := testCase(t, x.model, x.gpu, 1, x.tp)
		f := builtIn(t, c.Machine.GPU, x.engine)
		c.Parallel.PP = x.pp
		var err error
		if c.Machine, err = analytic.Calibrated(c.Machine.GPU, casetest.Engine(t, x.engine), f); err != nil {
			t.Fatal(err)
		}
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		for range 20 {
			c.Workload = analytic.Workload{Batch: 1 << random.IntN(7), PromptLen: 64 << random.IntN(6), GenLen: 2 + random.IntN(300)}
			prefill, decode := p.Spreads(&c.Workload)
			wantPrefill, wantDecode := movedByHand(t, c, f)
			if math.Abs(prefill-wantPrefill) > 0.01+0.15*wantPrefill || math.Abs(decode-wantDecode) > 0.01+0.15*wantDecode {
				t.Errorf("%+v of %+v: ±%.4f and ±%.4f, by hand ±%.4f and ±%.4f", c.Workload, x, prefill, decode, wantPrefill, wantDecode)
			}
		}
	}
}

// TestSlopesAreDerivatives compares the derivatives of a step by each constant with the difference that a small change of it makes.
func TestSlopesAreDerivatives(t *testing.T) {
	const change = 1e-5
	for _, model := range variety {
		c := testCase(t, model, "h200", 4, 2)
		if c.Check() != nil {
			continue
		}
		c.Machine = casetest.Machine(t, "h200", "vllm")
		p := predictor(t, c)
		for _, s := range []operator.Step{p.Step(4, 1, 3000, 1), p.Step(2, 700, 0, 1)} {
			time, slopes := p.Slopes(&s)
			for _, k := range roofline.All() {
				longer := with(t, c, func(all *roofline.Constants) {
					if all[k] *= 1 + change; k.Info().Quantity == roofline.Share {
						all[k] /= (1 + change) * (1 + change)
					}
				})
				got, _ := predictor(t, longer).Slopes(&s)
				want := float64(got-time) / change
				if slope := float64(slopes.By[k]); !k.IsPower() && math.Abs(slope-want) > 1e-3*float64(time)*math.Max(change, 0.01) {
					t.Errorf("%s, %d new tokens: %v lengthens the step by %v s each, its derivative is %v", model, int(s.New), k, want, slope)
				}
			}
		}
	}
}

func predictor(t *testing.T, c *analytic.Case) *analytic.Predictor {
	t.Helper()
	p, err := analytic.NewPredictor(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// walks counts the walks over the kernels of steps.
type walks struct {
	analytic.Engine
	n int
}

func (w *walks) Lower(l *analytic.Lowering) {
	if l.Part == operator.PartFirst {
		w.n++
	}
	w.Engine.Lower(l)
}

// TestEstimateIsFewWalks counts the walks of an estimate with its operators and with what it depends on: of prompts in one step, or in two
// where the engine begins with some before the others arrive, and of the first, the middle and the last decode step.
func TestEstimateIsFewWalks(t *testing.T) {
	for _, model := range variety {
		for _, engine := range []string{"vllm", "sglang", "transformers"} {
			c := testCase(t, model, "h100", 8, 2)
			count := &walks{Engine: casetest.Engine(t, engine)}
			m, err := analytic.Calibrated(c.Machine.GPU, count, builtIn(t, c.Machine.GPU, engine))
			if err != nil {
				t.Fatal(err)
			}
			if c.Machine = m; c.Check() != nil {
				continue
			}
			r := explain(t, c)
			if len(r.PrefillOps) == 0 || len(r.DecodeOps) == 0 || r.Prefill.Depends == (analytic.Dependence{}) ||
				r.Decode.Depends == (analytic.Dependence{}) {
				t.Errorf("%s by %s: %d and %d operators, %+v, %+v", model, engine, len(r.PrefillOps), len(r.DecodeOps), r.Prefill.Depends,
					r.Decode.Depends)
			}
			most := 4
			if count.Profile().Early > 0 {
				most++
			}
			if count.n > most {
				t.Errorf("%s by %s: %d walks", model, engine, count.n)
			}
		}
	}
}
