package native

import (
	"fmt"

	"llmprof/measure/native/cuda"
	"llmprof/models/safetensors"
)

// A Quantization is the format of the weights of the blocks' linear layers, by the bits of a weight.
// Embedding, LM head, norms and biases always have 16 bits.
type Quantization int

// These are the quantizations. GEMMs compute in 16 bits with all of them.
const (
	Unquantized Quantization = 0
	INT4        Quantization = 4 // groups of 128 inputs, with a scale of 16 bits and a zero point of 4: w4a16-g128
	FP8         Quantization = 8 // e4m3, with a float32 scale a row: w8a16-fp8
)

// groupInputs is GROUP_INPUTS of quantized.cuh.
const groupInputs = 128

// unitOfFP8 is UNIT of quantized.cuh for 8-bit weights; for 4-bit weights a unit is a group.
const unitOfFP8 = 64

// ParseQuantization finds a quantization by the name that --quantize has for it,
// "" for none.
func ParseQuantization(name string) (Quantization, error) {
	switch name {
	case "":
		return Unquantized, nil
	case "fp8":
		return FP8, nil
	case "int4":
		return INT4, nil
	}
	return 0, unsupported("it has no weights in %q: it has 16 bits, fp8 and int4", name)
}

// String is the name that ParseQuantization takes.
func (q Quantization) String() string {
	return map[Quantization]string{Unquantized: "", FP8: "fp8", INT4: "int4"}[q]
}

// bytes is the size of n rows of k weights, of their scales and of their zero points.
func (q Quantization) bytes(n, k int) (data, scales, zeros int) {
	switch q {
	case FP8:
		return n * k, 4 * n, 0
	case INT4:
		groups := k / groupInputs
		return n * k / 2, 2 * n * groups, n * groups / 2
	}
	return 2 * n * k, 0, 0
}

// misfit returns why a model's weights cannot have the format, or "".
func (q Quantization) misfit(s *shape) string {
	switch {
	case q == Unquantized:
		return ""
	case q != FP8 && q != INT4:
		return fmt.Sprintf("weights of %d bits; this engine has 16, fp8 and int4", int(q))
	case q == FP8 && (s.hidden%unitOfFP8 != 0 || s.inner%unitOfFP8 != 0 || s.attWidth()%unitOfFP8 != 0):
		return fmt.Sprintf("fp8 weights lie in units of %d inputs, of which a hidden size of %d, feed-forward of %d and attention of %d%s are "+
			"no multiples",
			unitOfFP8, s.hidden, s.inner, s.attWidth(), s.ofEach())
	case q == INT4 && (s.hidden%groupInputs != 0 || s.inner%groupInputs != 0 || s.attWidth()%groupInputs != 0):
		return fmt.Sprintf("int4 weights in groups of %d need a hidden size, feed-forward and attention that are multiples of it, not %d, %d "+
			"and %d%s",
			groupInputs, s.hidden, s.inner, s.attWidth(), s.ofEach())
	}
	return ""
}

// ofEach adds that sizes are those of one of several ranks.
func (s *shape) ofEach() string {
	if s.ranks == 1 {
		return ""
	}
	return fmt.Sprintf(" on each of %d GPUs", s.ranks)
}

// float is the 16-bit format of activations, cache and weights that are not quantized.
func (s *shape) float() safetensors.Format {
	if s.fp16 {
		return safetensors.Float16
	}
	return safetensors.BFloat16
}

// sixteen is that 16-bit format as cuBLASLt names it.
func (s *shape) sixteen() cuda.Type {
	if s.fp16 {
		return cuda.Float16
	}
	return cuda.BFloat16
}

// shape is a rank's part of the model in the options' formats.
func (o *Options) shape(rank int) (shape, error) {
	s, err := readShape(o.Model, o.Config)
	if err != nil {
		return shape{}, err
	}
	if s, err = s.divide(o.Model.Name, rank, o.ranks()); err != nil {
		return shape{}, err
	}
	s.fp16, s.quant = o.FP16, o.Quantization
	if why := s.quant.misfit(&s); why != "" {
		return shape{}, unsupported("%s: %s", o.Model.Name, why)
	}
	return s, o.check(&s)
}
