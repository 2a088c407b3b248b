package plan

import (
	"llmprof/analytic/engine"
	"llmprof/hardware"
	"llmprof/models"
	"llmprof/unit"
)

// of is the model with weights in the formats, and its scheme on a GPU. A quantization of llama.cpp has a type for each matrix.
func (f *Formats) of(m *models.Model, g *hardware.GPU) (*models.Model, models.Scheme, error) {
	var err error
	s := models.StoredScheme(m)
	switch {
	case models.IsFileType(f.Weights):
		if m, err = models.Quantize(m, f.Weights); err != nil {
			return nil, s, err
		}
		s = models.StoredScheme(m)
	case f.Weights != "":
		if s, err = models.ParseScheme(f.Weights); err != nil {
			return nil, s, err
		}
	}
	s.KV = f.KV
	return m, s.For(g), nil
}

// cache is the format of the KV cache that a request has: none of a model without a cache.
func (f *Formats) cache(m *models.Model) unit.Format {
	if m.CacheBytes(1, f.KV) == 0 {
		return unit.NoFormat
	}
	return f.KV
}

// DefaultWeights are the formats of published checkpoints that are tried beside a model's own: FP8 with a scale of each block of 128 x
// 128, as Qwen and DeepSeek publish it, FP8 with scales of channels and of tokens at run time, int8 with int8 activations, AWQ or GPTQ,
// NVFP4, MXFP4. An engine that reads files of llama.cpp has two of its quantizations, which most files are published in.
func DefaultWeights(by string) []string {
	if engine.ReadsGGUF(by) {
		return []string{"q8_0", "q4_k_m"}
	}
	return []string{"fp8-block", "fp8", "w8a8", "w4a16-g128", "nvfp4", "w4a16-nvfp4", "mxfp4"}
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
		_, s, err := f.of(m, g)
		switch {
		case err != nil || !g.Has(s.Act):
			continue
		case name == "":
		case s.Weights.Bits() < floor || stored.Stored && s.Weights.Bits() >= stored.Weights.Bits() || s.Weights == stored.Weights:
			continue // nobody publishes a checkpoint with wider weights than the one that it is made from
		}
		for _, kv := range caches {
			all = append(all, Formats{name, kv})
		}
	}
	return all
}
