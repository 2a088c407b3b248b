package models

import (
	"fmt"
	"maps"
	"slices"

	"llmprof/unit"
)

// readGroups reads the groups of compressed-tensors, each of which names its modules
// (https://github.com/vllm-project/compressed-tensors).
func (r *reader) readGroups(q *quantization) {
	r.refuseSparse()
	v, _, _ := r.look(quantField + "config_groups")
	groups, ok := v.(map[string]any)
	if !ok || len(groups) == 0 {
		r.unsupported("quantization_config.config_groups is %s; want the format of each group of modules", kindOf(v))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(groups)) {
		group, ok := groups[name].(map[string]any)
		if !ok {
			r.fail("quantization_config.config_groups.%s is %s; want an object", short(name), kindOf(groups[name]))
			return
		}
		s := r.groupStorage(short(name), group)
		if s == nil {
			return
		}
		targets, _ := group["targets"].([]any)
		var paths []string
		for _, t := range targets {
			text, _ := t.(string)
			if text == "Linear" || text == "torch.nn.Linear" || text == "MoELinear" || text == "FusedMoE" {
				q.general = s
				continue
			}
			paths = append(paths, text)
		}
		if len(targets) == 0 {
			q.general = s
		}
		if len(paths) > 0 {
			q.rules = append(q.rules, quantRule{r.pathSet(quantField+"config_groups."+short(name)+".targets", paths), s})
		}
	}
}

func (r *reader) groupStorage(name string, group map[string]any) *Storage {
	w, ok := group["weights"].(map[string]any)
	if !ok {
		r.unsupported("quantization_config.config_groups.%s.weights is %s; want the format of the weights", name, kindOf(group["weights"]))
		return nil
	}
	where := "config_groups." + name + ".weights."
	a := args{bits: r.argument(w, where, "num_bits", 8), group: r.argument(w, where, "group_size", 0)}
	a.kind, _ = w["type"].(string)
	a.strategy, _ = w["strategy"].(string)
	if a.strategy == "group" && a.group == 0 {
		r.fail("quantization_config.%sgroup_size is %s; want the values of a group, as the strategy is \"group\"", where, kindOf(w["group_size"]))
	}
	a.symmetric = w["symmetric"] != false
	a.ordered = w["actorder"] != nil && w["actorder"] != false && w["actorder"] != "static" && w["actorder"] != "weight"
	a.micro = w["scale_dtype"] == "torch.uint8" || group["format"] == "mxfp4-pack-quantized" || group["format"] == "mxfp4" ||
		group["format"] == "mxfp8-quantized"
	a.loose = group["format"] == "int-quantized" || group["format"] == nil && r.text(quantField+"format") == "int-quantized"
	if block, ok := w["block_structure"].([]any); ok && len(block) == 2 {
		a.block = [2]int{r.whole(block[0], where+"block_structure", 1, maxSize), r.whole(block[1], where+"block_structure", 1, maxSize)}
	}
	s := a.storage()
	if s == nil {
		r.unsupported("quantization_config.%s is of %d bits of type %s by %s, which is not understood",
			where[:len(where)-1], a.bits, quote(a.kind), quote(a.strategy))
		return nil
	}
	s.Act = r.activations(name, group["input_activations"])
	return s
}

// argument reads a number of a group; null is def.
func (r *reader) argument(from map[string]any, where, name string, def int) int {
	v := from[name]
	if v == nil || v == asNumber(-1) {
		return def
	}
	return r.whole(v, where+name, 0, maxSize)
}

// activations is the format that the activations of a group take, NoFormat for weight-only quantization.
func (r *reader) activations(name string, v any) unit.Format {
	if v == nil {
		return unit.NoFormat
	}
	a, ok := v.(map[string]any)
	if !ok {
		r.unsupported("quantization_config.config_groups.%s.input_activations is %s; want an object", name, kindOf(v))
		return unit.NoFormat
	}
	bits := r.argument(a, "input_activations.", "num_bits", 8)
	switch fmt.Sprint(a["type"], bits) {
	case "float8":
		return unit.FP8
	case "float4":
		if r.argument(a, "input_activations.", "group_size", 16) == 32 {
			return unit.MXFP4
		}
		return unit.NVFP4
	case "int8":
		return unit.INT8
	case "int4":
		return unit.INT4
	}
	r.unsupported("quantization_config.config_groups.%s.input_activations are of %d bits of type %s, which is not understood", name, bits,
		kindOf(a["type"]))
	return unit.NoFormat
}

// args are the arguments of the weights of a group.
type args struct {
	kind, strategy string
	bits, group    int
	symmetric      bool
	ordered        bool // the groups are in an order of their own
	micro          bool // scales of a byte for 32 values
	loose          bool // each value has a byte, however few bits it has
	block          [2]int
}

// storage is the format that the arguments describe, nil for none.
func (a *args) storage() *Storage {
	switch {
	case a.kind == "float" && a.bits == 8:
		return a.eight()
	case a.kind == "float" && a.bits == 4 && (a.micro || a.group == 32):
		return mxfp4(unit.NoFormat)
	case a.kind == "float" && a.bits == 4 && (a.group == 16 || a.group == 0):
		return nvfp4(unit.NVFP4)
	case a.kind == "int" && a.bits >= 2 && a.bits <= 8:
		s := integer(a.bits, a.group, !a.symmetric)
		if a.strategy == "tensor" {
			s.BlockOut = 0
		}
		if a.ordered {
			s.PerInput = 4
		}
		switch {
		case a.loose:
			s.Bits = 8
		case a.bits != 8 || a.group > 0:
			s.Fixed = 16 // the shape, as packing hides it
		}
		return s
	}
	return nil
}

// eight is FP8.
func (a *args) eight() *Storage {
	switch {
	case a.micro:
		return mxfp8()
	case a.strategy == "channel":
		s := fp8Rows()
		s.Scale = 2 // in the 16 bits of the model
		return s
	case a.block[0] > 0:
		s := fp8Blocks(a.block[0], a.block[1])
		s.Scale = 2
		return s
	case a.group > 0:
		s := fp8Rows()
		s.Name, s.BlockIn, s.Scale = fmt.Sprintf("fp8 g%d", a.group), a.group, 2
		return s
	}
	return fp8Tensor(true)
}
