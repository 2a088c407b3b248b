package models

// tied is what some families assume of a head that the config says nothing of.
const tied = `{"tie_word_embeddings": true}`

// preNorm is the arrangement of Llama and most after it: a norm before each block.
func preNorm(shape normShape) normPlan {
	return normPlan{shape: shape, mixer: []string{"input_layernorm"}, ffn: []string{"post_attention_layernorm"}}
}

// postNorm has its norms after each block (OLMo 2).
func postNorm() normPlan {
	return normPlan{mixer: []string{"post_attention_layernorm"}, ffn: []string{"post_feedforward_layernorm"}}
}

// prePostNorm has norms before and after each block (Gemma 2).
func prePostNorm() normPlan {
	return normPlan{
		mixer: []string{"input_layernorm", "post_attention_layernorm"},
		ffn:   []string{"pre_feedforward_layernorm", "post_feedforward_layernorm"},
	}
}

// attentionBias is the switch that most families share.
const attentionBias toggle = "attention_bias"

// The families that are Llama but for a bias, a window, a norm of queries and keys or a tied head.

// plainLlamas differ from Llama in a bias, a default or a window.
func plainLlamas() []family {
	return []family{
		{types: []string{"llama", "granite", "Yi", "deepseek_llm", "aquila", "emu3_text_model"}, attn: biased(), ffn: ffnShape{bias: "mlp_bias"}},
		{types: []string{"helium"}, attn: attentionShape{bias: attentionBias}, ffn: ffnShape{bias: "mlp_bias"}},
		{types: []string{"cwm"}, ffn: ffnShape{bias: "mlp_bias"}, plan: layerPlan{mixer: fullFirst("window_pattern", 4)}},
		{types: []string{"mistral", "ministral3", "ministral"}, plan: layerPlan{mixer: slidingEverywhere}},
		{
			types: []string{"qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "qwen2_vl", "qwen2_5_vl", "qwen2_5_omni_text"},
			attn:  attentionShape{bias: yes},
			plan:  layerPlan{mixer: slidingAbove},
		},
		{types: []string{"qwen3", "qwen3_vl_text"}, attn: perHead(), plan: layerPlan{mixer: slidingAbove}},
		{types: []string{"smollm3"}, attn: biased(), ffn: ffnShape{bias: "mlp_bias"}, plan: layerPlan{mixer: slidingAbove, alter: someUnrotated}},
		{types: []string{"seed_oss"}, attn: attentionShape{bias: attentionBias, outBias: "attention_out_bias"}, ffn: ffnShape{bias: "mlp_bias"}},
		{types: []string{"ernie4_5"}, attn: attentionShape{bias: "use_bias", outBias: "use_bias"}, ffn: ffnShape{bias: "use_bias"}},
		{types: []string{"phi3", "phi4mm", "phi3_v", "phi4_multimodal"}, plan: layerPlan{mixer: slidingEverywhere}},
	}
}

// normedLlamas have their norms elsewhere, or more of them.
func normedLlamas() []family {
	return []family{
		{types: []string{"glm"}, assume: `{"partial_rotary_factor": 0.5}`, attn: attentionShape{bias: attentionBias}},
		{
			types: []string{"glm4", "glm4v_text"}, assume: `{"attention_bias": true, "partial_rotary_factor": 0.5, "head_dim": 128}`,
			norms: prePostNorm(), attn: attentionShape{bias: attentionBias},
		},
		{
			types: []string{"hyperclovax"}, attn: biased(), ffn: ffnShape{bias: "mlp_bias"},
			tune: func(r *reader) {
				if r.flag("use_post_norm") {
					r.norms = prePostNorm()
				}
			},
		},
		{types: []string{"olmo"}, norms: preNorm(weightless), attn: biased()},
		{types: []string{"olmo2"}, norms: postNorm(), attn: whole()},
		{types: []string{"olmo3"}, norms: postNorm(), attn: whole(), plan: layerPlan{mixer: fullEvery("sliding_window_pattern", 4)}},
		{
			types: []string{"exaone4"}, norms: postNorm(), attn: attentionShape{norms: headNorms{on: yes}},
			plan: layerPlan{mixer: exaonePattern, alter: unrotatedFull},
		},
		{
			types: []string{"bitnet"}, attn: biased(),
			finish: func(r *reader, k kind, b []Block) []Block {
				b[0].Norms = append(b[0].Norms, scaleOnly.norm("attn_sub_norm", r.hidden, 1))
				b[1].Norms = append(b[1].Norms, scaleOnly.norm("ffn_sub_norm", r.width(k), 1))
				return b
			},
		},
	}
}

// ungatedLlamas have another feed-forward, or attention of two differences.
func ungatedLlamas() []family {
	return []family{
		{types: []string{"arcee"}, attn: biased(), ffn: ffnShape{ungated: true, bias: "mlp_bias"}},
		{types: []string{"apertus", "apertus1p5_text"}, attn: perHead(), ffn: ffnShape{ungated: true}, finish: perLayer(2)},
		{
			types: []string{"nanochat"}, norms: preNorm(weightless),
			attn: attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes, shape: weightless}},
			ffn:  ffnShape{ungated: true},
		},
		{
			types: []string{"diffllama"}, attn: biased(), ffn: ffnShape{bias: "mlp_bias"},
			finish: func(_ *reader, _ kind, b []Block) []Block {
				a := b[0].Attention
				b[0].Extra += 4 * int64(a.KeyDim)
				b[0].Norms = append(b[0].Norms, weightless.norm("groupnorm", 2*a.KeyDim, a.Heads/2))
				return b
			},
		},
	}
}

// perLayer adds n small parameters to the last block of each layer.
func perLayer(n int64) func(*reader, kind, []Block) []Block {
	return func(_ *reader, _ kind, b []Block) []Block {
		b[len(b)-1].Extra += n
		return b
	}
}

// someUnrotated leaves out the rotary positions where no_rope_layers has a 0,
// or in the last of each group of no_rope_layer_interval layers.
func someUnrotated(r *reader, i int, k *kind) {
	if marks := r.numbersOf("no_rope_layers"); len(marks) > 0 {
		mark, _ := layerEntry(r, "no_rope_layers", marks, i)
		k.noRope = mark == 0
		return
	}
	k.noRope = (i+1)%r.sizeOr("no_rope_layer_interval", 4) == 0
}

// unrotatedFull leaves the rotary positions out of layers without a window,
// in models that have windows (Cohere 2, EXAONE 4).
func unrotatedFull(r *reader, _ int, k *kind) {
	k.noRope = k.mixer == full && r.has("sliding_window")
}

// exaonePattern reads sliding_window_pattern as a number or a text of L and G.
func exaonePattern(r *reader, i int) string {
	if !r.has("sliding_window") {
		return full
	}
	v, _, _ := r.look("sliding_window_pattern")
	pattern, ok := v.(string)
	if !ok || pattern == "" {
		return fullEvery("sliding_window_pattern", 4)(r, i)
	}
	// The last layer always sees the whole context.
	return choose(i == r.layers-1 || pattern[i%len(pattern)] == 'G', full, sliding)
}
