package models

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/unit"
)

const quantField = "quantization_config."

// quantMethods names the methods that are understood.
const quantMethods = "awq, bitsandbytes, compressed-tensors, fp8, fbgemm_fp8, gptq, auto-round, hqq, modelopt, mxfp4, mxfp8, quark, torchao"

// quantization reads quantization_config. What it does not understand is an error: bytes and speed of
// the whole model hang on it.
func (r *reader) quantization() *quantization {
	if v, as, _ := r.look("quantization_config"); !isObject(v) {
		r.fail("%s is %s; want an object whose quant_method is one of %s", as, kindOf(v), quantMethods)
		return nil
	}
	method := r.text(quantField + "quant_method")
	if method == "" && r.has(quantField+"quant_algo") {
		method = "modelopt"
	}
	q := &quantization{method: method, kv: r.cacheFormat()}
	r.readIgnored(q)
	switch method {
	case "fp8", "fbgemm_fp8", "FP8":
		r.readFP8(q)
	case "mxfp4":
		q.general, q.experts = mxfp4(unit.NoFormat), true // gpt-oss
	case "gptq", "gptq_v2", "auto-round", "intel/auto-round", "auto_round":
		r.readGPTQ(q)
	case "awq", "gemm", "marlin":
		q.general = integer(r.bits(4), r.group(), true)
	case "bitsandbytes":
		r.readBitsAndBytes(q)
	case "compressed-tensors":
		r.readGroups(q)
	case "modelopt", "modelopt_fp4", "modelopt_mixed", "NVFP4", "nvfp4":
		r.readModelOpt(q, method)
	case "mxfp8":
		q.general = mxfp8()
	case "quark":
		r.readQuark(q)
	case "hqq", "torchao":
		r.readLocal(q)
	default:
		known := ", which is not understood (known: " + quantMethods + ")"
		r.unsupported("quantization_config.quant_method is %s%s", choose(method == "", "missing", quote(method)),
			choose(method == "", "; want one of "+quantMethods, known))
		return nil
	}
	q.method = strings.Replace(q.method, "FP8", "fp8", 1)
	r.refuseUnreadParts()
	return q
}

func (r *reader) readIgnored(q *quantization) {
	var patterns []string
	for _, field := range []string{"ignore", "modules_to_not_convert", "exclude_modules", "exclude", "ignored_layers",
		"llm_int8_skip_modules"} {
		patterns = append(patterns, r.texts(quantField+field)...)
	}
	q.ignored = r.pathSet(quantField+"ignore", patterns)
}

// readFP8 reads DeepSeek's FP8 in blocks, FP8 with one scale, and Meta's with one an output. NVIDIA
// puts other formats of some modules beside it.
func (r *reader) readFP8(q *quantization) {
	switch block := r.wholes(quantField + "weight_block_size"); {
	case len(block) == 2 && block[0] > 0 && block[1] > 0:
		q.general = fp8Blocks(block[0], block[1])
	case len(block) > 0:
		r.fail("quantization_config.weight_block_size is %v; want two sizes", block)
	case q.method == "fbgemm_fp8":
		q.general = fp8Rows()
	default:
		q.general = fp8Tensor(r.text(quantField+"activation_scheme") == "static")
	}
	switch experts := r.text("expert_dtype"); experts {
	case "", "fp8":
	case "fp4": // DeepSeek-V4: a byte for each 32 values, activations in FP8
		q.routed = mxfp4(unit.FP8)
	default:
		r.unsupported("expert_dtype is %s, which is not understood", quote(experts))
	}
	if r.has(quantField + "quantized_layers") {
		r.readNamed(q)
		q.ignored = pathSet{} // modules that are excluded from NVFP4 are in FP8
	}
}

// readModelOpt reads what NVIDIA's Model Optimizer writes, in config.json or in hf_quant_config.json.
func (r *reader) readModelOpt(q *quantization, method string) {
	algorithm := strings.ToUpper(r.text(quantField + "quant_algo"))
	if algorithm == "" && method != "modelopt" {
		algorithm = "NVFP4"
	}
	if algorithm == "MIXED_PRECISION" {
		r.readNamed(q)
		return
	}
	q.general = r.algorithm(algorithm, r.group())
}

func (r *reader) readNamed(q *quantization) {
	v, _, _ := r.look(quantField + "quantized_layers")
	layers, ok := v.(map[string]any)
	if !ok {
		r.fail("quantization_config.quantized_layers is %s; want the algorithm of each module", kindOf(v))
		return
	}
	q.named = make(map[string]*Storage, len(layers))
	kinds := make(map[string]*Storage)
	for _, path := range slices.Sorted(maps.Keys(layers)) {
		entry, _ := layers[path].(map[string]any)
		algorithm, _ := entry["quant_algo"].(string)
		if kinds[algorithm] == nil {
			kinds[algorithm] = r.algorithm(strings.ToUpper(algorithm), 128)
		}
		if kinds[algorithm] != nil {
			q.named[bare(path)] = kinds[algorithm]
		}
	}
}

// algorithm is the storage of an algorithm of Model Optimizer
// (https://nvidia.github.io/Model-Optimizer/, QUANTIZATION_* of modelopt.torch.export).
func (r *reader) algorithm(name string, group int) *Storage {
	switch name {
	case "FP8":
		return fp8Tensor(true)
	case "FP8_PER_CHANNEL_PER_TOKEN":
		return fp8Rows()
	case "FP8_PB_WO", "FP8_PB_REAL":
		return fp8Blocks(128, 128)
	case "NVFP4":
		return nvfp4(unit.NVFP4)
	case "NVFP4_AWQ":
		s := nvfp4(unit.NVFP4)
		s.PerInput = 2 // a scale of each input before the product
		return s
	case "W4A16_NVFP4":
		return nvfp4(unit.NoFormat)
	case "W4A8_NVFP4_FP8":
		return nvfp4(unit.FP8)
	case "MXFP4":
		return mxfp4(unit.MXFP4)
	case "W4A16_MXFP4":
		return mxfp4(unit.NoFormat)
	case "W4A8_MXFP4_FP8":
		return mxfp4(unit.FP8)
	case "MXFP8":
		return mxfp8()
	}
	s := integerAlgorithm(name, cmp.Or(group, 128))
	if s == nil {
		r.unsupported("quantization_config.quant_algo is %s, which is not understood", quote(name))
	}
	return s
}

// integerAlgorithm is the storage of an algorithm of integers, nil for another. Inputs are scaled before
// the product.
func integerAlgorithm(name string, group int) *Storage {
	s := integer(8, 0, false)
	s.Scale = 4
	switch name {
	case "INT4_AWQ", "W4A16_AWQ", "W4A16":
		s = integer(4, group, false)
		s.PerInput = 2
	case "W4A8_AWQ":
		s = integer(4, group, false)
		s.PerInput, s.Act = 2, unit.FP8
	case "INT8_SQ", "W8A8_SQ_PER_CHANNEL":
		s.Act, s.PerInput = unit.INT8, 4
	case "INT8_WO", "W8A16":
	default:
		return nil
	}
	return s
}

// readBitsAndBytes reads which of its two formats bitsandbytes wrote.
func (r *reader) readBitsAndBytes(q *quantization) {
	four := r.flag(quantField+"load_in_4bit") || r.flag(quantField+"_load_in_4bit")
	if eight := r.flag(quantField+"load_in_8bit") || r.flag(quantField+"_load_in_8bit"); four == eight {
		r.fail("quantization_config sets %s of load_in_4bit and load_in_8bit; want one", choose(four, "both", "neither"))
	}
	q.general = bitsAndBytes(four, r.flag(quantField+"bnb_4bit_use_double_quant"))
}

// bits reads the bits of a value, of which the method packs those in packed.
func (r *reader) bits(packed ...int) int {
	for _, field := range []string{"bits", "w_bit", "weight_bits"} {
		if !r.has(quantField + field) {
			continue
		}
		n := r.size(quantField + field)
		if !slices.Contains(packed, n) {
			r.unsupported("quantization_config.%s is %d; want one of %v", field, n, packed)
		}
		return n
	}
	return 4
}

// group reads the group size; 0 stands for a whole row, which -1 or no value means.
func (r *reader) group() int {
	const name = quantField + "group_size"
	v, _, _ := r.look(name)
	if v == nil || v == asNumber(-1) {
		return 0
	}
	if v == asNumber(0) {
		r.fail("%s is 0; want the values of a group, or -1 for a whole row", name)
	}
	return r.countOr(name, 0)
}

// cacheFormats are the formats of a cache, by their names and by bits and type.
var cacheFormats = map[string]unit.Format{
	"FP8": unit.FP8, "NVFP4": unit.NVFP4, "INT8": unit.INT8, "8 float": unit.FP8, "8 int": unit.INT8, "4 float": unit.NVFP4,
}

// cacheFormat reads the format of the cache that a checkpoint has scales for.
func (r *reader) cacheFormat() unit.Format {
	for _, field := range []string{"kv_cache_quant_algo", "kv_cache_scheme"} {
		v, as, _ := r.look(quantField + field)
		name := ""
		switch v := v.(type) {
		case nil:
			continue
		case string:
			name = strings.ToUpper(v)
		case map[string]any:
			name = fmt.Sprint(v["num_bits"], " ", v["type"])
		}
		if format, ok := cacheFormats[name]; ok {
			return format
		}
		r.unsupported("%s is %s, which is not understood", as, kindOf(v))
	}
	return unit.NoFormat
}

// dtype reads the dtype of PyTorch. It is NoFormat where none is stated.
func (r *reader) dtype() unit.Format {
	v, as, _ := r.look("dtype")
	switch v {
	case nil, "auto":
		return unit.NoFormat
	case "float32", "torch.float32", "float":
		return unit.FP32
	case "float16", "torch.float16", "half":
		return unit.FP16
	case "bfloat16", "torch.bfloat16":
		return unit.BF16
	case "float8_e4m3fn", "torch.float8_e4m3fn", "float8":
		return unit.FP8
	}
	r.unsupported("%s is %s: want float32, float16, bfloat16 or float8_e4m3fn", as, kindOf(v))
	return unit.NoFormat
}
