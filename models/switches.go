package models

// The switches that bend a family's description: each reads a field or two of
// its family and says what they change.

// multiQuery gives all heads one key and value if multi_query says so.
func multiQuery(r *reader, _ int, k *kind) {
	if r.flag("multi_query") {
		k.kv = 1
	}
}

// localLayers reads attention_layers of GPT-Neo, or the runs of them that
// attention_types describes: [[["global", "local"], 12]].
func localLayers(r *reader, i int) string {
	names := memoized(&r.lists, "attention_layers", r.attentionRuns)
	if i >= len(names) {
		r.fail("attention_types describe %d layers of %d", len(names), r.layers)
		return full
	}
	return choose(names[i] == "local", sliding, full)
}

func (r *reader) attentionRuns(stated string) (names []string) {
	if r.has(stated) {
		return r.texts(stated)
	}
	for _, v := range r.list("attention_types") {
		run, ok := v.([]any)
		if !ok || len(run) != 2 {
			r.fail("attention_types has the entry %s; want [[names], repeats]", kindOf(v))
			return nil
		}
		pattern, _ := run[0].([]any)
		for range r.whole(run[1], "attention_types", 1, maxLayers) {
			for _, name := range pattern {
				text, _ := name.(string)
				names = append(names, text)
			}
			if len(names) > maxLayers {
				r.fail("attention_types describe more than %d layers", maxLayers)
				return nil
			}
		}
	}
	return names
}

// tuneOPT reads where OPT has its norms, and whether they have weights: the
// 350M model has them after the blocks and none at the end.
func tuneOPT(r *reader) {
	if !r.flag("layer_norm_elementwise_affine") {
		r.norms.shape = weightless
	}
	if !r.flag("do_layer_norm_before") || r.flag("_remove_final_layer_norm") {
		r.embed.final = "-"
	}
}

// projectEmbedding widens a narrow embedding to the residual stream and
// narrows it again for the head (OPT-350M).
func projectEmbedding(r *reader, m *Model) {
	width := r.sizeOr("embedding_size", r.hidden)
	if width == r.hidden {
		return
	}
	m.Embedding.Width = width
	m.Embedding.Project = []Linear{
		{Name: "project_in", In: width, Out: r.hidden, Split: Replicated},
		{Name: "project_out", In: r.hidden, Out: width, Split: Replicated},
	}
	m.Head.In = width
}

// tuneFalcon reads which of Falcon's three arrangements the config means.
func tuneFalcon(r *reader) {
	norms := 1
	if !r.flag("parallel_attn") {
		norms = 2
	}
	if r.flag("new_decoder_architecture") {
		norms = r.sizeOr("num_ln_in_parallel_attn", 2)
	}
	r.norms = normPlan{shape: scaleAndShift, mixer: []string{"ln_attn"}, parallel: "parallel_attn", joined: true}
	if r.flag("new_decoder_architecture") {
		r.norms.parallel = yes
	}
	if norms == 2 {
		r.norms.ffn = []string{"ln_mlp"}
	}
	if r.flag("alibi") {
		r.attn.positions = alibi
	}
}

// falconHeads: one key and value for all heads, or one for each, unless the
// new architecture gives their number.
func falconHeads(r *reader, _ int, k *kind) {
	switch {
	case r.flag("new_decoder_architecture"):
	case r.flag("multi_query"):
		k.kv = 1
	default:
		k.kv = r.size("num_attention_heads")
	}
}

func tuneMPT(r *reader) {
	r.ffn.times = r.size("expansion_ratio")
	if v, ok := r.dig("attn_config.alibi"); ok && v == false {
		r.attn.positions = unrotated
	}
	if v, ok := r.dig("attn_config.qk_ln"); ok && v == true {
		r.attn.norms = headNorms{on: yes, scope: wholeHead}
	}
	if !r.flag("no_bias") {
		r.fail("no_bias is false; an MPT with biases is not understood")
	}
	if r.attn.positions == unrotated {
		r.embed.positions = "max_position_embeddings"
	}
}

// amendCPMAnt adds the tables of CPM-Ant: rows for its prompts, segments, and
// the buckets of its relative positions.
func amendCPMAnt(r *reader, m *Model) {
	segments, heads := r.size("segment_types"), r.size("num_attention_heads")
	m.TiedHead = false // the embedding has more rows than the head
	m.Embedding.Extra = r.product("the prompts", r.size("prompt_types"), r.size("prompt_length"), r.hidden) +
		r.product("the segments", segments, r.hidden) + r.product("the positions", segments, segments, heads) +
		r.product("the positions", r.size("position_bias_num_buckets"), heads)
}
