package models

// scans are the families without attention.
func scans() []family {
	one := normPlan{mixer: []string{"norm"}}
	only := func(name string) layerPlan { return layerPlan{mixer: every(name), ffn: every("")} }
	mamba1 := family{
		names: map[string]string{
			"mamba_d_ssm": "intermediate_size|d_inner", "mamba_d_state": "state_size", "mamba_d_conv": "conv_kernel",
			"mamba_conv_bias": "use_conv_bias", "mamba_proj_bias": "use_bias", "mamba_dt_rank": "time_step_rank", "mamba_expand": "expand",
		},
		assume: `{"tie_word_embeddings": true, "mamba_conv_bias": true, "mamba_d_state": 16, "mamba_d_conv": 4, "mamba_expand": 2}`,
		norms:  one, mixers: map[string]mixer{linear: mamba1Scan}, plan: only(linear),
	}
	return []family{
		mamba1.like("mamba", nil),
		mamba1.like("falcon_mamba", nil),
		{
			types: []string{"mamba2"},
			names: map[string]string{
				"mamba_n_heads": "num_heads", "mamba_d_head": "head_dim", "mamba_d_state": "state_size", "mamba_n_groups": "n_groups",
				"mamba_d_conv": "conv_kernel", "mamba_chunk_size": "chunk_size", "mamba_conv_bias": "use_conv_bias",
				"mamba_proj_bias": "use_bias", "mamba_expand": "expand",
			},
			assume: `{"mamba_conv_bias": true, "mamba_d_state": 128, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_d_head": 64}`, norms: one,
			mixers: map[string]mixer{linear: mamba2Scan}, plan: only(linear),
		},
		{
			types: []string{"mamba_ssm"},
			names: map[string]string{
				"tie_word_embeddings": "tie_embeddings", "mamba_d_state": "ssm_cfg.d_state", "mamba_d_conv": "ssm_cfg.d_conv",
				"mamba_expand": "ssm_cfg.expand", "mamba_d_head": "ssm_cfg.headdim", "mamba_n_groups": "ssm_cfg.ngroups",
				"mamba_dt_rank": "ssm_cfg.dt_rank", "mamba_chunk_size": "ssm_cfg.chunk_size",
			},
			assume: `{"tie_word_embeddings": true, "mamba_conv_bias": true, "mamba_d_conv": 4, "mamba_expand": 2, "mamba_n_groups": 1, ` +
				`"pad_vocab_size_multiple": 8}`,
			norms: one, mixers: map[string]mixer{linear: mamba1Scan, "mamba2": originalMamba2}, plan: only(linear), tune: tuneOriginalMamba,
			amend: padVocab,
		},
	}
}

// mambaHybrids put attention between scans of Mamba.
func mambaHybrids() []family {
	return []family{
		{
			types: []string{"jamba"}, attn: attentionShape{positions: unrotated}, moe: moeShape{width: "intermediate_size"},
			mixers: map[string]mixer{linear: jambaScan}, plan: layerPlan{mixer: attentionPeriod, ffn: sparsePeriod},
		},
		{
			types: []string{"bamba"}, assume: `{"partial_rotary_factor": 0.5}`, attn: biased(), ffn: ffnShape{bias: "mlp_bias"},
			mixers: map[string]mixer{linear: mamba2Scan}, plan: layerPlan{mixer: attentionAt("attn_layer_indices")},
		},
		{
			types: []string{"falcon_h1"}, attn: biased(), ffn: ffnShape{bias: "mlp_bias"}, mixers: map[string]mixer{"hybrid": falconH1},
			plan: layerPlan{mixer: every("hybrid")},
		},
		{
			types: []string{"granitemoehybrid"}, names: graniteNames(), attn: biased(),
			moe:    moeShape{width: "intermediate_size", shared: sharedWidth},
			mixers: map[string]mixer{linear: mamba2Scan}, plan: layerPlan{mixer: linearBut("", maxLayers+1), ffn: graniteFFN},
			tune: tuneGraniteHybrid,
		},
		nemotronH(),
	}
}

// deltaHybrids put attention between layers of the gated delta rule.
func deltaHybrids() []family {
	gated := attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes}, gate: valueGate}
	delta := map[string]mixer{linear: gatedDelta}
	dense4 := layerPlan{mixer: linearBut("full_attention_interval", 4)}
	every4 := layerPlan{mixer: dense4.mixer, ffn: sparseStep}
	return []family{
		{
			types: []string{"qwen3_next"}, names: map[string]string{"num_experts": "num_experts"},
			assume: `{"partial_rotary_factor": 0.25, "num_nextn_predict_layers": 1}`,
			attn:   gated, moe: moeShape{shared: sharedWidth, sharedGate: true}, mixers: delta, plan: every4,
		},
		{
			types: []string{"qwen3_5_moe_text", "qwen3_5_moe"}, assume: `{"partial_rotary_factor": 0.25, "head_dim": 256}`, attn: gated,
			moe: moeShape{shared: sharedWidth, sharedGate: true}, mixers: delta, plan: every4,
		},
		{types: []string{"qwen3_5_text", "qwen3_5"}, assume: `{"partial_rotary_factor": 0.25, "head_dim": 256}`, attn: gated, mixers: delta,
			plan: dense4},
		{
			types: []string{"olmo_hybrid"},
			attn:  whole(), mixers: delta, plan: dense4,
		},
	}
}

// otherHybrids put attention between convolutions or other recurrences.
func otherHybrids() []family {
	return []family{
		{
			types: []string{"lfm2"},
			names: map[string]string{"tie_word_embeddings": "tie_embedding|tie_word_embeddings",
				"intermediate_size": "block_ff_dim|intermediate_size"},
			attn: attentionShape{norms: headNorms{on: yes}}, mixers: map[string]mixer{"conv": shortConv},
			plan: layerPlan{mixer: lfm2Layer, alter: lfm2Width},
		},
		{
			types: []string{"lfm2_moe"},
			names: map[string]string{"tie_word_embeddings": "tie_embedding|tie_word_embeddings", "first_k_dense_replace": "num_dense_layers"},
			attn:  attentionShape{norms: headNorms{on: yes}}, mixers: map[string]mixer{"conv": shortConv},
			plan: layerPlan{mixer: lfm2Layer, ffn: sparseAfterDense},
		},
		{
			types: []string{"minimax"}, moe: moeShape{width: "intermediate_size"}, mixers: map[string]mixer{linear: lightning},
			plan: layerPlan{mixer: minimaxLayer, ffn: every("moe")},
		},
		{
			types: []string{"recurrent_gemma"}, names: map[string]string{"sliding_window": "attention_window_size"},
			assume: `{"partial_rotary_factor": 0.5}`, norms: normPlan{mixer: []string{"temporal_pre_norm"}, ffn: []string{"channel_pre_norm"}},
			attn: attentionShape{bias: attentionBias, outBias: yes}, ffn: ffnShape{bias: yes}, mixers: map[string]mixer{"recurrent": recurrent},
			plan: layerPlan{mixer: griffinLayer, alter: halfWidth},
		},
	}
}

// nemotronH has one block a layer, whose kind a text or a list says.
func nemotronH() family {
	names := map[string]string{
		"mamba_n_heads": "mamba_num_heads", "mamba_d_head": "mamba_head_dim", "mamba_d_state": "ssm_state_size",
		"mamba_n_groups": "n_groups|mamba_n_groups", "mamba_d_conv": "conv_kernel|mamba_d_conv",
		"mamba_chunk_size": "chunk_size|mamba_chunk_size",
		"mamba_conv_bias":  "use_conv_bias|mamba_conv_bias", "mamba_expand": "expand|mamba_expand",
		"mamba_proj_bias":                 "use_bias",
		"num_experts":                     "n_routed_experts",
		"shared_expert_intermediate_size": "moe_shared_expert_intermediate_size",
		"layer_types":                     "layers_block_type",
		"head_dim":                        "head_dim|attention_head_dim",
	}
	return family{
		types: []string{"nemotron_h"}, names: names,
		assume: `{"mamba_conv_bias": true, "mamba_n_groups": 8, "mamba_d_conv": 4}`,
		norms:  normPlan{mixer: []string{"norm"}}, attn: attentionShape{positions: unrotated},
		ffn: ffnShape{ungated: true, bias: "mlp_bias"}, moe: moeShape{ungated: true, sharedBias: "mlp_bias", shared: sharedWidth},
		mixers: map[string]mixer{
			linear: mamba2Scan, // the norm is grouped, but has a weight a value
			"mlp":  func(r *reader, k kind) []Block { return []Block{r.mlp(k)} },
			"moe":  nemotronExperts,
		},
		plan: layerPlan{ffn: every("")},
		tune: readPattern,
		// transformers ties nothing here, whatever tie_word_embeddings says.
		amend: func(_ *reader, m *Model) { m.TiedHead = false },
	}
}
