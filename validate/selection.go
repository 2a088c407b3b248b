package validate

import (
	"maps"
	"slices"
	"strings"

	"llmprof/hardware"
	"llmprof/internal/spelling"
	"llmprof/models"
	"llmprof/unit"
)

// A Selection says which observations are compared: all of them where it is empty.
type Selection struct {
	Models  []string
	GPU     string
	Engines []string
}

// Resolve gives its model and GPU the names of the tables.
func (s *Selection) Resolve(by *Scorer) error {
	for i, name := range s.Models {
		m, err := by.Model(name)
		if err != nil {
			return unit.Wrong(err)
		}
		s.Models[i] = m.Name
	}
	if s.GPU != "" {
		g, err := by.GPU(s.GPU)
		if err != nil {
			return unit.Wrong(err)
		}
		s.GPU = g.Key
	}
	return nil
}

// Of leaves out observations that are not wanted. That nothing is left is an error.
func (s *Selection) Of(by *Scorer, all []Observation) ([]Observation, error) {
	engines := map[string]bool{}
	for i := range all {
		engines[all[i].Engine] = true
	}
	for _, name := range s.Engines {
		if !slices.ContainsFunc(all, func(o Observation) bool { return runs(by.Canonical(o.Config), name) }) {
			return nil, unit.Errorf("no observation is of the engine %.60q; %s", name, spelling.Hint(name, slices.Sorted(maps.Keys(engines))))
		}
	}
	kept := slices.DeleteFunc(all, func(o Observation) bool { return !s.Wants(by.Canonical(o.Config)) })
	if len(kept) == 0 && (len(s.Models) > 0 || s.GPU != "" || len(s.Engines) > 0) {
		return nil, s.none()
	}
	return kept, nil
}

// none says that no observation is wanted, and what is.
func (s *Selection) none() error {
	text, args := "no observation is of", []any{}
	for _, f := range []struct{ key, value string }{
		{"model", strings.Join(s.Models, ",")}, {"gpu", s.GPU}, {"engine", strings.Join(s.Engines, ",")},
	} {
		if f.value != "" {
			text, args = text+" {"+f.key+"} %.60s", append(args, f.value)
		}
	}
	return unit.Errorf(text, args...)
}

// Wants reports whether a configuration with the names of the tables is wanted.
func (s *Selection) Wants(c Config) bool {
	return (len(s.Models) == 0 || slices.Contains(s.Models, c.Model)) && (s.GPU == "" || c.GPU == s.GPU) &&
		(len(s.Engines) == 0 || slices.ContainsFunc(s.Engines, func(e string) bool { return runs(c, e) }))
}

// runs reports whether an engine is the configuration's, with its mode or without.
func runs(c Config, engine string) bool {
	return strings.EqualFold(c.Engine, engine) || strings.EqualFold(c.Runs(), engine)
}

// Know lets the scorer find models that are in no table by their names.
func (s *Scorer) Know(all ...*models.Model) {
	table := s.Model
	s.Model = func(name string) (*models.Model, error) {
		if i := slices.IndexFunc(all, func(m *models.Model) bool { return m.Name == name }); i >= 0 {
			return all[i], nil
		}
		return table(name)
	}
}

// NewScorer is a scorer by tables and calibrations.
func NewScorer(known *models.Table, gpus *hardware.Table,
	calibration func(*hardware.GPU, string) (*hardware.CalibrationFile, error)) *Scorer {
	return &Scorer{
		Model:       known.Model,
		GPU:         func(name string) (*hardware.GPU, error) { g, err := gpus.GPU(name); return &g, err },
		Calibration: calibration,
	}
}
