package operator

import (
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// productSchemes has for each format of weights the scheme of GEMMs with quantized activations,
// and the scheme of GEMMs with activations in the format of the residual stream.
var productSchemes = [unit.NumFormats][2]roofline.Scheme{
	unit.FP8:  {roofline.FP8, roofline.WeightFP8},
	unit.INT8: {roofline.INT8, roofline.WeightINT8}, unit.INT4: {roofline.WeightINT4, roofline.WeightINT4},
	unit.MXFP4: {roofline.MXFP4, roofline.WeightMXFP4}, unit.NVFP4: {roofline.NVFP4, roofline.NVFP4},
}

// productScheme is the scheme of the kernels of GEMMs.
func productScheme(s *models.Scheme) roofline.Scheme {
	both := productSchemes[s.Weights]
	switch {
	case s.Act == s.Stream():
		return both[1]
	case both[0] == roofline.FP8 && s.Group > 0:
		return roofline.FP8Block
	}
	return both[0]
}

// cacheScheme is the scheme of the kernels of attention, which follows from the KV cache.
func cacheScheme(s *models.Scheme) roofline.Scheme {
	if s.KV != unit.NoFormat && s.KV.Bits() < 16 {
		return roofline.FP8
	}
	return roofline.Unquantized
}
