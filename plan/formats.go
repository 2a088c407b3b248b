package plan

import (
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
)

// scheme is the scheme of the formats for a model on a GPU.
func (f *Formats) scheme(m *models.Model, g *hardware.GPU) (s models.Scheme, err error) {
	s = models.StoredScheme(m)
	if f.Weights != "" {
		if s, err = models.ParseScheme(f.Weights); err != nil {
			return s, err
		}
	}
	s.KV = f.KV
	return s.For(g), nil
}

// DefaultFormats are the formats that are tried of a model on a GPU: the checkpoint's and
// those of names, of which none has fewer bits than floor, each with a cache of 16 bits and,
// where the GPU has a unit for FP8 and the floor allows it, of 8. What the GPU has no unit
// for is left out, since it would compute in another format.
func DefaultFormats(m *models.Model, g *hardware.GPU, names []string, floor float64) (all []Formats) {
	caches := []unit.Format{unit.BF16}
	if !g.Has(unit.BF16) {
		caches[0] = unit.FP16
	}
	switch {
	case m.Cache != unit.NoFormat:
		caches[0] = m.Cache
	case g.Has(unit.FP8) && floor <= 8:
		caches = append(caches, unit.FP8)
	}
	stored := models.StoredScheme(m)
	for _, name := range append([]string{""}, names...) {
		f := Formats{Weights: name}
		s, err := f.scheme(m, g)
		if err != nil || s.Weights.Bits() < floor && name != "" || name != "" && s.Weights == stored.Weights || !g.Has(s.Act) {
			continue
		}
		for _, kv := range caches {
			all = append(all, Formats{name, kv})
		}
	}
	return all
}
