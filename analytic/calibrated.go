package analytic

import (
	"llmprof/hardware"
	"llmprof/roofline"
)

// Constants are the constants of a GPU and an engine: of a calibration file, else of the GPU's
// generation. Constants that neither has are the engine's.
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

// Machines are a GPU and its engine by a calibration, and by that calibration with one
// constant after the other at the slow end of its interval. They do not change, and
// serve any number of cases.
type Machines struct {
	Machine *Machine
	fitted  bool // there is a calibration
	serves  bool // the calibration timed the kernels of the engine and its host
	foreign bool // the calibration timed the kernels of another engine, rather than a library's
	moved   []movedMachine
}

// A movedMachine has one constant of the calibration at the slow end of its interval.
type movedMachine struct {
	*Machine
	changed roofline.Set
}

// NewMachines prepares a GPU by the constants of a calibration, or by the defaults of its
// generation if there is none.
func NewMachines(g *hardware.GPU, e Engine, f *hardware.CalibrationFile) (*Machines, error) {
	cal, err := Constants(g, e, f)
	if err != nil {
		return nil, err
	}
	m, err := NewMachine(g, cal, e)
	if err != nil {
		return nil, err
	}
	all := &Machines{Machine: m, fitted: f != nil}
	if f == nil {
		return all, nil
	}
	name := e.Profile().Engine()
	all.serves = f.Serves(name) && f.Tables == nil // tables of operators contain nothing of the host
	all.foreign = f.Engine != "" && !f.Serves(name)
	m.hostKnown = all.serves && f.Values[roofline.HostLaunch.String()].Value > 0
	moved, err := f.Moved(g, name)
	if err != nil {
		return nil, err
	}
	for i := range moved {
		if k := roofline.ConstantOf(moved[i].Key); k != roofline.None {
			m.Cal.Fitted[k] = true // what the file leaves at its default is moved by the board's error, which counts once
		}
		if err := all.move(moved[i].Calibration); err != nil {
			return nil, err
		}
	}
	return all, nil
}

func (a *Machines) move(cal hardware.Calibration) error {
	a.Machine.Engine.Profile().Set(a.Machine.GPU, &cal)
	var changed roofline.Set
	for _, k := range roofline.All() {
		if cal.Constants[k] != a.Machine.Cal.Constants[k] {
			changed |= roofline.SetOf(k)
		}
	}
	if changed == 0 {
		return nil
	}
	m, err := NewMachine(a.Machine.GPU, cal, a.Machine.Engine)
	if err != nil {
		return err
	}
	a.moved = append(a.moved, movedMachine{m, changed})
	return nil
}

// On is the machine of the case on all, with the interval of the estimate. It leaves all as it is.
//
// The interval follows from the calibration: each constant is moved alone to the
// slow end of its 90 % interval, and the changes of the times add up in quadrature, as
// independent errors do. If the calibration did not time the kernels of the engine or its
// host, the interval is no narrower than by the generation's defaults.
func (c *Case) On(all *Machines) *Machine {
	m := *all.Machine
	if p, err := c.Prepare(all, all.Machine); err == nil { // an estimate of the case returns the error
		if _, off, err := p.predict(&c.Workload); err == nil {
			m.Cal.PrefillError, m.Cal.DecodeError = off.prefill, off.decode
		}
	}
	return &m
}
