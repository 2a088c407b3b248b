package models

// gemmas are Google's families: tied heads, heads wider than hidden/heads,
// norms around each block, layers with and without window in turns.
func gemmas() []family {
	capped := attentionShape{bias: attentionBias, outBias: attentionBias, softcap: "attn_logit_softcapping"}
	pattern := map[string]string{"sliding_window_pattern": "sliding_window_pattern|_sliding_window_pattern"}
	return []family{
		{types: []string{"gemma"}, attn: biased()},
		{types: []string{"gemma2"}, norms: prePostNorm(), attn: capped, plan: layerPlan{mixer: fullEvery("sliding_window_pattern", 2)}},
		{
			types: []string{"vaultgemma"}, norms: normPlan{mixer: []string{"input_layernorm"}, ffn: []string{"pre_feedforward_layernorm"}},
			attn: capped,
			plan: layerPlan{mixer: fullEvery("sliding_window_pattern", 2)},
		},
		{
			types: []string{"gemma3_text", "gemma3"}, names: pattern,
			assume: `{"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096, ` +
				`"max_position_embeddings": 131072}`,
			norms: prePostNorm(),
			attn:  attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes}, softcap: "attn_logit_softcapping"},
			plan:  layerPlan{mixer: fullEvery("sliding_window_pattern", 6)},
		},
	}
}

// layeredGemmas have layers that look up an embedding of their own for each token, and that read caches of earlier ones.
func layeredGemmas() []family {
	return []family{
		{
			types: []string{"gemma3n_text", "gemma3n"},
			assume: `{"vocab_size": 262400, "vocab_size_per_layer_input": 262144, "hidden_size_per_layer_input": 256, "num_attention_heads": 8,
				"num_key_value_heads": 2, "head_dim": 256, "sliding_window": 512, "max_position_embeddings": 32768, "altup_num_inputs": 4,
				"num_kv_shared_layers": 15, "laurel_rank": 64}`,
			norms: prePostNorm(), attn: perHead(), plan: layerPlan{mixer: fullEvery("", 5), alter: gemma3nLayer}, finish: finishGemma3n,
			amend: amendGemma3n,
		},
		{
			types:  []string{"gemma4_text", "gemma4_unified_text"},
			names:  map[string]string{"num_experts_per_tok": "top_k_experts", "num_experts": "num_experts"},
			assume: `{"vocab_size_per_layer_input": 262144, "global_head_dim": 512, "vocab_size": 262144}`, norms: prePostNorm(), attn: perHead(),
			mixers: map[string]mixer{full: globalAttention}, plan: layerPlan{mixer: fullEvery("", 6), alter: gemma4Layer}, finish: finishGemma4,
			amend: amendGemma4,
		},
	}
}

// gemma3nLayer reads the width of each layer and whether it reads the cache of
// an earlier one.
func gemma3nLayer(r *reader, i int, k *kind) {
	sharesCache(r, i, k)
	v, _, _ := r.look("intermediate_size")
	if _, isList := v.([]any); !isList {
		return
	}
	k.width, _ = layerEntry(r, "intermediate_size", r.numbersOf("intermediate_size"), i)
}

// gemma4Layer: layers that read another's cache may be twice as wide.
func gemma4Layer(r *reader, i int, k *kind) {
	sharesCache(r, i, k)
	if k.shared && r.flag("use_double_wide_mlp") {
		k.width = 2 * r.size("intermediate_size")
	}
}

// sharesCache marks the last num_kv_shared_layers layers, which have no keys and values and read
// those of earlier layers.
func sharesCache(r *reader, i int, k *kind) {
	own := r.layers - r.countOr("num_kv_shared_layers", 0)
	k.shared = own > 0 && i >= own || r.has("backbone_hidden_size") // a draft model, which reads the caches of another
}

// finishGemma3n adds the low-rank detour, the predictions of parallel streams
// and the gate for the embedding of each layer (arXiv:2411.07501 for LAuReL,
// arXiv:2301.13310 for AltUp).
func finishGemma3n(r *reader, _ kind, b []Block) []Block {
	streams, rank := r.size("altup_num_inputs"), r.size("laurel_rank")
	b[0].In = append(b[0].In,
		Linear{Name: "laurel_left", In: r.hidden, Out: rank, Split: Replicated},
		Linear{Name: "laurel_right", In: rank, Out: r.hidden, Split: Replicated},
		Linear{Name: "altup_router", In: r.hidden, Out: streams, Split: Replicated})
	b[0].Norms = append(b[0].Norms, scaleOnly.norm("post_laurel_norm", r.hidden, 1), scaleOnly.norm("altup_router_norm", r.hidden, 1))
	b[0].Extra += int64(r.hidden) + r.product("altup_num_inputs", streams, streams) + r.product("altup_num_inputs", streams, streams, streams)
	r.lookupGate(&b[1])
	return b
}

// finishGemma4 adds the experts beside the dense feed-forward, and the gate
// for the embedding of each layer.
func finishGemma4(r *reader, k kind, b []Block) []Block {
	if r.modelType != "gemma4_unified_text" {
		r.lookupGate(&b[1])
	}
	if !r.flag("enable_moe_block") {
		return b
	}
	moe := r.moeBlock(k)
	moe.Norms = r.streamNorms([]string{"post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"})
	moe.Extra += int64(r.hidden) + int64(moe.Experts.Count)
	moe.Parallel = true
	return append(b, moe)
}

// lookupGate adds what takes a layer's own embedding into the stream.
func (r *reader) lookupGate(b *Block) {
	width := r.countOr("hidden_size_per_layer_input", 0)
	if width == 0 {
		return
	}
	b.In = append(b.In, Linear{Name: "per_layer_input_gate", In: r.hidden, Out: width, Split: Replicated})
	b.Out = append(b.Out, Linear{Name: "per_layer_projection", In: width, Out: r.hidden, Split: Replicated})
	b.Norms = append(b.Norms, scaleOnly.norm("post_per_layer_input_norm", r.hidden, 1))
}

// lookupTable adds the table with an embedding of each token for each layer.
func lookupTable(r *reader, m *Model) {
	width := r.countOr("hidden_size_per_layer_input", 0)
	if width == 0 || m.Family == "gemma4_unified_text" {
		return
	}
	all := width * r.layers
	m.Embedding.Extra += r.product("the embeddings of the layers", r.size("vocab_size_per_layer_input"), all)
	m.Embedding.Project = append(m.Embedding.Project, Linear{Name: "per_layer_model_projection", In: r.hidden, Out: all, Split: Replicated})
	m.Embedding.Norms = append(m.Embedding.Norms, scaleOnly.norm("per_layer_projection_norm", width, r.layers))
}

func amendGemma3n(r *reader, m *Model) {
	lookupTable(r, m)
	streams := r.size("altup_num_inputs") - 1
	if streams < 1 {
		return
	}
	m.Embedding.Project = append(m.Embedding.Project,
		Linear{Name: "altup_projections", In: r.hidden, Out: r.hidden, Times: streams, Split: Replicated},
		Linear{Name: "altup_unembed_projections", In: r.hidden, Out: r.hidden, Times: streams, Split: Replicated})
}

// globalAttention has wider heads, and may take its keys for values.
func globalAttention(r *reader, k kind) []Block {
	a := r.heads(k)
	if r.layered["head_dim"] == nil {
		a.KeyDim = r.sizeOr("global_head_dim", a.KeyDim)
	}
	sameKV := r.flag("attention_k_eq_v")
	if sameKV && r.layered["num_key_value_heads"] == nil {
		a.KVHeads = r.sizeOr("num_global_key_value_heads", a.KVHeads)
	}
	r.divide(a.Heads, a.KVHeads, "num_attention_heads", "num_global_key_value_heads")
	a.ValueDim = a.KeyDim
	b := r.attend(k, a)
	if sameKV && !k.shared {
		b.In = b.In[:2] // the keys before their norm are the values
	}
	return []Block{b}
}

// amendGemma4 adds the table of the layers' embeddings and, of a draft model, what leads from the model that it drafts for
// and back to it.
func amendGemma4(r *reader, m *Model) {
	lookupTable(r, m)
	if !r.has("backbone_hidden_size") {
		return
	}
	if r.flag("use_ordered_embeddings") {
		r.fail("use_ordered_embeddings is true; a head that orders its tokens is not understood")
	}
	backbone := r.size("backbone_hidden_size")
	m.Embedding.Project = append(m.Embedding.Project,
		Linear{Name: "pre_projection", In: 2 * backbone, Out: r.hidden, Split: Replicated},
		Linear{Name: "post_projection", In: r.hidden, Out: backbone, Split: Replicated})
	m.Notes = append(m.Notes, "it is a draft model, which reads the caches of the model that it drafts for")
}
