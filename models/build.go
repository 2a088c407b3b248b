package models

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
)

// model builds the whole shape; r.err says whether it may be used.
func (r *reader) model() *Model {
	r.hidden = r.size("hidden_size")
	r.layers = r.size("num_hidden_layers")
	if r.layers > maxLayers {
		r.fail("%s is %d; at most %d layers are read", r.name("num_hidden_layers"), r.layers, maxLayers)
	}
	m := &Model{
		Family:     r.modelType,
		Vocab:      r.size("vocab_size"),
		Hidden:     r.hidden,
		MaxContext: r.context(),
		TiedHead:   r.flag("tie_word_embeddings"),
	}
	if r.err != nil {
		r.knownActivation()
		r.knownWindow()
		if r.has("quantization_config") && r.mlx() == nil {
			r.quantization()
		}
		return m
	}
	m.Embedding = r.embedding()
	m.Layers, m.Order = r.layerKinds()
	if r.embed.final != "-" {
		m.FinalNorms = []Norm{r.norms.shape.norm("norm", r.hidden, 0)}
	}
	m.Head = Linear{Name: "lm_head", In: m.Embedding.Width, Out: m.Vocab, Bias: r.on(r.embed.headBias)}
	r.stored(m)
	if r.amend != nil {
		r.amend(r, m)
	}
	m.Rotary = r.rotaries(m)
	m.Notes = append(m.Notes, r.notes...)
	r.noteDraft(m)
	r.refuseUnread(m)
	r.knownActivation()
	r.knownWindow()
	return m
}

// context is how many tokens the positions reach. Rotary positions that are scaled reach further by the factor, as vLLM
// works it out (_get_and_verify_max_len), but never less than the config states; Llama 3.1's and LongRoPE's configs state the number that
// they reach, and so do Gemma 3's.
func (r *reader) context() int {
	most := r.countOr("max_position_embeddings", 0)
	v, as, _ := r.look("rope_parameters")
	if v != nil && !isObject(v) {
		r.fail("%s is %s; want an object with a rope_type, or null", as, kindOf(v))
	}
	rope, _ := v.(map[string]any)
	kind := rope["rope_type"]
	if kind == nil {
		kind = rope["type"]
	}
	if rope["factor"] == nil || strings.HasPrefix(r.types[0], "gemma3") {
		return most
	}
	reach := most
	switch kind {
	case "yarn":
		if n := rope["original_max_position_embeddings"]; n != nil {
			reach = r.whole(n, as+".original_max_position_embeddings", 1, maxSize)
		}
	case "linear", "dynamic":
	default:
		return most
	}
	return max(most, int(min(float64(reach)*r.fraction(rope["factor"], as+".factor"), maxSize)))
}

// noteDraft counts the draft (MTP) layers that checkpoints have, and says where they enter. A config that names their
// number twice has the layers of its checkpoint first, those that the model was trained with second.
func (r *reader) noteDraft(m *Model) {
	var fields []string
	for _, field := range []string{"num_nextn_predict_layers", "num_mtp_modules", "mtp_num_hidden_layers"} {
		if n := r.countOr(field, 0); n > 0 {
			m.Drafts, fields = cmp.Or(m.Drafts, n), append(fields, field)
		}
	}
	said := "are counted only under a load with speculation"
	switch {
	case fields == nil:
		return
	case r.draftless:
		m.Drafts, said = 0, "are not counted: published checkpoints have no weights of them"
	}
	m.Notes = append(m.Notes, "the draft (MTP) layers ("+strings.Join(fields, ", ")+") "+said)
}

// embedding reads what comes before the first layer.
func (r *reader) embedding() Embedding {
	e := Embedding{Width: r.hidden}
	if r.embed.positions != "" {
		e.Positions = r.size(r.embed.positions) + r.embed.offset
	}
	for _, name := range r.embed.norms {
		e.Norms = append(e.Norms, r.norms.shape.norm(name, r.hidden, 0))
	}
	return e
}

// layerKinds groups the layers by kind, in order of first appearance, and says of
// each layer which kind it is of.
func (r *reader) layerKinds() (layers []Layer, order []int) {
	seen := make(map[kind]int)
	for _, k := range r.kinds() {
		at, ok := seen[k]
		if !ok {
			at = len(layers)
			seen[k] = at
			blocks := r.layer(k)
			layers = append(layers, Layer{Name: layerName(blocks), Blocks: blocks})
		}
		layers[at].Count++
		order = append(order, at)
		if r.err != nil {
			return layers, order
		}
	}
	return layers, order
}

// kinds asks the plan for the kind of each layer.
func (r *reader) kinds() []kind {
	mixers := r.mixerNames()
	kinds := make([]kind, len(mixers))
	r.readOwn(len(mixers))
	for i, name := range mixers {
		k := kind{mixer: name, ffn: "mlp", own: r.ownOf[i]}
		if r.plan.ffn != nil {
			k.ffn = r.plan.ffn(r, i)
		}
		if r.plan.alter != nil {
			r.plan.alter(r, i, &k)
		}
		kinds[i] = k
		if r.err != nil {
			return nil
		}
	}
	return kinds
}

// mixerNames takes the layer types from the config, or else from the plan.
func (r *reader) mixerNames() []string {
	if r.has("layer_types") {
		types := r.texts("layer_types")
		if len(types) != r.layers {
			r.fail("%s has %d entries for %d layers", r.name("layer_types"), len(types), r.layers)
		}
		for i, name := range types {
			if _, own := r.mixers[name]; !own {
				types[i] = oldLayerTypes(name)
			}
		}
		return types
	}
	types := make([]string, r.layers)
	for i := range types {
		types[i] = "full_attention"
		if r.plan.mixer != nil {
			types[i] = r.plan.mixer(r, i)
		}
	}
	return types
}

// readOwn reads per_layer_config of transformers 5: the fields of layers, by their numbers, that differ from the others.
func (r *reader) readOwn(layers int) {
	v := r.value("per_layer_config")
	all, ok := v.(map[string]any)
	if v != nil && !ok {
		r.fail("per_layer_config is %s; want an object", kindOf(v))
	}
	r.own, r.ownOf = make(map[string]map[string]any), make(map[int]string)
	for key, v := range all {
		i, err := strconv.Atoi(key)
		own, ok := v.(map[string]any)
		if err != nil || i < 0 || i >= layers || !ok {
			r.fail("per_layer_config has the entry %s (%s); want an object by the number of a layer", quote(key), kindOf(v))
			return
		}
		r.ownOf[i] = fmt.Sprint(own) // in the order of the keys
		r.own[r.ownOf[i]] = own
	}
}

func (r *reader) layer(k kind) []Block {
	r.layered = r.own[k.own]
	defer func() { r.layered = nil }()
	build, ok := r.mixers[k.mixer]
	if !ok {
		build, ok = attentions()[k.mixer]
	}
	if !ok {
		r.fail("layer type %s is not understood (known: %s)", quote(k.mixer), strings.Join(r.knownMixers(), ", "))
		return nil
	}
	blocks := build(r, k)
	if len(blocks) > 0 {
		blocks[0].Norms = append(r.streamNorms(r.norms.mixer), blocks[0].Norms...)
	}
	mixed := len(blocks)
	switch k.ffn {
	case "mlp":
		blocks = append(blocks, r.mlp(k))
	case "moe":
		blocks = append(blocks, r.moeBlock(k))
	}
	if len(blocks) > mixed {
		ffn := &blocks[mixed]
		ffn.Norms = append(r.streamNorms(r.norms.ffn), ffn.Norms...)
		ffn.Parallel = mixed > 0 && r.on(r.norms.parallel)
		ffn.Joined = ffn.Parallel && r.norms.joined
	}
	if r.finish != nil {
		blocks = r.finish(r, k, blocks)
	}
	return blocks
}

func (r *reader) streamNorms(names []string) []Norm {
	norms := make([]Norm, 0, len(names))
	for _, name := range names {
		norms = append(norms, r.norms.shape.norm(name, r.hidden, 0))
	}
	return norms
}

func layerName(blocks []Block) string {
	if len(blocks) == 0 {
		return "empty"
	}
	names := make([]string, len(blocks))
	for i, b := range blocks {
		names[i] = b.Name
		if a := b.Attention; a != nil && a.Window > 0 {
			names[i] = "sliding " + b.Name
			if a.Chunked {
				names[i] = "chunked " + b.Name
			}
		}
	}
	return strings.Join(names, " + ")
}

// Limits that keep every product and sum of a shape within an int64 and a
// float64's exact integers: no matrix side above 2^31, no model above 10^15.
const (
	maxSide   = 1 << 31
	maxParams = 1e15
)

// check refuses shapes that are out of all proportion before anything is
// computed from them.
func check(m *Model) error {
	total := 0.0
	var bad error
	add := func(l Linear, times float64) {
		if bad == nil && (l.In < 1 || l.Out < 1 || l.In > maxSide || l.Out > maxSide) {
			bad = fmt.Errorf("%s would be a matrix of %d by %d", l.Name, l.Out, l.In)
		}
		total += float64(l.In) * float64(l.Out) * float64(max(l.Times, 1)) * times
	}
	add(Linear{Name: "embedding", In: m.Embedding.Width, Out: m.Vocab}, 1)
	add(m.Head, 1)
	for _, l := range m.Embedding.Project {
		add(l, 1)
	}
	for layer, b := range m.Blocks() {
		b.each(func(l Linear, copies int, _ float64) { add(l, float64(layer.Count)*float64(copies)) })
		total += float64(b.Extra) * float64(layer.Count)
	}
	if bad == nil && total+float64(m.Embedding.Extra) > maxParams {
		bad = fmt.Errorf("the sizes make %.3g parameters; more than %.0e is a mistake", total, maxParams)
	}
	return bad
}
