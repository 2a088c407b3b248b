package analytic_test

import (
	"math"
	"slices"
	"testing"
	"time"

	"llmprof/analytic"
	"llmprof/hardware"
	"llmprof/internal/testkit/casetest"
	"llmprof/roofline"
	"llmprof/unit"
)

// measured is a calibration of g in which nothing but the products was fitted.
func measured(t *testing.T, g *hardware.GPU, engine string) *hardware.CalibrationFile {
	t.Helper()
	f, err := hardware.NewCalibrationFile(g, unit.BF16)
	if err != nil {
		t.Fatal(err)
	}
	f.Name, f.Engine, f.Kernels, f.Made = "mine", engine, "some", time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for key, v := range f.Values {
		f.Values[key] = hardware.Value{Value: v.Value, Uncertainty: 1e-9 * v.Value, N: 10, From: "rows"}
	}
	return f
}

func calibratedCase(t *testing.T) *analytic.Case {
	c := testCase(t, "llama3.1-8b", "h200", 1, 1)
	c.Machine = nil
	return c
}

// The constants of a file are what an estimate is made of, and by a second route
// its interval is what each uncertain constant does alone.
func TestCalibratedInterval(t *testing.T) {
	c, g := calibratedCase(t), casetest.GPU(t, "h200")
	native := casetest.Engine(t, "native")
	f := measured(t, g, "native")
	f.Values["gemm.fixed"] = hardware.Value{Value: 5e-6, N: 10, From: "rows"}
	m, err := analytic.Calibrated(g, native, f)
	if err != nil {
		t.Fatal(err)
	}
	one := *c
	one.Machine = m
	certain := predict(t, &one).Decode.KernelHigh // what is left without the constants' uncertainty: the scatter of shapes
	if certain < 0.01 || certain > 0.08 {
		t.Errorf("no constant is uncertain, but the interval is ±%v", certain)
	}
	f.Values["gemm.fixed"] = hardware.Value{Value: 5e-6, Uncertainty: 2e-6, N: 10, From: "rows"}
	if m, err = analytic.Calibrated(g, native, f); err != nil {
		t.Fatal(err)
	}
	if m.Cal.Constants[roofline.GEMMFixed] != 5e-6 || m.Cal.Name != "mine" {
		t.Errorf("%+v", m.Cal)
	}
	one.Machine = m
	base := predict(t, &one)
	// The file says nothing of skinny GEMMs: they go with all others.
	fixed := predict(t, with(t, &one, func(k *roofline.Constants) {
		k[roofline.GEMMFixed] *= 1 + 2.0/5*1.645/1.960
		k[roofline.SkinnyGEMMFixed] = k[roofline.GEMMFixed]
	}))
	want := math.Hypot(certain, float64(fixed.TPOT.Expected/base.TPOT.Expected)-1)
	if math.Abs(base.Decode.KernelHigh-want) > 1e-5 || want < certain*1.05 {
		t.Errorf("decode: ±%v, want ±%v", base.Decode.KernelHigh, want)
	}
	if got := float64(base.TPOT.High / base.TPOT.Expected); math.Abs(got-1-want) > 1e-5 {
		t.Errorf("the interval of TPOT ends at %v", got)
	}
}

// The kernels of another engine are not those that were timed.
func TestCalibratedOtherEngine(t *testing.T) {
	c, g := calibratedCase(t), casetest.GPU(t, "h200")
	vllm := casetest.Engine(t, "vllm")
	m, err := analytic.Calibrated(g, vllm, measured(t, g, "native"))
	if err != nil {
		t.Fatal(err)
	}
	of := func(m *analytic.Machine) float64 {
		one := *c
		one.Machine = m
		return predict(t, &one).Decode.KernelHigh
	}
	d := casetest.Machine(t, "h200", "vllm").Cal
	if own, err := analytic.Calibrated(g, casetest.Engine(t, "native"), measured(t, g, "native")); err != nil ||
		of(m) <= of(own) || of(m) < d.Board {
		t.Errorf("±%v, of the engine that was timed ±%v (%v)", of(m), of(own), err)
	}
	if m.Engine != vllm {
		t.Errorf("the engine is %+v", m.Engine)
	}
	if _, err := analytic.Calibrated(casetest.GPU(t, "a100"), vllm, measured(t, g, "native")); err == nil {
		t.Error("a calibration of another GPU was taken")
	}
	m, err = analytic.Calibrated(g, vllm, nil)
	if err != nil || m.Cal.Constants != d.Constants || of(m) >= d.DecodeError {
		t.Errorf("without a calibration: %+v, %v", m, err)
	}
}

// TestUnfittedKernels adds up by hand the time of the kernels whose constants neither the file of a library's kernels nor a table of the
// engine on that board has. GEMMs in 16 bits are of the file, which moves the defaults of element-wise kernels by the error of the board,
// and attention is of vLLM's table, whose change to another release is known. GEMMs in FP8 are of that table too, and nothing says how far
// another release's are off.
func TestUnfittedKernels(t *testing.T) {
	for _, x := range []struct {
		engine  string
		weights string
		fitted  []roofline.Class
		atLeast float64 // least share of the time of a decode step
		atMost  float64
	}{
		{"vllm", "w16a16", []roofline.Class{roofline.GEMM, roofline.AttentionDecode, roofline.Elementwise}, 0.01, 0.5},
		{"vllm@0.19.0", "w16a16", []roofline.Class{roofline.GEMM, roofline.AttentionDecode, roofline.Elementwise}, 0.01, 0.5},
		{"vllm", "fp8", []roofline.Class{roofline.GEMM, roofline.AttentionDecode, roofline.Elementwise}, 0.01, 0.5},
	} {
		c, g, e := calibratedCase(t), casetest.GPU(t, "h200"), casetest.Engine(t, x.engine)
		c.Scheme = scheme(t, x.weights, g)
		c.Workload.Batch, c.Workload.GenLen = 32, 2
		var err error
		if c.Machine, err = analytic.Calibrated(g, e, builtIn(t, g, "vllm")); err != nil {
			t.Fatal(err)
		}
		p, err := analytic.NewPredictor(c)
		if err != nil {
			t.Fatal(err)
		}
		var rest, sum unit.Seconds
		s := p.FirstDecode(&c.Workload)
		p.Walk(&s, func(l *analytic.Lowering, costs []roofline.Cost) {
			for i := range costs {
				sum += costs[i].Time
				head := l.Kernels[i].Scheme == roofline.Unquantized && costs[i].Class == roofline.GEMM // in 16 bits
				if !head && !slices.Contains(x.fitted, costs[i].Class) {
					rest += costs[i].Time
				}
			}
		})
		got := p.Unfitted(&s)
		if near(t, x.engine, got, float64(rest/sum), 1e-9); got < x.atLeast || got > x.atMost {
			t.Errorf("%s: %v of the time is of constants that were not read off an H200", x.engine, got)
		}
	}
}

// The time of a host that kernels do not hide is off independently of the kernels.
func TestHostIsOffByItself(t *testing.T) {
	c := testCase(t, "llama3.1-8b", "h200", 8, 1)
	c.Machine = casetest.Machine(t, "h200", "vllm@0.12.0")
	k := &c.Machine.Cal.Constants
	shown := k[roofline.HostStep] + 8*k[roofline.HostSequence]
	e, p := predict(t, c), c.Machine.Engine.Profile()
	off, kernels, all := p.HostError, math.Hypot(e.Decode.KernelHigh, p.ReleaseError), float64(e.TPOT.Expected)
	near(t, "high", float64(e.TPOT.High), all*(1+math.Hypot(kernels, shown*off/all)), 1e-9)
	near(t, "low", float64(e.TPOT.Low), all*(1-math.Hypot(kernels, shown*off/(1+off)/all)), 1e-9)
}

// What was measured of an engine's host takes the place of what its profile has, and
// nothing is left of the profile's doubt about other hosts.
func TestCalibratedHost(t *testing.T) {
	c, g := calibratedCase(t), casetest.GPU(t, "h200")
	transformers := casetest.Engine(t, "transformers")
	f := measured(t, g, "transformers")
	f.Values["host.launch"] = hardware.Value{Value: 8e-6, N: 1, From: "eager steps"}
	f.Values["host.small_kernel"] = hardware.Value{Value: 2e-6, N: 1, From: "eager steps"}
	m, err := analytic.Calibrated(g, transformers, f)
	if err != nil {
		t.Fatal(err)
	}
	k, d := &m.Cal.Constants, &casetest.Machine(t, "h200", "transformers").Cal.Constants
	if k[roofline.HostLaunch] != 8e-6 || k[roofline.HostSmallKernel] != 2e-6 || k[roofline.HostStep] != d[roofline.HostStep] {
		t.Errorf("launch %v, small kernel %v, step %v", k[roofline.HostLaunch], k[roofline.HostSmallKernel], k[roofline.HostStep])
	}
	other := *c
	other.Machine = m
	e := predict(t, &other)
	near(t, "half-width of TPOT", float64(e.TPOT.High/e.TPOT.Expected)-1, e.Decode.KernelHigh, 1e-9)
	if k, err = constantsOf(t, g, "transformers", measured(t, g, "transformers")); err != nil || *k != *d {
		t.Errorf("a file without a host: %v, want %v (%v)", k, d, err)
	}
}

func constantsOf(t *testing.T, g *hardware.GPU, engine string, f *hardware.CalibrationFile) (*roofline.Constants, error) {
	m, err := analytic.Calibrated(g, casetest.Engine(t, engine), f)
	return &m.Cal.Constants, err
}
