package analytic

import (
	"math"

	"llmprof/hardware"
)

// With is the engine with what a calibration knows of it and its host; what that
// does not know, 0, stays as the profile has it. Times of the host that were
// measured where it runs need no allowance for another host.
func (e Engine) With(h hardware.Host) Engine {
	if h.Step > 0 {
		e.Host = h.Step
	}
	if h.SmallKernel > 0 {
		e.Element = h.SmallKernel
	}
	if h.Launch > 0 {
		e.Launch, e.Error = h.Launch, 0
	}
	return e
}

// Calibrated is the machine of a case on g by the constants of a calibration, or
// by the defaults of the GPU's generation where there is none. The machine that
// the case names, if any, is left out of account.
//
// The interval follows from the calibration: each constant moved alone to the
// slow end of its 90 % interval moves the times of the case, and the squares of
// these moves add up, as those of errors that have nothing to do with each other.
// Of an engine whose kernels the calibration did not time, the interval is no
// narrower than by the generation's defaults.
func (c *Case) Calibrated(g *hardware.GPU, e Engine, f *hardware.CalibrationFile) (*Machine, error) {
	if f == nil {
		return NewMachine(g, hardware.DefaultCalibration(g), e)
	}
	cal, host, err := f.Apply(g, e.Name)
	if err != nil {
		return nil, err
	}
	m, err := NewMachine(g, cal, e.With(host))
	if err != nil {
		return nil, err
	}
	moved, err := f.Moved(g, e.Name)
	if err != nil {
		return nil, err
	}
	base, ok := c.on(m)
	if !ok {
		return m, nil // whoever estimates the case will be told why it cannot be
	}
	var prefill, decode float64
	for i := range moved {
		other, err := NewMachine(g, moved[i].Cal, e.With(moved[i].Host))
		if err != nil {
			return nil, err
		}
		if slow, ok := c.on(other); ok {
			prefill += squared(float64(slow.TTFT.Expected/base.TTFT.Expected) - 1)
			if base.TPOT.Expected > 0 {
				decode += squared(float64(slow.TPOT.Expected/base.TPOT.Expected) - 1)
			}
		}
	}
	m.Cal.PrefillError, m.Cal.DecodeError = math.Sqrt(prefill), math.Sqrt(decode)
	if !f.Serves(e.Name) {
		m.Cal.PrefillError, m.Cal.DecodeError = max(m.Cal.PrefillError, cal.PrefillError), max(m.Cal.DecodeError, cal.DecodeError)
	}
	if base.TPOT.Expected == 0 { // one token: no time of decode is asked for
		m.Cal.DecodeError = m.Cal.PrefillError
	}
	return m, nil
}

// on is the estimate of the case on another machine, if it can be made.
func (c *Case) on(m *Machine) (e Estimate, ok bool) {
	other := *c
	other.Machine = m
	e, err := Predict(&other)
	return e, err == nil
}

func squared(x float64) float64 { return x * x }
