package analytic

import (
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// productScheme is a scheme as kernels of products tell it apart.
func productScheme(s *models.Scheme) roofline.Scheme {
	sixteen := s.Act == s.Stream()
	switch s.Weights {
	case unit.FP8:
		switch {
		case sixteen:
			return roofline.WeightFP8
		case s.Group > 0:
			return roofline.FP8Block
		}
		return roofline.FP8
	case unit.INT8:
		if sixteen {
			return roofline.WeightINT8
		}
		return roofline.INT8
	case unit.INT4:
		return roofline.WeightINT4
	case unit.MXFP4:
		if sixteen {
			return roofline.WeightMXFP4
		}
		return roofline.MXFP4
	case unit.NVFP4:
		return roofline.NVFP4
	}
	return roofline.Unquantized
}

// cacheScheme is the scheme of the KV cache as kernels of attention tell it apart.
func cacheScheme(s *models.Scheme) roofline.Scheme {
	if s.KV != unit.NoFormat && s.KV.Bits() < 16 {
		return roofline.FP8
	}
	return roofline.Unquantized
}
