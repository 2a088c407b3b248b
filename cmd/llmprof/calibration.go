package main

import (
	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/analytic"
	"llmprof/hardware"
)

// calibrationFlag names a file of constants that were measured.
func calibrationFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "calibration", "",
		"`FILE` of \"llmprof calibrate\"; \"default\" takes no file")
}

// noCalibration asks for the defaults of the GPU's generation.
const noCalibration = "default"

// A calibrations finds what a GPU and an engine reach in practice: by the file
// that was named, else by one that comes with the program.
type calibrations struct {
	none  bool                      // the generation's defaults are asked for
	named *hardware.CalibrationFile // nil if none was
	found map[string]*hardware.CalibrationFile
	used  bool // named was
}

// newCalibrations reads the file that was named, if one was.
func newCalibrations(file string) (*calibrations, error) {
	c := &calibrations{none: file == noCalibration, found: map[string]*hardware.CalibrationFile{}}
	if file == "" || c.none {
		return c, nil
	}
	var err error
	c.named, err = hardware.ReadCalibration(file)
	return c, err
}

// of is the calibration of a GPU and an engine, nil where there is none.
func (c *calibrations) of(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
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

// only is the calibration of the one GPU that is asked for: a file of another is
// an error.
func (c *calibrations) only(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.named == nil {
		return c.of(g, engine)
	}
	if err := c.named.Check(g); err != nil {
		return nil, usage("--calibration: %w", err)
	}
	return c.named, nil
}

// among is the calibration of one GPU of many: the file serves its own.
func (c *calibrations) among(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error) {
	if c.named == nil || c.named.GPU != g.Key {
		return c.of(g, engine)
	}
	if !c.used { // predictions that run at once read it after the first
		c.used = true
	}
	return c.named, c.named.Check(g)
}

// machine is the GPU with what it and its engine reach in practice.
func (ans *answer) machine(engine analytic.Engine) (*analytic.Machine, error) {
	all, err := newCalibrations(ans.q.calibration)
	if err != nil {
		return nil, err
	}
	file, err := all.only(ans.gpu, engine.Profile().Name)
	if err != nil {
		return nil, err
	}
	m, err := ans.Calibrated(ans.gpu, engine, file)
	if err != nil {
		return nil, err
	}
	if m, err = analytic.NewMachine(ans.gpu, ans.q.eff.apply(m.Cal), m.Engine); err == nil && ans.q.utilization > 0 {
		m.Utilization = ans.q.utilization
	}
	return m, err
}
