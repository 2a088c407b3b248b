package models

// The families whose code came with their checkpoints on the hub, or that have since got classes of other names.

// remoteLlamas are Llama with other names and biases.
func remoteLlamas() []family {
	return []family{
		{types: []string{"internlm2"}, attn: attentionShape{bias: "bias", outBias: "bias"}},
		{types: []string{"internlm"}, assume: `{"bias": true}`, attn: attentionShape{bias: "bias", outBias: "bias"}},
		{types: []string{"internlm3"}, attn: attentionShape{bias: "qkv_bias", outBias: "bias"}, ffn: ffnShape{bias: "bias"}},
		{
			types: []string{"baichuan"}, names: map[string]string{"max_position_embeddings": "max_position_embeddings"},
			tune: func(r *reader) {
				// The 13B models take ALiBi and state no limit of positions.
				if !r.has("max_position_embeddings") {
					r.attn.positions = alibi
					r.fields.names["max_position_embeddings"] = []string{"model_max_length"}
				}
			},
		},
		{
			types:  []string{"qwen"},
			names:  map[string]string{"head_dim": "kv_channels", "max_position_embeddings": "seq_length|max_position_embeddings"},
			assume: `{"no_bias": true}`, attn: attentionShape{bias: yes, outBias: "!no_bias"}, ffn: ffnShape{bias: "!no_bias"},
			// The first Qwen states the width of gate and values together.
			plan: layerPlan{alter: halfWidth},
		},
		{types: []string{"exaone"}, names: map[string]string{"num_hidden_layers": "num_layers|num_hidden_layers"}},
		{
			types: []string{"minicpm"}, assume: tied, attn: biased(),
			tune: func(r *reader) {
				if n := r.countOr("num_experts", 0); n > 0 {
					r.fail("num_experts is %d; MiniCPM's mixture is not understood", n)
				}
			},
		},
		{types: []string{"xverse"}},
		{types: []string{"mimo"}, attn: attentionShape{bias: yes}, plan: layerPlan{mixer: slidingAbove}},
		{types: []string{"hunyuan_v1_dense"}, attn: perHead()},
	}
}

// remoteClassics have LayerNorms or biases of before.
func remoteClassics() []family {
	return []family{
		{
			types: []string{"chatglm"},
			names: map[string]string{
				"num_hidden_layers": "num_layers", "intermediate_size": "ffn_hidden_size", "num_key_value_heads": "multi_query_group_num",
				"vocab_size": "padded_vocab_size|vocab_size", "head_dim": "kv_channels", "max_position_embeddings": "seq_length",
			},
			assume: `{"partial_rotary_factor": 0.5, "add_qkv_bias": true}`, attn: attentionShape{bias: "add_qkv_bias", outBias: "add_bias_linear"},
			ffn: ffnShape{bias: "add_bias_linear"}, tune: tuneChatGLM,
		},
		{types: []string{"orion"}, norms: preNorm(scaleAndShift)},
		{
			types: []string{"phi3small"}, names: map[string]string{"intermediate_size": "ff_intermediate_size"}, assume: tied,
			norms: preNorm(scaleAndShift), attn: attentionShape{bias: yes, outBias: yes}, ffn: ffnShape{bias: yes},
			tune: func(r *reader) {
				r.notes = append(r.notes, "layers of block-sparse attention are counted as reading the whole context")
			},
		},
		{
			types: []string{"phi-msft"}, names: map[string]string{"intermediate_size": "n_inner", "num_key_value_heads": "n_head_kv"},
			norms: normPlan{shape: scaleAndShift, mixer: []string{"ln"}, parallel: yes}, ffn: quadruple(),
			attn: attentionShape{bias: yes, outBias: yes}, embed: embedShape{headBias: yes},
		},
	}
}

// remoteMoE have experts, or layers of many widths.
func remoteMoE() []family {
	return []family{
		{
			types: []string{"deepseek"}, assume: `{"first_k_dense_replace": 0}`, attn: biased(), moe: moeShape{shared: sharedCount},
			plan: layerPlan{ffn: sparseAfterDense},
		},
		{
			types: []string{"dbrx"},
			names: map[string]string{
				"num_key_value_heads": "attn_config.kv_n_heads", "moe_intermediate_size": "ffn_config.ffn_hidden_size",
				"num_experts": "ffn_config.moe_num_experts", "num_experts_per_tok": "ffn_config.moe_top_k",
			},
			plan: always(),
		},
		{
			types: []string{"hunyuan_v1_moe"}, names: map[string]string{"num_experts_per_tok": "moe_topk"}, attn: perHead(),
			moe: moeShape{width: "intermediate_size", shared: sharedExpert}, plan: always(),
			tune: func(r *reader) { r.uniform("num_experts", "num_experts_per_tok", "intermediate_size") },
		},
		{
			types: []string{"openelm"},
			names: map[string]string{"hidden_size": "model_dim", "num_hidden_layers": "num_transformer_layers",
				"max_position_embeddings": "max_context_length", "tie_word_embeddings": "share_input_output_layers"},
			assume: `{"share_input_output_layers": true, "num_attention_heads": 1, "ffn_with_glu": true}`,
			attn:   attentionShape{norms: headNorms{on: "normalize_qk_projections"}}, tune: func(r *reader) {
				r.ffn.ungated = !r.flag("ffn_with_glu")
			},
			plan: layerPlan{alter: openELMLayer},
		},
		{
			types: []string{"nemotron-nas"}, assume: `{"num_key_value_heads": null}`, attn: biased(), ffn: ffnShape{bias: "mlp_bias"},
			mixers: map[string]mixer{"none": func(*reader, kind) []Block { return nil }}, plan: layerPlan{alter: searchedLayer},
		},
	}
}

// tuneChatGLM refuses the first ChatGLM, which is another architecture, and
// gives each head its own key unless multi_query_attention is on.
func tuneChatGLM(r *reader) {
	if r.has("inner_hidden_size") {
		r.fail("inner_hidden_size is there: the first ChatGLM with its two-dimensional positions is not understood")
	}
	if !r.flag("multi_query_attention") {
		r.fields.names["num_key_value_heads"] = []string{"num_attention_heads"}
	}
	if v, _, found := r.look("rmsnorm"); found && v == false {
		r.norms.shape = scaleAndShift
	}
}

// uniform replaces lists with one entry a layer, all the same, by that entry.
func (r *reader) uniform(names ...string) {
	for _, name := range names {
		v, as, _ := r.look(name)
		if _, isList := v.([]any); !isList {
			continue
		}
		list := r.wholes(name)
		if len(list) == 0 {
			r.fail("%s is an empty list", as)
			return
		}
		for _, n := range list {
			if n != list[0] {
				r.fail("%s differs between layers (%d and %d); one figure for all is understood", as, list[0], n)
				return
			}
		}
		r.set(name, asNumber(list[0]))
	}
}

// openELMLayer reads the heads of each layer and the multiple of the stream's
// width that its feed-forward is wide (OpenELM, arXiv:2404.14619, section 2.1).
func openELMLayer(r *reader, i int, k *kind) {
	heads, kv := r.numbersOf("num_query_heads"), r.numbersOf("num_kv_heads")
	multipliers := r.list("ffn_multipliers")
	if len(heads) != r.layers || len(kv) != r.layers || len(multipliers) != r.layers {
		r.fail("num_query_heads, num_kv_heads and ffn_multipliers have %d, %d and %d entries for %d layers",
			len(heads), len(kv), len(multipliers), r.layers)
		return
	}
	k.heads, k.kv = heads[i], kv[i]
	multiplier := r.fraction(multipliers[i], "ffn_multipliers")
	k.width = nearestMultiple(multiplier*float64(r.hidden), r.sizeOr("ffn_dim_divisor", 256))
}

// nearestMultiple rounds v to a multiple of n, but never down by more than a tenth.
func nearestMultiple(v float64, n int) int {
	rounded := max(n, int(v+float64(n)/2)/n*n)
	if float64(rounded) < 0.9*v {
		rounded += n
	}
	return rounded
}

// searchedLayer reads one of the block_configs that a search found for each
// layer (Nemotron-NAS): heads a group, feed-forward width, or nothing at all.
func searchedLayer(r *reader, i int, k *kind) {
	config, ok := layerEntry(r, "block_configs", r.list("block_configs"), i)
	if !ok {
		return
	}
	block, _ := config.(map[string]any)
	field := func(path string) any {
		v, _ := dig(block, path)
		return v
	}
	if field("attention.replace_with_linear") == true || field("ffn.replace_with_linear") == true {
		r.fail("block_configs[%d] replaces a block with a linear one, which is not understood", i)
	}
	if field("attention.no_op") == true {
		k.mixer = "none"
	} else {
		group := r.whole(field("attention.n_heads_in_group"), "block_configs attention.n_heads_in_group", 1, maxSize)
		k.kv = r.divide(r.size("num_attention_heads"), group, "num_attention_heads", "n_heads_in_group")
	}
	if field("ffn.no_op") == true {
		k.ffn = ""
		return
	}
	multiple := r.fraction(field("ffn.ffn_mult"), "block_configs ffn.ffn_mult")
	k.width = (int(2*multiple*float64(r.hidden)/3) + 255) / 256 * 256
}
