package models

import "slices"

// Plans decide from a layer's number what it is made of. Configs of
// transformers 5 state it in lists (layer_types, mlp_layer_types); the plans
// give what older configs left to the code.

const (
	full    = "full_attention"
	sliding = "sliding_attention"
	chunked = "chunked_attention"
	linear  = "linear_attention"
	indexed = "indexed_attention"
)

// choose is the kind of a layer of which a condition holds or not.
func choose(holds bool, then, otherwise string) string {
	if holds {
		return then
	}
	return otherwise
}

// slidingEverywhere gives every layer the window, where there is one (Mistral).
func slidingEverywhere(r *reader, _ int) string {
	return choose(r.has("sliding_window"), sliding, full)
}

// slidingAbove gives the layers from max_window_layers on the window, if the
// config switches it on at all (Qwen2).
func slidingAbove(r *reader, i int) string {
	return choose(r.flag("use_sliding_window") && r.has("sliding_window") && i >= r.countOr("max_window_layers", 0), sliding, full)
}

// fullEvery gives the last of each group of layers the whole context and the
// others the window; the size of a group is in a field, or n if that is
// missing.
func fullEvery(field string, n int) func(*reader, int) string {
	return func(r *reader, i int) string {
		return choose((i+1)%r.sizeOr(field, n) == 0 || !r.has("sliding_window"), full, sliding)
	}
}

// fullFirst gives the first of each group of n layers the whole context.
func fullFirst(field string, n int) func(*reader, int) string {
	return func(r *reader, i int) string {
		return choose(i%r.sizeOr(field, n) == 0, full, sliding)
	}
}

// every gives all layers one kind.
func every(kind string) func(*reader, int) string {
	return func(*reader, int) string { return kind }
}

// layerEntry is what a list has for layer i. A list without an entry for each layer is an error, and has none.
func layerEntry[T any](r *reader, name string, list []T, i int) (v T, ok bool) {
	if len(list) != r.layers {
		r.fail("%s has %d entries for %d layers", r.name(name), len(list), r.layers)
		return v, false
	}
	return list[i], true
}

// listedFFN looks a layer's feed-forward up in mlp_layer_types.
func (r *reader) listedFFN(i int) (string, bool) {
	if !r.has("mlp_layer_types") {
		return "", false
	}
	kind, ok := layerEntry(r, "mlp_layer_types", r.listOf("mlp_layer_types"), i)
	if ok && kind != "dense" && kind != "sparse" {
		r.fail("mlp_layer_types[%d] is %s; want \"dense\" or \"sparse\"", i, quote(kind))
	}
	return map[string]string{"dense": "mlp", "sparse": "moe"}[kind], true
}

// listOf reads a list of texts once.
func (r *reader) listOf(name string) []string { return memoized(&r.lists, name, r.texts) }

// numbersOf reads a list of whole numbers once.
func (r *reader) numbersOf(name string) []int { return memoized(&r.numbers, name, r.wholes) }

// memoized is a list that is read the first time it is asked for.
func memoized[T any](lists *map[string][]T, name string, read func(string) []T) []T {
	list, ok := (*lists)[name]
	if !ok {
		if list = read(name); *lists == nil {
			*lists = map[string][]T{}
		}
		(*lists)[name] = list
	}
	return list
}

// sparseAfterDense gives all but the first layers experts (DeepSeek): by
// mlp_layer_types, or first_k_dense_replace and moe_layer_freq, which is a
// distance or a list of zeros and ones. Without experts all layers are dense.
func sparseAfterDense(r *reader, i int) string {
	if ffn, ok := r.listedFFN(i); ok {
		return ffn
	}
	if v, _, found := r.look("num_experts"); v == nil && found {
		return "mlp"
	}
	if v, _, _ := r.look("moe_layer_freq"); v != nil {
		if _, isList := v.([]any); isList {
			return r.marked("moe_layer_freq", i)
		}
	}
	return choose(i < r.countOr("first_k_dense_replace", 0) || i%r.sizeOr("moe_layer_freq", 1) != 0, "mlp", "moe")
}

// marked looks layer i up in a list with a 1 for each MoE layer.
func (r *reader) marked(name string, i int) string {
	mark, ok := layerEntry(r, name, r.numbersOf(name), i)
	if !ok {
		return ""
	}
	return choose(mark != 0, "moe", "mlp")
}

// sparseStep gives every decoder_sparse_step-th layer experts, but for those
// in mlp_only_layers (Qwen2-MoE).
func sparseStep(r *reader, i int) string {
	if ffn, ok := r.listedFFN(i); ok {
		return ffn
	}
	if slices.Contains(r.numbersOf("mlp_only_layers"), i) {
		return "mlp"
	}
	return choose(!r.hasExperts() || (i+1)%r.sizeOr("decoder_sparse_step", 1) != 0, "mlp", "moe")
}

// hasExperts reports whether there are experts; a config of a MoE model must say so.
func (r *reader) hasExperts() bool {
	if v, as, found := r.look("num_experts"); v == nil && !found {
		r.fail("%s is missing; want the number of experts, or 0", as)
	}
	return r.countOr("num_experts", 0) > 0
}

// sparsePeriod gives one of each period of layers experts (Jamba).
func sparsePeriod(r *reader, i int) string {
	period, offset := r.size("expert_layer_period"), r.countOr("expert_layer_offset", 0)
	return choose(r.size("num_experts") > 1 && i%period == offset, "moe", "mlp")
}
