package validate

import (
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
)

// A runner is an engine on a GPU, by the names that an observation has.
type runner struct {
	gpu, engine, mode, release, with string
	host, placement                  string
	graphs                           int
}

// parse is the engine in its mode, with the option that it was started with and the graphs that it was told to capture.
func (r runner) parse() (analytic.Engine, error) {
	e, err := engine.ParseMode(r.engine, r.mode)
	if err == nil && r.release != "" {
		e, err = engine.AtRelease(e, r.release)
	}
	g := engine.Graphs{Eager: r.with == "eager", Most: r.graphs}
	if err == nil && r.with != "" && !g.Eager {
		e, err = engine.With(e, r.with)
	}
	if err != nil {
		return nil, err
	}
	return engine.WithGraphs(e, g)
}

// runs is the engine of a runner.
func (s *Scorer) runs(r runner) (analytic.Engine, error) { return once(&s.engines, r, runner.parse) }

// machine is what the case runs on, by the calibration of its GPU and engine.
func (s *Scorer) machine(config *Config) (*analytic.Machine, error) {
	if s.change != nil {
		return once(&s.altered, config.runner(), s.changed)
	}
	m, err := once(&s.machines, config.runner(), s.prepare)
	if err != nil {
		return nil, &mismatch{Impossible, err}
	}
	return m, nil
}

func (c *Config) runner() runner {
	return runner{c.GPU, c.Engine, c.Mode, c.Release, c.Option, c.Host, c.Placement, c.Graphs}
}

// prepare is an engine on a GPU with the calibration of both.
func (s *Scorer) prepare(r runner) (*analytic.Machine, error) {
	g, e, file, err := s.calibrated(r)
	if err != nil {
		return nil, err
	}
	return analytic.Calibrated(g, e, file)
}

// calibrated finds an engine, a GPU and their calibration, nil where there is none.
func (s *Scorer) calibrated(r runner) (g *hardware.GPU, e analytic.Engine, file *hardware.CalibrationFile, err error) {
	if g, err = once(&s.gpus, r.gpu, s.GPU); err != nil {
		return nil, nil, nil, err
	}
	if r.host != "" || r.placement != "" {
		if g, err = inHost(g, r); err != nil {
			return nil, nil, nil, err
		}
	}
	if e, err = s.runs(r); err != nil || s.Calibration == nil {
		return g, e, nil, err
	}
	file, err = s.Calibration(g, e.Profile().Engine())
	return g, e, file, err
}

// inHost is a GPU in the host of a runner, or in the usual one.
func inHost(g *hardware.GPU, r runner) (_ *hardware.GPU, err error) {
	host := hardware.UsualHost(g)
	if r.host != "" {
		if host, err = hardware.HostOf(r.host); err != nil {
			return nil, err
		}
	}
	if _, host.Threads, err = engine.ParsePlacement(r.placement); err != nil {
		return nil, err
	}
	return g.On(&host), nil
}

// changed is the machine with the constants altered. Its interval is that of the
// generation: nobody asks for one.
func (s *Scorer) changed(r runner) (*analytic.Machine, error) {
	g, e, file, err := s.calibrated(r)
	if err != nil {
		return nil, &mismatch{Impossible, err}
	}
	cal, err := analytic.Constants(g, e, file)
	if err != nil {
		return nil, &mismatch{Impossible, err}
	}
	s.change(&cal.Constants)
	m, err := analytic.NewMachine(g, cal, e)
	if err != nil {
		return nil, &mismatch{Impossible, err}
	}
	return m, nil
}

// A storage names a model with the formats of its weights and its KV cache.
type storage struct{ model, weights, kv string }

// stored is a model in these formats.
type stored struct {
	model  *models.Model
	scheme models.Scheme
}

// store is the model of a configuration in its formats: as a quantization of llama.cpp
// stores it, or as it is.
func (s *Scorer) store(c *Config, m *models.Model) (stored, error) {
	return once(&s.stored, storage{c.Model, c.Weights, c.KV}, func(storage) (q stored, err error) {
		q.model = m
		if !models.IsFileType(c.Weights) {
			q.scheme, err = schemeOf(c, m)
			return q, err
		}
		if q.model, err = models.Quantize(m, c.Weights); err != nil {
			return q, err
		}
		q.scheme = models.StoredScheme(q.model)
		if c.KV != "" {
			err = q.scheme.KV.UnmarshalText([]byte(c.KV))
		}
		return q, err
	})
}

// schemeOf is the scheme of a configuration. Weights are "stored" as the model's checkpoint has
// them, and a format of activations may follow, as in "stored+act-fp8".
func schemeOf(c *Config, m *models.Model) (s models.Scheme, err error) {
	name, act, given := strings.Cut(c.Weights, "+act-")
	if name == "stored" {
		s = models.StoredScheme(m)
	} else if s, err = models.NamedScheme(m, name); err != nil {
		return s, err
	}
	if given {
		var f unit.Format
		if err := f.UnmarshalText([]byte(act)); err != nil {
			return s, err
		}
		s = s.WithAct(f)
	}
	if c.KV == "" {
		return s, nil
	}
	return s, s.KV.UnmarshalText([]byte(c.KV))
}
