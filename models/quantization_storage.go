package models

import (
	"fmt"

	"llmprof/unit"
)

// The formats of quantized matrices. Sizes of scales are those of the published checkpoints: NVIDIA's
// Model Optimizer, compressed-tensors of vLLM, AutoGPTQ, AutoAWQ and bitsandbytes.

// fp8Tensor has one scale for the matrix and, if act is calibrated, one for its input.
func fp8Tensor(static bool) *Storage {
	s := &Storage{Name: "fp8", Format: unit.FP8, Act: unit.FP8, Bits: 8, Fixed: 4}
	if static {
		s.Fixed = 8
	}
	return s
}

// fp8Rows has a scale for each output.
func fp8Rows() *Storage {
	return &Storage{Name: "fp8 per channel", Format: unit.FP8, Act: unit.FP8, Bits: 8, BlockOut: 1, Scale: 4}
}

// fp8Blocks has a float32 for each block (DeepSeek-V3, arXiv:2412.19437, section 3.3).
func fp8Blocks(out, in int) *Storage {
	return &Storage{Name: fmt.Sprintf("fp8 %d×%d", out, in), Format: unit.FP8, Act: unit.FP8, Bits: 8, BlockIn: in, BlockOut: out, Scale: 4}
}

// nvfp4 has a byte for each 16 values, a scale of these, and one of the activations.
func nvfp4(act unit.Format) *Storage {
	s := &Storage{Name: "nvfp4", Format: unit.NVFP4, Act: act, Bits: 4, BlockIn: 16, BlockOut: 1, Scale: 1, Fixed: 8}
	if act == unit.NoFormat {
		s.Name, s.Fixed = "nvfp4 weights", 4
	}
	return s
}

// mxfp4 and mxfp8 have a byte for each 32 values (OCP Microscaling Formats 1.0).
func mxfp4(act unit.Format) *Storage {
	s := &Storage{Name: "mxfp4", Format: unit.MXFP4, Act: act, Bits: 4, BlockIn: 32, BlockOut: 1, Scale: 1}
	if act == unit.NoFormat {
		s.Name = "mxfp4 weights"
	}
	return s
}

func mxfp8() *Storage {
	return &Storage{Name: "mxfp8", Format: unit.FP8, Act: unit.FP8, Bits: 8, BlockIn: 32, BlockOut: 1, Scale: 1}
}

// integer has 16-bit scales for groups of inputs, or for whole rows if group is 0, and zero points of
// as many bits as a value where zero is set.
func integer(bits, group int, zero bool) *Storage {
	format := unit.INT8
	if bits <= 4 {
		format = unit.INT4
	}
	s := &Storage{Name: fmt.Sprintf("int%d", bits), Format: format, Bits: float64(bits), BlockIn: group, BlockOut: 1, Scale: 2}
	if group > 0 {
		s.Name += fmt.Sprintf(" g%d", group)
	}
	if zero {
		s.Scale += float64(bits) / 8
	}
	return s
}

// gptq has, beside scales and zero points, the group of each input.
func gptq(bits, group int) *Storage {
	s := integer(bits, group, true)
	s.PerInput = 4
	return s
}

// bitsAndBytes has a float32 a block of 64 values, or a byte with a float32 for each 256 of those.
func bitsAndBytes(four, nested bool) *Storage {
	if !four {
		return &Storage{Name: "int8", Format: unit.INT8, Act: unit.INT8, Bits: 8, BlockOut: 1, Scale: 4}
	}
	s := &Storage{Name: "nf4", Format: unit.INT4, Bits: 4 + 8*4.0/64, Fixed: 144} // the map of values, and the state as JSON
	if nested {
		s.Bits, s.Fixed = 4+8*(1+4.0/256)/64, 1260
	}
	return s
}
