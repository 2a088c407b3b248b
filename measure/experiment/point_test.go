package experiment

import (
	"testing"

	"llmprof/models"
)

// What a point's weights are called is a scheme of the estimate's, whose products run
// in the formats that the engine's do.
func TestWeightFormat(t *testing.T) {
	for _, c := range []struct{ engine, dtype, quantization, want, act string }{
		{Native, "bf16", "", "bf16", "bf16"}, {Native, "fp16", "", "fp16", "fp16"},
		{Native, "bf16", "fp8", "w8a16-fp8", "bf16"}, {Native, "bf16", "int4", "w4a16-g128", "bf16"},
		{Transformers, "bf16", "fp8", "fp8", "fp8"}, {Transformers, "bf16", "int8", "int8", "bf16"},
	} {
		p := Default()
		p.Engine, p.DType, p.Quantization = c.engine, c.dtype, c.quantization
		s, err := models.ParseScheme(p.WeightFormat())
		if err != nil || p.WeightFormat() != c.want || s.Act.String() != c.act {
			t.Errorf("%+v: %s, products in %v, %v", c, p.WeightFormat(), s.Act, err)
		}
	}
}
