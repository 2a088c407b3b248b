package validate

import (
	"strings"

	"llmprof/models"
	"llmprof/unit"
)

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
		if !models.IsMix(c.Weights) {
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
