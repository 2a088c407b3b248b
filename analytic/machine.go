package analytic

import (
	"cmp"
	"fmt"

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

	prices *roofline.Machine
	Power
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
	if err := checkConstants(&c.Constants); err != nil {
		return nil, err
	}
	peaks, err := g.Peaks()
	if err != nil {
		return nil, err
	}
	m := &Machine{GPU: g, Cal: c, Engine: e, Utilization: cmp.Or(e.Profile().Utilization, 1), prices: roofline.NewMachine(peaks, &c.Constants)}
	m.Power = m.powers()
	return m, nil
}

// checkConstants keeps impossible constants out, as a share that has an expected time
// below the floor. An optional constant may be 0: nothing is known of it then.
func checkConstants(c *roofline.Constants) error {
	for _, k := range roofline.All() {
		i := k.Info()
		if c[k] == 0 && (i.Quantity != roofline.Share || i.Optional || i.Engine) {
			continue
		}
		if !k.Valid(c[k]) {
			return fmt.Errorf("%s (%s) is %v: want %s", k, i.Help, c[k], i.Quantity.Want())
		}
	}
	return nil
}

// Peaks are the rates of the GPU's data sheet.
func (m *Machine) Peaks() *roofline.Peaks { return &m.prices.Peaks }

// Runs is the format that products in f are computed in, and its peak.
func (m *Machine) Runs(f unit.Format) (unit.Format, unit.FLOPsPerSec) { return m.GPU.Runs(f) }

// Price is what a kernel takes on the machine.
func (m *Machine) Price(k *roofline.Kernel) roofline.Cost { return m.prices.Cost(k) }

// constant is the value of a constant of the machine.
func (m *Machine) constant(c roofline.Constant) float64 { return m.Cal.Constants[c] }

// seconds is the value of a constant that is a time.
func (m *Machine) seconds(c roofline.Constant) unit.Seconds {
	return unit.Seconds(m.Cal.Constants[c])
}
