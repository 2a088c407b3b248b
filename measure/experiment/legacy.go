package experiment

import (
	"fmt"
	"maps"
	"slices"

	"llmprof/measure/spelling"
)

// The names of LLM Energy Measure's experiment files (its schema 2.0.0) are read
// too. Those that have one setting here are renamed in each file, so that files
// of both kinds can extend each other; those whose meaning takes several of them
// together are read after the files are joined (legacy_groups.go). Of each that
// has no effect here a warning says why; none is passed over.

// renamed is what became of a name.
type renamed struct {
	to     string            // the setting here
	values map[string]string // of the value, where they differ
	refuse map[string]string // values that cannot be meant here, and what to do instead
}

// renames lists the names that have one setting here.
func renames() map[string]renamed {
	return map[string]renamed{
		"_extends":          {to: "extends"},
		"config_name":       {to: "name"},
		"model_name":        {to: "model"},
		"max_input_tokens":  {to: "prompt_len"},
		"max_output_tokens": {to: "gen_len"},
		"gpu_list":          {to: "gpus"},
		"num_processes":     {to: "replicas"},
		"query_rate":        {to: "request_rate_hz"},
		"extra_metadata":    {to: "metadata"},
		"fp_precision":      {to: "dtype", values: map[string]string{"float16": "fp16", "float32": "fp32", "bfloat16": "bf16"}},
		"backend":           {to: "engine", values: map[string]string{"pytorch": Transformers}, refuse: serverBackends()},
	}
}

func serverBackends() map[string]string {
	return map[string]string{
		"vllm":     `vLLM is measured as the server that it is: engine = "openai", engine_cmd = "vllm serve MODEL", base_url = "http://localhost:8000/v1"`,
		"tensorrt": `TensorRT-LLM is measured as the server that it is: engine = "openai", engine_cmd = "trtllm-serve MODEL", base_url = "http://localhost:8000/v1"`,
	}
}

// A void is a name without effect here.
type void struct {
	why   string
	harm  string // what is wrong with values that are not plain; "" if nothing is
	plain []any  // values that ask for what is done anyway
}

// voids lists them.
func voids() map[string]void {
	return map[string]void{
		"is_encoder_decoder":   {why: "every model here is a decoder", harm: "encoder-decoder models are not measured", plain: []any{false}},
		"task_type":            {why: "a task does not change what a token costs; the prompts carry it", plain: []any{"text_generation"}},
		"inference_type":       {why: "reasoning tokens are generated tokens; give gen_len", plain: []any{"pure_generative"}},
		"min_output_tokens":    {why: "exactly gen_len tokens are generated for each prompt"},
		"decode_token_to_text": {why: "detokenizing is no part of the model's time; save_outputs keeps the tokens"},
		"cycle_id":             {why: "cycles are counted by the runner; give cycles = N for N repeats"},
	}
}

// translate renames what a file has by its other name.
func (r *reader) translate(n *node) {
	for _, part := range []string{"points", "exclude"} {
		if list := n.get(part); list != nil {
			for _, item := range list.items {
				r.rename(item)
			}
		}
	}
	if grid := n.get("grid"); grid != nil {
		r.rename(grid)
	}
	r.rename(n)
}

func (r *reader) rename(n *node) {
	for _, old := range slices.Sorted(maps.Keys(renames())) {
		r.renameKey(n, old, renames()[old])
	}
	if b := n.get("batching_options"); b != nil && b.kind == tableKind {
		if size := b.take("batch_size"); size != nil {
			r.become(n, "batching_options.batch_size", pair{"batch", size.at, size})
		}
	}
}

func (r *reader) renameKey(n *node, old string, to renamed) {
	i := slices.IndexFunc(n.pairs, func(p pair) bool { return p.key == old })
	if i < 0 {
		return
	}
	p := n.pairs[i]
	n.take(old)
	p.key = to.to
	p.value = r.revalue(old, p.value, to)
	p.value.legacy = true
	r.become(n, old, p)
}

// become gives n a setting unless it has it by its own name.
func (r *reader) become(n *node, old string, p pair) {
	if n.get(p.key) != nil {
		r.wrong(p.at.mistake("%s is %s here, which is given too: leave one of them out", old, p.key))
		return
	}
	n.pairs = append(n.pairs, p)
}

// revalue translates a value, or each of a list of them.
func (r *reader) revalue(old string, v *node, to renamed) *node {
	if to.values == nil {
		return v
	}
	if v.kind == listKind {
		list := &node{at: v.at, kind: listKind}
		for _, item := range v.items {
			list.items = append(list.items, r.revalue(old, item, to))
		}
		return list
	}
	text, ok := v.scalar.(string)
	if !ok {
		return v
	}
	if why, ok := to.refuse[text]; ok {
		r.wrong(v.at.mistake("%s: %q: %s", old, text, why))
		return &node{at: v.at, scalar: to.values["pytorch"]}
	}
	if ours, ok := to.values[text]; ok {
		return &node{at: v.at, scalar: ours}
	}
	known := slices.Sorted(maps.Keys(to.values))
	r.wrong(v.at.mistake("%s: %q; %s", old, text, spelling.Hint(text, known)))
	return v
}

// without takes the names without effect off n.
func (r *reader) without(n *node) {
	for _, p := range slices.Clone(n.pairs) {
		v, ok := voids()[p.key]
		if !ok {
			continue
		}
		n.take(p.key)
		if v.harm != "" && !slices.Contains(v.plain, p.value.scalar) {
			r.wrong(p.value.at.mistake("%s: %s: %s", p.key, p.value.what(), v.harm))
			continue
		}
		r.warn(p.at, "%s has no effect: %s", p.key, v.why)
	}
}

// members takes a table of theirs off n and checks its keys.
func (r *reader) members(n *node, key string, known ...string) *node {
	table := n.take(key)
	if table == nil {
		return nil
	}
	if table.kind != tableKind {
		r.wrong(table.at.mistake("%s: %s: want a table", key, table.what()))
		return nil
	}
	for _, p := range table.pairs {
		if !slices.Contains(known, p.key) {
			r.wrong(p.at.mistake("%s.%s is not known; %s", key, p.key, spelling.Hint(p.key, known)))
		}
	}
	return table
}

// truth reads a member that is true or false.
func (r *reader) truth(n *node, of, key string) bool {
	v := n.get(key)
	if v == nil {
		return false
	}
	b, ok := v.scalar.(bool)
	if !ok {
		r.wrong(v.at.mistake("%s: %s: want true or false", fmt.Sprintf("%s.%s", of, key), v.what()))
	}
	return b
}
