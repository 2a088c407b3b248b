package models

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/unit"
)

// The methods of tools that quantize on the machine that runs the model: MLX, HQQ and torchao.

// scaled has a scale and a zero point of 16 bits each for each group.
func scaled(name string, bits, group int) *Storage {
	s := integer(bits, group, false)
	s.Name, s.Scale = fmt.Sprintf("%s %s", name, s.Name), 4
	return s
}

// mlxModes are the formats of MLX beside its integers (mlx.core.quantize).
var mlxModes = map[string]*Storage{"mxfp4": mxfp4(unit.NoFormat), "mxfp8": mxfp8(), "nvfp4": nvfp4(unit.NoFormat)}

// readMLX reads the object "quantization" of MLX: bits and groups of all modules, the embedding and the head among them, and
// those of modules that differ, or false for one that is not quantized.
func (r *reader) readMLX(object map[string]any) *quantization {
	q := &quantization{method: "mlx", head: true, table: true, named: make(map[string]*Storage)}
	q.general = r.mlxModule("quantization", object)
	for _, key := range slices.Sorted(maps.Keys(object)) {
		switch v := object[key].(type) {
		case map[string]any:
			q.named[bare(key)] = r.mlxModule("quantization["+quote(key)+"]", v)
		case bool:
			if !v && strings.Contains(key, ".") {
				q.named[bare(key)] = nil
			}
		}
	}
	return q
}

// mlxModule is how MLX keeps a module.
func (r *reader) mlxModule(where string, object map[string]any) *Storage {
	if mode, _ := object["mode"].(string); mode != "" && mode != "affine" {
		s := mlxModes[mode]
		if s == nil {
			r.unsupported("%s.mode is %s, which is not understood", where, quote(mode))
		}
		return s
	}
	bits := r.argument(object, where+".", "bits", 4)
	if bits < 2 || bits > 8 {
		r.fail("%s.bits is %d; want 2 to 8", where, bits)
		bits = 4
	}
	return scaled("mlx", bits, max(r.argument(object, where+".", "group_size", 64), 1))
}

// readLocal reads what HQQ or torchao wrote.
func (r *reader) readLocal(q *quantization) {
	if q.method == "hqq" {
		r.readHQQ(q)
		return
	}
	r.readTorchAO(q)
}

// readHQQ reads the bits and groups of HQQ (https://github.com/dropbox/hqq).
func (r *reader) readHQQ(q *quantization) {
	const name = quantField + "quant_config.weight_quant_params"
	v, _, _ := r.look(name)
	object, ok := v.(map[string]any)
	if !ok {
		r.unsupported("%s is %s; want nbits and group_size", name, kindOf(v))
		return
	}
	bits := r.argument(object, name+".", "nbits", 4)
	if bits < 1 || bits > 8 {
		r.fail("%s.nbits is %d; want 1 to 8", name, bits)
		bits = 4
	}
	q.general = scaled("hqq", bits, max(r.argument(object, name+".", "group_size", 64), 1))
	for _, module := range r.texts(quantField + "skip_modules") {
		q.ignored.others = append(q.ignored.others, bare(module))
	}
}

// readTorchAO reads the configuration class of torchao, or the name that versions before 0.9 had for it.
func (r *reader) readTorchAO(q *quantization) {
	const name = quantField + "quant_type"
	v, _, _ := r.look(name)
	kind, _ := v.(string)
	kwargs, _, _ := r.look(quantField + "quant_type_kwargs")
	data, _ := kwargs.(map[string]any)
	if object, ok := v.(map[string]any); ok {
		if inner, ok := object["default"].(map[string]any); ok {
			object = inner
		}
		kind, _ = object["_type"].(string)
		data, _ = object["_data"].(map[string]any)
	}
	group := r.argument(data, name+".", "group_size", 128)
	switch strings.ToLower(strings.NewReplacer("_", "", "Config", "").Replace(kind)) {
	case "int4weightonly":
		q.general = scaled("torchao", 4, max(group, 1))
	case "int8weightonly":
		q.general = integer(8, 0, false)
	case "int8dynamicactivationint8weight":
		q.general = integer(8, 0, false)
		q.general.Act = unit.INT8
	case "int8dynamicactivationint4weight", "int8dynamicactivationintxweight":
		q.general = scaled("torchao", 4, max(r.argument(data, name+".", "group_size", 32), 1))
		q.general.Act = unit.INT8
	case "float8weightonly":
		q.general = fp8Rows()
		q.general.Act = unit.NoFormat
	case "float8dynamicactivationfloat8weight", "float8staticactivationfloat8weight":
		q.general = fp8Rows()
	default:
		r.unsupported("%s is %s, which is not understood", name, quote(kind))
	}
}
