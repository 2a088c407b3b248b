package analytic

import (
	"fmt"

	"llmprof/analytic/energy"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Machine is a GPU with the constants that it and its engine reach in practice. NewMachine
// makes one, which serves any number of estimates.
type Machine struct {
	GPU    *hardware.GPU
	Cal    hardware.Calibration
	Engine Engine

	Utilization float64 // share of the GPU's memory that the engine takes
	Budget      int     // most tokens of a step of all sequences; 0 for no limit

	prices *roofline.Machine
	cap    energy.Cap
	energy.Power
	evidence evidence
}

// NewMachine prepares a GPU for estimates.
func NewMachine(g *hardware.GPU, c hardware.Calibration, e Engine) (*Machine, error) {
	switch {
	case g == nil:
		return nil, fmt.Errorf("no GPU is given")
	case e == nil:
		return nil, fmt.Errorf("no engine is given")
	}
	if err := c.Check(); err != nil {
		return nil, err
	}
	peaks, err := g.Peaks()
	if err != nil {
		return nil, err
	}
	m := &Machine{GPU: g, Cal: c, Engine: e, Utilization: 1, prices: roofline.NewMachine(peaks, &c.Constants)}
	if share := e.Profile().Utilization; share != nil {
		m.Utilization = share(g.Capacity())
	}
	if budget := e.Profile().Budget; budget != nil {
		m.Budget = budget(g)
	}
	m.Power = energy.PowerOf(g, &m.Cal, m.prices)
	if set := (energy.Cap{Limit: g.PowerLimit, Clock: g.ClockLimit}); set != (energy.Cap{}) {
		return m.Capped(set)
	}
	return m, nil
}

// Cap is what holds the GPU besides the board's own limit and clock.
func (m *Machine) Cap() energy.Cap { return m.cap }

// Capped is the machine under other limits of each GPU.
func (m *Machine) Capped(c energy.Cap) (*Machine, error) {
	other := *m
	var err error
	other.cap = c
	other.Power, err = m.Power.Capped(c, m.GPU)
	return &other, err
}

// With is the machine with other constants.
func (m *Machine) With(c hardware.Calibration) (*Machine, error) {
	other, err := NewMachine(m.GPU, c, m.Engine)
	if err != nil {
		return nil, err
	}
	other.evidence = m.evidence
	return other.Capped(m.cap)
}

// Calibrated is a GPU by the constants of a calibration, or by the defaults of its
// generation if there is none.
func Calibrated(g *hardware.GPU, e Engine, f *hardware.CalibrationFile) (*Machine, error) {
	cal, err := Constants(g, e, f)
	if err != nil {
		return nil, err
	}
	m, err := NewMachine(g, cal, e)
	if err == nil && f != nil {
		m.rest(f)
	}
	return m, err
}

// Constants are the constants of a GPU and an engine. A constant has its value from the first of these that has one:
//
//  1. The calibration file. The constant may be off by its own uncertainty (hardware.CalibrationFile.SlowEnds).
//  2. The tables of the engine's kernels (engine/operators.csv), of this GPU or else of its generation. A release that was timed otherwise
//     has its own rows ahead of them. Off this GPU the constant may be off by the error of the board.
//  3. The defaults of the GPU's generation (hardware/defaults.toml), with the error of the board, or that of the generation where no
//     operators of the board were timed.
//  4. The engine's own defaults, as times of its host, whose error is in its Profile.
//
// A constant without a value has that of its Base (roofline.Constants.Effective), as the one of products in 16 bits for products in FP8. It
// may be off by what tables have shown that were left out (unmeasuredFormat). What a law leaves on shapes that no fit saw, its residual,
// comes on top of each (Machine.halfWidth).
func Constants(g *hardware.GPU, e Engine, f *hardware.CalibrationFile) (c hardware.Calibration, err error) {
	c = hardware.DefaultCalibration(g)
	if f != nil {
		if c, err = f.Apply(g, e.Profile().Engine()); err != nil {
			return c, err
		}
	}
	e.Profile().Set(g, &c)
	return c, nil
}

// Peaks are the rates of the GPU's data sheet.
func (m *Machine) Peaks() *roofline.Peaks { return &m.prices.Peaks }

// Runs is the format that products in f are computed in, and the peak of that format.
func (m *Machine) Runs(f unit.Format) (unit.Format, unit.FLOPsPerSec) { return m.GPU.Runs(f) }

// seconds is the value of a constant that is a time.
func (m *Machine) seconds(c roofline.Constant) unit.Seconds {
	return unit.Seconds(m.Cal.Constants[c])
}
