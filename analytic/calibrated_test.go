package analytic

import (
	"math"
	"testing"
	"time"

	"llmprof/hardware"
	"llmprof/unit"
)

// measured is a calibration of g in which nothing but the products was fitted.
func measured(t *testing.T, g *hardware.GPU, engine string) *hardware.CalibrationFile {
	t.Helper()
	f, err := hardware.NewCalibration(g, unit.BF16)
	if err != nil {
		t.Fatal(err)
	}
	f.Name, f.Engine, f.Kernels, f.Made = "mine", engine, "some", time.Date(2026, 11, 21, 0, 0, 0, 0, time.UTC)
	for key, v := range f.Values {
		f.Values[key] = hardware.Value{Value: v.Value, Uncertainty: 1e-9 * v.Value, N: 10, From: "rows"}
	}
	return f
}

func calibratedCase(t *testing.T) *Case {
	c := testCase(t, "llama3.1-8b", "h200", 1, 1)
	c.Machine = nil
	return c
}

// The constants of a file are what an estimate is made of, and by a second route
// its interval is what each uncertain constant does alone.
func TestCalibratedInterval(t *testing.T) {
	c, g := calibratedCase(t), testGPU(t, "h200")
	native, err := ParseEngine("native")
	if err != nil {
		t.Fatal(err)
	}
	f := measured(t, g, "native")
	m, err := c.Calibrated(g, native, f)
	if err != nil {
		t.Fatal(err)
	}
	if m.Cal.DecodeError > 1e-6 || m.Cal.PrefillError > 1e-6 {
		t.Errorf("nothing is uncertain, but the interval is ±%v and ±%v", m.Cal.PrefillError, m.Cal.DecodeError)
	}
	f.HeldOut["gemm.memory"] = hardware.Residual{N: 10, Median: 0.05, P90: 0.1}
	f.Values["gemm.fixed"] = hardware.Value{Value: 5e-6, Uncertainty: 2e-6, N: 10, From: "rows"}
	if m, err = c.Calibrated(g, native, f); err != nil {
		t.Fatal(err)
	}
	if m.Cal.GEMM.Fixed != 5e-6 || m.Cal.Name != "mine" {
		t.Errorf("%+v", m.Cal)
	}
	predict := func(change func(*hardware.Calibration)) Estimate {
		cal := m.Cal
		change(&cal)
		other, err := NewMachine(g, cal, native)
		if err != nil {
			t.Fatal(err)
		}
		one := *c
		one.Machine = other
		e, err := Predict(&one)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	base := predict(func(*hardware.Calibration) {})
	// Of own products the file says nothing: they go with all others.
	memory := predict(func(k *hardware.Calibration) { k.GEMM.Memory *= 0.9; k.Own.Memory *= 0.9 })
	fixed := predict(func(k *hardware.Calibration) {
		k.GEMM.Fixed *= 1 + 2.0/5*1.645/1.960
		k.Own.Fixed = k.GEMM.Fixed
	})
	want := math.Hypot(float64(memory.TPOT.Expected/base.TPOT.Expected)-1, float64(fixed.TPOT.Expected/base.TPOT.Expected)-1)
	if math.Abs(m.Cal.DecodeError-want) > 1e-5 || want < 0.05 {
		t.Errorf("decode: ±%v, want ±%v", m.Cal.DecodeError, want)
	}
	if got := float64(base.TPOT.High / base.TPOT.Expected); math.Abs(got-1-want) > 1e-5 {
		t.Errorf("the interval of TPOT ends at %v", got)
	}
}

// The kernels of another engine are not those that were timed.
func TestCalibratedOtherEngine(t *testing.T) {
	c, g := calibratedCase(t), testGPU(t, "h200")
	vllm, err := ParseEngine("vllm")
	if err != nil {
		t.Fatal(err)
	}
	m, err := c.Calibrated(g, vllm, measured(t, g, "native"))
	if err != nil {
		t.Fatal(err)
	}
	d := hardware.DefaultCalibration(g)
	if math.Abs(m.Cal.DecodeError-d.DecodeError) > 1e-6 || math.Abs(m.Cal.PrefillError-d.PrefillError) > 1e-6 {
		t.Errorf("±%v and ±%v, want the default's", m.Cal.PrefillError, m.Cal.DecodeError)
	}
	if m.Engine != vllm {
		t.Errorf("the engine is %+v", m.Engine)
	}
	if _, err := c.Calibrated(testGPU(t, "a100"), vllm, measured(t, g, "native")); err == nil {
		t.Error("a calibration of another GPU was taken")
	}
	m, err = c.Calibrated(g, vllm, nil)
	if err != nil || m.Cal != d {
		t.Errorf("without a calibration: %+v, %v", m, err)
	}
}

// What was measured of an engine's host takes the place of its profile's.
func TestEngineWith(t *testing.T) {
	e, err := ParseEngine("transformers")
	if err != nil {
		t.Fatal(err)
	}
	got := e.With(hardware.Host{Launch: 8e-6, SmallKernel: 2e-6})
	if got.Launch != 8e-6 || got.Element != 2e-6 || got.Error != 0 || got.Host != e.Host {
		t.Errorf("%+v", got)
	}
	if same := e.With(hardware.Host{}); same != e {
		t.Errorf("%+v", same)
	}
}
