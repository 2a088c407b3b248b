// Package compat reads the experiment files of other tools: those of LLM Energy Measure
// (its schema 2.0.0). A name that has one setting here is renamed in each file, so that
// files of both kinds can extend each other. Names whose meaning takes several of them
// together are read after the files are joined (groups.go). Of each that has no effect
// here a warning says why; none is passed over.
package compat

import (
	"maps"
	"slices"
	"strings"

	"llmprof/internal/fileerror"
	"llmprof/internal/spelling"
	"llmprof/internal/tree"
)

// The engines of a point that their files can mean.
const (
	transformers = "transformers"
	openAI       = "openai"
)

// A Translator turns other names into those of the settings here. Wrong and Warn take
// what it finds.
type Translator struct {
	Wrong func(m *fileerror.Error)
	Warn  func(at tree.Place, format string, args ...any)
}

// renamed is the setting that a name stands for.
type renamed struct {
	to     string            // the setting here
	values map[string]string // names of the value, where they differ
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
		"backend":           {to: "engine", values: map[string]string{"pytorch": transformers}, refuse: serverBackends()},
	}
}

func serverBackends() map[string]string {
	return map[string]string{
		"vllm": `vLLM is measured as the server that it is: engine = "openai", engine_cmd = "vllm serve MODEL", base_url = ` +
			`"http://localhost:8000/v1"`,
		"tensorrt": `TensorRT-LLM is measured as the server that it is: engine = "openai", engine_cmd = "trtllm-serve MODEL", base_url = ` +
			`"http://localhost:8000/v1"`,
	}
}

// A void is a name that has no effect here.
type void struct {
	why   string
	harm  string // what is wrong with values that are not plain; "" if nothing is
	plain []any  // values that ask for what is done anyway
}

func voids() map[string]void {
	return map[string]void{
		"is_encoder_decoder":   {why: "every model here is a decoder", harm: "encoder-decoder models are not measured", plain: []any{false}},
		"task_type":            {why: "a task does not change what a token costs; it is in the prompts", plain: []any{"text_generation"}},
		"inference_type":       {why: "reasoning tokens are generated tokens; give gen_len", plain: []any{"pure_generative"}},
		"min_output_tokens":    {why: "exactly gen_len tokens are generated for each prompt"},
		"decode_token_to_text": {why: "detokenizing is no part of the model's time; save_outputs keeps the tokens"},
		"cycle_id":             {why: "cycles are counted by the runner; give cycles = N for N repeats"},
	}
}

// File renames what a file has by its other name.
func (t *Translator) File(n *tree.Node) {
	for _, part := range []string{"points", "exclude"} {
		if list := n.Get(part); list != nil {
			for _, item := range list.Items {
				t.rename(item)
			}
		}
	}
	if grid := n.Get("grid"); grid != nil {
		t.rename(grid)
	}
	t.rename(n)
}

func (t *Translator) rename(n *tree.Node) {
	for _, old := range slices.Sorted(maps.Keys(renames())) {
		t.renameKey(n, old, renames()[old])
	}
	if b := n.Get("batching_options"); b != nil && b.Kind == tree.TableKind {
		if size := b.Take("batch_size"); size != nil {
			t.become(n, "batching_options.batch_size", tree.Pair{Key: "batch", At: size.At, Value: size})
		}
	}
}

func (t *Translator) renameKey(n *tree.Node, old string, to renamed) {
	i := slices.IndexFunc(n.Pairs, func(p tree.Pair) bool { return p.Key == old })
	if i < 0 {
		return
	}
	p := n.Pairs[i]
	n.Take(old)
	p.Key = to.to
	p.Value = t.revalue(old, p.Value, to)
	p.Value.Legacy = true
	t.become(n, old, p)
}

// become gives n a setting unless it has it by its own name.
func (t *Translator) become(n *tree.Node, old string, p tree.Pair) {
	if n.Get(p.Key) != nil {
		t.Wrong(p.At.Errorf("%s is %s here, which is given too: leave one of them out", old, p.Key))
		return
	}
	n.Pairs = append(n.Pairs, p)
}

// revalue translates a value, or each of a list of them.
func (t *Translator) revalue(old string, v *tree.Node, to renamed) *tree.Node {
	if to.values == nil {
		return v
	}
	if v.Kind == tree.ListKind {
		list := &tree.Node{At: v.At, Kind: tree.ListKind}
		for _, item := range v.Items {
			list.Items = append(list.Items, t.revalue(old, item, to))
		}
		return list
	}
	text, ok := v.Scalar.(string)
	if !ok {
		return v
	}
	if why, ok := to.refuse[text]; ok {
		t.Wrong(v.At.Errorf("%s: %q: %s", old, text, why))
		return &tree.Node{At: v.At, Scalar: to.values["pytorch"]}
	}
	if ours, ok := to.values[text]; ok {
		return &tree.Node{At: v.At, Scalar: ours}
	}
	known := slices.Sorted(maps.Keys(to.values))
	t.Wrong(v.At.Errorf("%s: %q; %s", old, text, spelling.Hint(text, known)))
	return v
}

// without removes the names that have no effect from n.
func (t *Translator) without(n *tree.Node) {
	for _, p := range slices.Clone(n.Pairs) {
		v, ok := voids()[p.Key]
		if !ok {
			continue
		}
		n.Take(p.Key)
		if v.harm != "" && !slices.Contains(v.plain, p.Value.Scalar) {
			t.Wrong(p.Value.At.Errorf("%s: %s: %s", p.Key, p.Value.What(), v.harm))
			continue
		}
		t.Warn(p.At, "%s has no effect: %s", p.Key, v.why)
	}
}

// members removes one of the other tool's tables from n and checks its keys. A known key that ends in * stands for all that begin so.
func (t *Translator) members(n *tree.Node, key string, known ...string) *tree.Node {
	table := n.Take(key)
	if table == nil {
		return nil
	}
	if table.Kind != tree.TableKind {
		t.Wrong(table.At.Errorf("%s: %s: want a table", key, table.What()))
		return nil
	}
	for _, p := range table.Pairs {
		is := func(name string) bool {
			start, open := strings.CutSuffix(name, "*")
			return name == p.Key || open && strings.HasPrefix(p.Key, start)
		}
		if !slices.ContainsFunc(known, is) {
			t.Wrong(p.At.Errorf("%s.%s is not known; %s", key, p.Key, spelling.Hint(
				p.Key, slices.DeleteFunc(slices.Clone(known), func(name string) bool { return strings.HasSuffix(name, "*") }))))
		}
	}
	return table
}

// truth reads a member that is true or false.
func (t *Translator) truth(n *tree.Node, of, key string) bool {
	v := n.Get(key)
	if v == nil {
		return false
	}
	b, ok := v.Scalar.(bool)
	if !ok {
		t.Wrong(v.At.Errorf("%s: %s: want true or false", of+"."+key, v.What()))
	}
	return b
}
