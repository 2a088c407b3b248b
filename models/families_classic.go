package models

// The families from before Llama, and those that kept their LayerNorms, biases and feed-forwards without gate.

// gpts come from GPT and GPT-2.
func gpts() []family {
	return []family{
		{
			types: []string{"gpt2", "gpt-sw3"}, names: gptNames(), assume: tied, norms: preNorm(scaleAndShift), attn: learned(), ffn: quadruple(),
			embed: embedShape{positions: "max_position_embeddings"},
		},
		{
			types: []string{"openai-gpt"}, norms: preNorm(scaleAndShift), attn: learned(), ffn: quadruple(),
			embed: embedShape{positions: "max_position_embeddings", final: "-"},
		},
		{
			types: []string{"gpt_bigcode"}, names: gptNames(), norms: preNorm(scaleAndShift), attn: learned(), ffn: quadruple(),
			embed: embedShape{positions: "max_position_embeddings"}, plan: layerPlan{alter: multiQuery},
		},
		{
			types: []string{"gpt_neo"},
			names: map[string]string{"num_attention_heads": "num_heads", "sliding_window": "window_size", "num_hidden_layers": "num_layers"},
			norms: preNorm(scaleAndShift), ffn: quadruple(), attn: attentionShape{outBias: yes, positions: unrotated},
			embed: embedShape{positions: "max_position_embeddings"}, plan: layerPlan{mixer: localLayers},
		},
		{
			types: []string{"ctrl"},
			names: map[string]string{"hidden_size": "n_embd", "intermediate_size": "dff", "max_position_embeddings": "n_positions"},
			norms: preNorm(scaleAndShift), attn: learned(), ffn: ungated(), embed: embedShape{headBias: yes},
		},
		{
			types: []string{"cpmant"}, names: map[string]string{"intermediate_size": "dim_ff", "head_dim": "dim_head"},
			attn: attentionShape{positions: unrotated}, amend: amendCPMAnt,
		},
	}
}

// parallels let attention and feed-forward add to one sum, or may.
func parallels() []family {
	return []family{
		{
			types: []string{"gpt_neox"}, assume: `{"rotary_pct": 0.25}`,
			norms: normPlan{shape: scaleAndShift, mixer: []string{"input_layernorm"}, ffn: []string{"post_attention_layernorm"},
				parallel: "use_parallel_residual"},
			attn: biased(), ffn: ungated(),
		},
		{
			types: []string{"gpt_neox_japanese"}, norms: preNorm(scaleAndShift), ffn: ffnShape{ungated: true},
			tune: func(r *reader) { r.ffn.times = r.size("intermediate_multiple_size") },
			// Only the last layer's attention has a bias.
			amend: func(r *reader, m *Model) { m.Embedding.Extra += int64(r.hidden) },
		},
		{types: []string{"gptj", "codegen"}, names: gptNames(), norms: oneNorm(), ffn: quadruple(), embed: embedShape{headBias: yes}},
		{
			types: []string{"phi"}, norms: oneNorm(), ffn: ungated(),
			attn:  attentionShape{bias: yes, outBias: yes, norms: headNorms{on: "qk_layernorm", shape: scaleAndShift}},
			embed: embedShape{headBias: yes},
		},
		{
			types: []string{"falcon", "RefinedWeb", "RefinedWebModel"},
			names: map[string]string{
				"intermediate_size": "ffn_hidden_size", "num_key_value_heads": "num_kv_heads|n_head_kv",
				"num_hidden_layers": "num_hidden_layers|n_layer", "num_attention_heads": "num_attention_heads|n_head",
			},
			assume: `{"tie_word_embeddings": true, "multi_query": true, "parallel_attn": true, "max_position_embeddings": 2048}`,
			ffn:    ffnShape{ungated: true, bias: "bias", times: 4}, attn: attentionShape{bias: "bias", outBias: "bias"},
			norms: preNorm(scaleAndShift),
			tune:  tuneFalcon, plan: layerPlan{alter: falconHeads},
		},
		{
			types: []string{"cohere", "cohere_compass_text"}, norms: normPlan{mixer: []string{"input_layernorm"}, parallel: yes, joined: true},
			attn: attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: "use_qk_norm", scope: ownHead}},
		},
		{
			types: []string{"cohere2"},
			names: map[string]string{"sliding_window_pattern": "sliding_window_pattern|_sliding_window_pattern|layer_switch"},
			norms: normPlan{mixer: []string{"input_layernorm"}, parallel: yes, joined: true}, attn: biased(),
			plan: layerPlan{mixer: fullEvery("sliding_window_pattern", 4), alter: unrotatedFull},
		},
		{
			types: []string{"stablelm", "stablelm_epoch"}, names: map[string]string{"partial_rotary_factor": "partial_rotary_factor|rope_pct"},
			assume: `{"partial_rotary_factor": 0.25}`, norms: preNorm(scaleAndShift),
			attn: attentionShape{bias: "use_qkv_bias", norms: headNorms{on: "qk_layernorm", scope: ownHead}},
			tune: func(r *reader) {
				if r.flag("use_parallel_residual") {
					r.norms = normPlan{shape: scaleAndShift, mixer: []string{"input_layernorm"}, parallel: yes}
				}
			},
		},
	}
}

// fairseqs come from Meta and its fairseq.
func fairseqs() []family {
	fairseq := family{
		assume: tied, norms: preNorm(scaleAndShift), attn: learned(), ffn: ungated(),
		embed: embedShape{positions: "max_position_embeddings", offset: 2},
	}
	return []family{
		{
			types: []string{"opt"}, names: map[string]string{"intermediate_size": "ffn_dim", "embedding_size": "word_embed_proj_dim"},
			norms: preNorm(scaleAndShift), ffn: ffnShape{ungated: true, bias: "enable_bias"},
			attn:  attentionShape{bias: "enable_bias", outBias: "enable_bias", positions: unrotated},
			embed: embedShape{positions: "max_position_embeddings", offset: 2}, tune: tuneOPT, amend: projectEmbedding,
		},
		fairseq.like("biogpt", nil),
		fairseq.like("xglm", func(f *family) {
			f.names = map[string]string{"intermediate_size": "ffn_dim", "num_attention_heads": "attention_heads"}
			f.embed = embedShape{}
		}),
	}
}

func aloneClassics() []family {
	return []family{
		{
			types: []string{"persimmon"}, norms: preNorm(scaleAndShift), ffn: ungated(),
			attn: attentionShape{bias: yes, outBias: yes, norms: headNorms{on: "qk_layernorm", shape: scaleAndShift}},
		},
		{
			types: []string{"bloom"},
			names: map[string]string{"hidden_size": "hidden_size|n_embed", "num_attention_heads": "n_head|num_attention_heads"},
			norms: preNorm(scaleAndShift), ffn: quadruple(), attn: attentionShape{bias: yes, outBias: yes, positions: alibi},
			embed: embedShape{norms: []string{"word_embeddings_layernorm"}},
		},
		{
			types: []string{"mpt"},
			names: map[string]string{
				"num_key_value_heads": "attn_config.kv_n_heads", "intermediate_multiple_size": "expansion_ratio",
			},
			ffn: ffnShape{ungated: true}, attn: attentionShape{positions: alibi}, tune: tuneMPT,
		},
		{
			types: []string{"starcoder2"}, norms: preNorm(scaleAndShift), attn: attentionShape{bias: "use_bias", outBias: "use_bias"},
			ffn: ffnShape{ungated: true, bias: "use_bias"}, plan: layerPlan{mixer: slidingEverywhere},
		},
		{
			types: []string{"nemotron"}, assume: `{"partial_rotary_factor": 0.5}`, norms: preNorm(scaleAndShift), attn: biased(),
			ffn: ffnShape{ungated: true, bias: "mlp_bias"},
		},
		{types: []string{"jais2"}, norms: preNorm(scaleAndShift), attn: biased(), ffn: ffnShape{ungated: true, bias: "mlp_bias"}},
	}
}

// like is a copy of f for one model type, changed by change.
func (f family) like(modelType string, change func(*family)) family {
	f.types = []string{modelType}
	if change != nil {
		change(&f)
	}
	return f
}
