package models

import (
	"fmt"

	"llmprof/unit"
)

// stored reads how the published checkpoint is stored.
func (r *reader) stored() Stored {
	s := Stored{Weights: r.format("dtype")}
	if !r.has("quantization_config") {
		return s
	}
	method := r.text("quantization_config.quant_method")
	if method == "" {
		method = r.text("quantization_config.quant_algo")
	}
	s.Method = method
	switch method {
	case "fp8", "fbgemm_fp8", "FP8":
		s.Weights = unit.FP8
		if block := r.wholes("quantization_config.weight_block_size"); len(block) == 2 {
			s.Group = block[0] * block[1]
		}
	case "mxfp4":
		s.Weights, s.Experts, s.Group = unit.MXFP4, true, 32
	case "gptq", "awq", "auto-round", "intel/auto-round":
		r.integers(&s, "quantization_config.bits")
		s.Group = r.group("quantization_config.group_size")
	case "bitsandbytes":
		s.Weights = unit.INT8
		if r.flag("quantization_config.load_in_4bit") || r.flag("quantization_config._load_in_4bit") {
			s.Weights, s.Group = unit.INT4, 64
		}
	case "compressed-tensors":
		r.compressed(&s)
	case "NVFP4", "nvfp4":
		s.Weights, s.Group = unit.NVFP4, 16
	case "modelopt":
		r.modelOpt(&s)
	default:
		r.unknownFormat(short(method))
	}
	return s
}

// compressed reads the first group of a compressed-tensors scheme.
func (r *reader) compressed(s *Stored) {
	const group = "quantization_config.config_groups.group_0.weights."
	kind, bits := r.text(group+"type"), r.countOr(group+"num_bits", 0)
	switch {
	case kind == "float" && bits == 8:
		s.Weights = unit.FP8
	case kind == "float" && bits == 4:
		s.Weights = unit.NVFP4
	case kind == "int" && bits == 8:
		s.Weights = unit.INT8
	case kind == "int" && bits == 4:
		s.Weights = unit.INT4
	default:
		r.unknownFormat(s.Method)
		return
	}
	s.Group = r.group(group + "group_size")
}

// group reads a group size, of which -1 and nothing mean a whole row.
func (r *reader) group(name string) int {
	if v, _, _ := r.look(name); v == nil || v == asNumber(-1) {
		return 0
	}
	return r.countOr(name, 0)
}

// modelOpt reads the algorithm of NVIDIA's Model Optimizer.
func (r *reader) modelOpt(s *Stored) {
	switch algorithm := r.text("quantization_config.quant_algo"); algorithm {
	case "FP8":
		s.Weights = unit.FP8
	case "NVFP4":
		s.Weights, s.Group = unit.NVFP4, 16
	default:
		r.unknownFormat(s.Method + " " + short(algorithm))
	}
}

// integers reads a number of bits as the integer format of that width.
func (r *reader) integers(s *Stored, name string) {
	switch bits := r.countOr(name, 4); bits {
	case 4:
		s.Weights = unit.INT4
	case 8:
		s.Weights = unit.INT8
	default:
		r.unknownFormat(fmt.Sprintf("%s of %d bits", s.Method, bits))
	}
}

// unknownFormat notes that the stored format was not understood.
func (r *reader) unknownFormat(what string) {
	r.notes = append(r.notes, "the checkpoint's quantization ("+what+") is not understood; its format is taken from dtype")
}

// format reads a dtype of PyTorch. An unknown one is left open.
func (r *reader) format(name string) unit.Format {
	v, _, _ := r.look(name)
	switch v {
	case "float32", "torch.float32", "float":
		return unit.FP32
	case "float16", "torch.float16", "half":
		return unit.FP16
	case "bfloat16", "torch.bfloat16":
		return unit.BF16
	case "float8_e4m3fn", "float8":
		return unit.FP8
	}
	return unit.NoFormat
}
