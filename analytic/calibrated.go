package analytic

import (
	"math"

	"llmprof/hardware"
	"llmprof/roofline"
)

// Constants are those of a GPU and an engine: of a calibration file, else of the
// GPU's generation, and the engine's own where neither has them.
func Constants(g *hardware.GPU, e Engine, f *hardware.CalibrationFile) (c hardware.Calibration, err error) {
	c = hardware.DefaultCalibration(g)
	if f != nil {
		if c, err = f.Apply(g, e.Profile().Name); err != nil {
			return c, err
		}
	}
	if set := e.Profile().Constants; set != nil {
		set(&c.Constants)
	}
	return c, nil
}

// Calibrated is the machine of a case on g by the constants of a calibration, or
// by the defaults of the GPU's generation where there is none. The machine that
// the case names, if any, is left out of account.
//
// The interval follows from the calibration: each constant moved alone to the
// slow end of its 90 % interval moves the times of the case, and the squares of
// these moves add up, as those of errors that have nothing to do with each other.
// Where the calibration did not time the kernels of the engine, or not its host, the interval is no
// narrower than by the generation's defaults.
func (c *Case) Calibrated(g *hardware.GPU, e Engine, f *hardware.CalibrationFile) (*Machine, error) {
	cal, err := Constants(g, e, f)
	if err != nil {
		return nil, err
	}
	m, err := NewMachine(g, cal, e)
	if err != nil || f == nil {
		return m, err
	}
	name := e.Profile().Name
	m.hostKnown = f.Serves(name) && f.Values[roofline.HostLaunch.String()].Value > 0
	base, ok := c.on(m)
	if !ok {
		return m, nil // whoever estimates the case will be told why it cannot be
	}
	moved, err := f.Moved(g, name)
	if err != nil {
		return nil, err
	}
	prefill, decode, err := c.spread(moved, m, &base)
	if err != nil {
		return nil, err
	}
	m.Cal.PrefillError, m.Cal.DecodeError = prefill, decode
	if !f.Serves(name) || f.Tables != nil {
		m.Cal.PrefillError, m.Cal.DecodeError = max(prefill, cal.PrefillError), max(decode, cal.DecodeError)
	}
	if base.TPOT.Expected == 0 { // one token: no time of decode is asked for
		m.Cal.DecodeError = m.Cal.PrefillError
	}
	return m, nil
}

// spread is how far the times of the case lie off where each of the constants lies at
// the end of its interval, in quadrature.
func (c *Case) spread(moved []hardware.Moved, m *Machine, base *Estimate) (prefill, decode float64, err error) {
	for i := range moved {
		cal := moved[i].Calibration
		if set := m.Engine.Profile().Constants; set != nil {
			set(&cal.Constants)
		}
		other, err := NewMachine(m.GPU, cal, m.Engine)
		if err != nil {
			return 0, 0, err
		}
		if slow, ok := c.on(other); ok {
			prefill = math.Hypot(prefill, float64(slow.TTFT.Expected/base.TTFT.Expected)-1)
			if base.TPOT.Expected > 0 {
				decode = math.Hypot(decode, float64(slow.TPOT.Expected/base.TPOT.Expected)-1)
			}
		}
	}
	return prefill, decode, nil
}

// on is the estimate of the case on another machine, if it can be made.
func (c *Case) on(m *Machine) (e Estimate, ok bool) {
	other := *c
	other.Machine = m
	e, err := Predict(&other)
	return e, err == nil
}
