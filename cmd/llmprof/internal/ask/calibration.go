package ask

import (
	"llmprof"
	"llmprof/analytic"
	"llmprof/hardware"
)

// noCalibration asks for the defaults of the GPU's generation.
const noCalibration = "default"

// A Calibrations finds what a GPU and an engine reach in practice: by the file
// that was named, else by one that comes with the program.
type Calibrations struct {
	none  bool                      // the generation's defaults are asked for
	named *hardware.CalibrationFile // nil if none was
	found map[string]*hardware.CalibrationFile
	used  bool // named was
}

// NewCalibrations reads the file that was named, if one was.
func NewCalibrations(file string) (*Calibrations, error) {
	c := &Calibrations{none: file == noCalibration, found: map[string]*hardware.CalibrationFile{}}
	if file == "" || c.none {
		return c, nil
	}
	var err error
	c.named, err = hardware.ReadCalibration(file)
	return c, err
}

// Of is the calibration of a GPU and an engine, nil where there is none.
func (c *Calibrations) Of(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.none {
		return nil, nil
	}
	key := g.Key + "\x00" + engine
	if f, ok := c.found[key]; ok {
		return f, nil
	}
	f, err := hardware.BuiltIn(llmprof.Calibrations, g, engine)
	c.found[key] = f
	return f, err
}

// Only is the calibration of the one GPU that is asked for: a file of another is
// an error.
func (c *Calibrations) Only(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.named == nil {
		return c.Of(g, engine)
	}
	if err := c.named.Check(g); err != nil {
		return nil, Usage("--calibration: %w", err)
	}
	return c.named, nil
}

// Among is the calibration of one GPU of many: the file serves its own.
func (c *Calibrations) Among(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.named == nil || c.named.GPU != g.Key {
		return c.Of(g, engine)
	}
	if !c.used { // predictions that run at once read it after the first
		c.used = true
	}
	return c.named, c.named.Check(g)
}

// machines are a GPU and an engine with what they reach in practice.
func (c *Calibrations) machines(g *hardware.GPU, e analytic.Engine) (*analytic.Machines, error) {
	file, err := c.Only(g, e.Profile().Engine())
	if err != nil {
		return nil, err
	}
	return analytic.NewMachines(g, e, file)
}

// machine is a machine with the shares of the peaks and of the memory that the question gives.
func (ans *Answer) machine(m *analytic.Machine) (*analytic.Machine, error) {
	q := ans.Q
	if q.Eff == (efficiencies{}) && q.Utilization <= 0 {
		return m, nil
	}
	m, err := m.With(q.Eff.apply(m.Cal))
	if err == nil && q.Utilization > 0 {
		m.Utilization = q.Utilization
	}
	return m, err
}

// Unused is the GPU of the file that was named if nothing asked for it; "" otherwise.
func (c *Calibrations) Unused() string {
	if c.named == nil || c.used {
		return ""
	}
	return c.named.GPU
}
