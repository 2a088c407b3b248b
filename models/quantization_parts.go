package models

import (
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// maxPatterns is the most patterns of modules that are read; published checkpoints have fewer than ten.
const maxPatterns = 256

// readGPTQ reads what AutoGPTQ, GPTQModel and AutoRound write: one format, and those of modules that differ.
func (r *reader) readGPTQ(q *quantization) {
	if kind := r.text(quantField + "data_type"); kind != "" && kind != "int" {
		r.unsupported("quantization_config.data_type is %s, which is not understood (known: int)", quote(kind))
	}
	q.general, q.head = gptq(r.bits(2, 3, 4, 8), r.group()), r.flag(quantField+"lm_head")
	r.readOnly(q)
	r.readDynamic(q)
	r.readExtra(q)
}

// readOnly reads modules_in_block_to_quantize of optimum: lists of the modules of each block that are quantized, alone.
func (r *reader) readOnly(q *quantization) {
	const name = quantField + "modules_in_block_to_quantize"
	var patterns []string
	for _, list := range r.list(name) {
		modules, _ := list.([]any)
		for _, m := range modules {
			module, ok := m.(string)
			if !ok {
				r.fail("%s holds %s; want lists of texts", name, kindOf(m))
			}
			patterns = append(patterns, `re:.*\.`+regexp.QuoteMeta(module)+"$")
		}
	}
	if len(patterns) > 0 {
		q.rules = append(q.rules, quantRule{r.pathSet(name, patterns), q.general})
		q.general = nil
	}
}

// readDynamic reads dynamic of GPTQModel: expressions of modules that differ in bits or groups ("+:" or nothing before
// them) or are left in 16 bits ("-:"). The file's first that fits holds.
func (r *reader) readDynamic(q *quantization) {
	const name = quantField + "dynamic"
	for pattern, v := range r.modulesOf(name) {
		expr, skipped := strings.CutPrefix(pattern, "-:")
		var s *Storage
		if !skipped {
			expr = strings.TrimPrefix(expr, "+:")
			s = r.override(fmt.Sprintf("%s[%s]", name, quote(pattern)), v)
		}
		q.patterns = append(q.patterns, quantRule{r.pathSet(name, []string{"re:" + expr}), s})
	}
	r.limitPatterns(q, name)
}

// readExtra reads extra_config of AutoRound: modules that differ, by their paths, or by expressions of a part of them.
func (r *reader) readExtra(q *quantization) {
	const name = quantField + "extra_config"
	q.named = make(map[string]*Storage)
	for module, v := range r.modulesOf(name) {
		s := r.override(fmt.Sprintf("%s[%s]", name, quote(module)), v)
		if strings.ContainsAny(module, `*+?^$()[]{}|\`) {
			q.patterns = append(q.patterns, quantRule{r.pathSet(name, []string{"re:.*(?:" + module + ")"}), s})
		} else {
			q.named[bare(module)] = s
		}
	}
	r.limitPatterns(q, name)
}

// modulesOf yields the entries of an object whose keys are modules, in the order of the keys.
func (r *reader) modulesOf(name string) iter.Seq2[string, any] {
	v, _, _ := r.look(name)
	object, ok := v.(map[string]any)
	if v != nil && !ok {
		r.fail("%s is %s; want an object", name, kindOf(v))
	}
	return func(yield func(string, any) bool) {
		for _, key := range slices.Sorted(maps.Keys(object)) {
			if !yield(key, object[key]) {
				return
			}
		}
	}
}

// override is how a module is kept that an object of bits and group_size is of; nil in 16 bits.
func (r *reader) override(where string, v any) *Storage {
	o, ok := v.(map[string]any)
	if !ok {
		r.fail("%s is %s; want an object", where, kindOf(v))
		return nil
	}
	bits, group := r.argument(o, where+".", "bits", r.bits(2, 3, 4, 8)), r.argument(o, where+".", "group_size", r.group())
	if o["group_size"] == asNumber(-1) {
		group = 0
	}
	kind := o["data_type"]
	switch {
	case bits >= 16:
		return nil
	case bits < 2 || bits > 8:
		r.fail("%s.bits is %d; want 2 to 8, or 16", where, bits)
	case kind != nil && kind != "int":
		r.unsupported("%s.data_type is %s, which is not understood (known: int)", where, kindOf(kind))
	}
	return gptq(bits, group)
}

func (r *reader) pathSet(name string, patterns []string) pathSet {
	s, err := newPathSet(patterns)
	if err != nil {
		r.fail("%s: %w", name, err)
	}
	return s
}

func (r *reader) limitPatterns(q *quantization, name string) {
	if n := len(q.patterns); n > maxPatterns {
		r.fail("%s has %d patterns; at most %d are read", name, n, maxPatterns)
	}
}

// refuseSparse refuses pruned weights, of which only the values that are left are kept.
func (r *reader) refuseSparse() {
	if f := r.text(quantField + "sparsity_config.format"); f != "" && f != "dense" {
		r.unsupported("quantization_config.sparsity_config.format is %s: sparse weights are not understood", quote(f))
	}
	if f := r.text(quantField + "format"); f == "marlin-24" {
		r.unsupported("quantization_config.format is %s: sparse weights are not understood", quote(f))
	}
}

// refuseUnreadParts refuses objects and lists of quantization_config that are not understood: they may name modules.
func (r *reader) refuseUnreadParts() {
	v, _, _ := r.look("quantization_config")
	object, _ := v.(map[string]any)
	for _, field := range slices.Sorted(maps.Keys(object)) {
		switch v := object[field].(type) {
		case map[string]any, []any:
			if !isEmpty(v) && !slices.Contains(quantParts(), field) {
				r.unsupported("quantization_config.%s (%s) is not understood; --lenient leaves it out of account", short(field), kindOf(v))
			}
		}
	}
}

// quantParts are the objects and lists of quantization_config that are read, and those that change neither bytes nor
// products: who made it and with what, kernels, and the blocks of a multimodal model that are the decoder's.
func quantParts() []string {
	return strings.Fields(`config_groups dynamic exclude exclude_modules export extra_config global_quant_config ignore ignored_layers ` +
		`quant_config quant_type quant_type_kwargs skip_modules ` +
		`kv_cache_quant_config kv_cache_scheme layer_quant_config
		llm_int8_skip_modules modules_in_block_to_quantize modules_to_not_convert quantized_layers sparsity_config weight_block_size
		algo_config block_name_to_quantize dataset exllama_config meta modules_to_fuse producer quant_block_list to_quant_block_names ` +
		`tokenizer transform_config`)
}
