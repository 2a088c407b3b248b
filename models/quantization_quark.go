package models

import (
	"fmt"

	"llmprof/unit"
)

// readQuark reads what AMD's Quark writes (https://quark.docs.amd.com): the format of all modules, and the formats of
// modules that patterns name. The cache is in FP8 where the outputs of k_proj and v_proj are.
func (r *reader) readQuark(q *quantization) {
	const global, layers = quantField + "global_quant_config", quantField + "layer_quant_config"
	v, _, _ := r.look(global)
	q.general = r.quarkModule(global, v)
	for pattern, v := range r.modulesOf(layers) {
		q.patterns = append(q.patterns, quantRule{r.pathSet(layers, []string{pattern}), r.quarkModule(
			fmt.Sprintf("%s[%s]", layers, quote(pattern)), v)})
	}
	r.limitPatterns(q, layers)
	if len(r.texts(quantField+"export.kv_cache_group")) > 0 || !isEmpty(r.value(quantField+"kv_cache_quant_config")) {
		q.kv = unit.FP8
	}
}

// quarkModule is how a module is kept whose weights and inputs an object describes.
func (r *reader) quarkModule(where string, v any) *Storage {
	module, _ := v.(map[string]any)
	w, ok := module["weight"].(map[string]any)
	if !ok {
		r.unsupported("%s.weight is %s; want an object", where, kindOf(module["weight"]))
		return nil
	}
	input, _ := module["input_tensors"].(map[string]any)
	s := quarkStorage(w, input, r.argument(w, where+".weight.", "group_size", 0))
	if s == nil {
		r.unsupported("%s.weight is %s by %s, with inputs that are %s: this is not understood", where, kindOf(w["dtype"]), kindOf(w["qscheme"]),
			kindOf(input["dtype"]))
	}
	return s
}

// quarkStorage is how weights are kept that are quantized as w says, nil for what is not understood; input says
// how the activations are, nil for 16 bits.
func quarkStorage(w, input map[string]any, group int) *Storage {
	kind, _ := input["dtype"].(string)
	act := map[string]unit.Format{"fp8_e4m3": unit.FP8, "fp4": unit.MXFP4, "int8": unit.INT8}[kind]
	if act == unit.NoFormat && input != nil {
		return nil
	}
	var s *Storage
	switch fmt.Sprint(w["dtype"], " ", w["qscheme"]) {
	case "fp8_e4m3 per_tensor":
		s = fp8Tensor(input != nil && input["is_dynamic"] != true)
	case "fp8_e4m3 per_channel":
		s = fp8Rows()
	case "fp4 per_group":
		if group != 32 {
			return nil
		}
		s = mxfp4(act)
	case "int8 per_tensor", "int8 per_channel":
		s = integer(8, 0, false)
	case "int4 per_group", "uint4 per_group":
		s = integer(4, group, w["dtype"] == "uint4")
	default:
		return nil
	}
	s.Act = act
	return s
}
