package analytic

import (
	"cmp"
	"fmt"

	"llmprof/energy"
	"llmprof/footprint"
	"llmprof/hardware"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Machine is a GPU with what it and its engine reach in practice. Build one
// with NewMachine and use it for any number of estimates.
type Machine struct {
	GPU    *hardware.GPU
	Cal    hardware.Calibration
	Engine Engine

	Utilization float64 // share of the GPU's memory that the engine takes
	Budget      int     // most tokens of a step of all sequences; 0 for no limit

	prices *roofline.Machine
	energy.Power
	hostKnown bool // the launches of the engine's host were measured where it runs
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
	m := &Machine{GPU: g, Cal: c, Engine: e, Utilization: cmp.Or(e.Profile().Utilization, 1), prices: roofline.NewMachine(peaks, &c.Constants)}
	if budget := e.Profile().Budget; budget != nil {
		m.Budget = budget(g.Capacity())
	}
	m.Power = energy.PowerOf(g, &m.Cal, m.prices)
	return m, nil
}

// With is the machine with other constants.
func (m *Machine) With(c hardware.Calibration) (*Machine, error) {
	other, err := NewMachine(m.GPU, c, m.Engine)
	if err != nil {
		return nil, err
	}
	other.hostKnown = m.hostKnown
	return other, nil
}

// Peaks are the rates of the GPU's data sheet.
func (m *Machine) Peaks() *roofline.Peaks { return &m.prices.Peaks }

// Runs is the format that products in f are computed in, and its peak.
func (m *Machine) Runs(f unit.Format) (unit.Format, unit.FLOPsPerSec) { return m.GPU.Runs(f) }

// Price is what a kernel takes on the machine.
func (m *Machine) Price(k *roofline.Kernel) roofline.Cost { return m.prices.Cost(k) }

// quantizedExperts is how far grouped products of quantized experts may be off whose constants
// are those of experts in 16 bits. The law misses those of tables that it does not fit by 34
// to 72 % in one of ten shapes (weights alone in MXFP4, of vLLM and TensorRT-LLM).
const quantizedExperts = 0.5

// variance is the square of the half-width of a kernel's interval: the residual of its law on
// other shapes. That of products in 16 bits is of those that take 20 µs and more, beside
// which what no size takes away has a residual of its own.
func (m *Machine) variance(k *Kernel, c *roofline.Cost) float64 {
	by := c.Leads
	if k.Class == roofline.MoEPrefill && k.Scheme != roofline.Unquantized {
		return float64(c.Time*c.Time) * quantizedExperts * quantizedExperts
	}
	for by != roofline.None && m.Cal.Residuals[by] == 0 {
		by = by.Info().Base
	}
	time, start := float64(c.Time), 0.0
	if by == roofline.GEMMMemory || by == roofline.GEMMCompute {
		start = m.Cal.Residuals[roofline.GEMMFixed] * float64(c.Times[roofline.Fixed])
		time -= float64(c.Times[roofline.Fixed])
	}
	time *= m.Cal.Residuals[by]
	return time*time + start*start
}

// scattered is the half-width of the interval of a phase's kernels for their shapes, as a
// share of their time.
func (t *timing) scattered() float64 {
	if t.kernels == 0 {
		return 0
	}
	return float64(t.scatter / t.kernels)
}

// room is the memory of the GPU.
func (m *Machine) room() footprint.Room {
	capacity := m.GPU.Capacity()
	return footprint.Room{Capacity: capacity, Usable: capacity.Times(m.Utilization)}
}

// seconds is the value of a constant that is a time.
func (m *Machine) seconds(c roofline.Constant) unit.Seconds {
	return unit.Seconds(m.Cal.Constants[c])
}
