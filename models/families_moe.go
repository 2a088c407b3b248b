package models

import "slices"

// plainMoE have experts in every layer and no expert that all tokens take.
func plainMoE() []family {
	return []family{
		{types: []string{"mixtral"}, moe: moeShape{width: "intermediate_size"}, plan: layerPlan{mixer: slidingEverywhere, ffn: every("moe")}},
		{
			types: []string{"phimoe"}, norms: preNorm(scaleAndShift), attn: biased(), moe: moeShape{width: "intermediate_size"},
			embed: embedShape{headBias: "lm_head_bias"}, plan: layerPlan{mixer: slidingEverywhere, ffn: every("moe")},
		},
		{types: []string{"olmoe"}, attn: whole(), moe: moeShape{width: "intermediate_size"}, plan: always()},
		{types: []string{"flex_olmo"}, norms: postNorm(), attn: whole(), moe: moeShape{width: "intermediate_size"}, plan: always()},
		{types: []string{"granitemoe"}, attn: biased(), moe: moeShape{width: "intermediate_size"}, plan: always()},
		{types: []string{"granitemoe_swa"}, attn: withSinks(biased()), moe: moeShape{width: "intermediate_size"},
			plan: layerPlan{mixer: fullFirst("", 4), ffn: every("moe")}},
		{types: []string{"granite_swa"}, attn: withSinks(biased()), ffn: ffnShape{bias: "mlp_bias"}, plan: layerPlan{mixer: fullFirst("", 4)}},
		{types: []string{"qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"}, attn: perHead(),
			plan: layerPlan{mixer: slidingAbove, ffn: sparseStep}},
		{types: []string{"mellum"}, attn: perHead(), plan: layerPlan{mixer: slidingAbove, ffn: sparseAfterDense}},
		{types: []string{"minimax_m2"}, attn: attentionShape{norms: headNorms{on: yes, scope: wholeHead}},
			moe: moeShape{width: "intermediate_size"}, plan: always(), draftless: true},
		{
			types: []string{"gpt_oss"}, attn: withSinks(biased()), moe: moeShape{width: "intermediate_size", bias: yes, routerBias: yes},
			plan: layerPlan{mixer: fullEvery("sliding_window_pattern", 2), ffn: every("moe")},
		},
	}
}

// sharedMoE have a feed-forward beside the experts that all tokens take.
func sharedMoE() []family {
	return []family{
		{types: []string{"granitemoeshared"}, names: graniteNames(), attn: biased(),
			moe: moeShape{width: "intermediate_size", shared: sharedWidth}, plan: always()},
		{
			types: []string{"qwen2_moe"}, attn: attentionShape{bias: "qkv_bias"}, moe: moeShape{shared: sharedWidth, sharedGate: true},
			plan: layerPlan{mixer: slidingAbove, ffn: sparseStep},
		},
		{
			types: []string{"glm4_moe", "glm4v_moe_text"}, assume: `{"partial_rotary_factor": 0.5}`,
			attn: attentionShape{bias: attentionBias, norms: headNorms{on: "use_qk_norm"}, floorDim: true}, moe: moeShape{shared: sharedCount},
			plan: layerPlan{ffn: sparseAfterDense},
		},
		{types: []string{"dots1"}, attn: perHead(), moe: moeShape{shared: sharedCount},
			plan: layerPlan{mixer: slidingAbove, ffn: sparseAfterDense}},
		{
			types: []string{"hy_v3"}, assume: `{"first_k_dense_replace": 1}`, attn: perHead(), moe: moeShape{shared: sharedCount},
			plan: layerPlan{ffn: sparseAfterDense},
		},
		{
			types: []string{"solar_open"}, attn: attentionShape{bias: attentionBias}, moe: moeShape{shared: sharedCount},
			plan: layerPlan{ffn: sparseAfterDense},
		},
		{
			types: []string{"exaone_moe"}, attn: attentionShape{norms: headNorms{on: yes}}, moe: moeShape{shared: sharedCount},
			plan: layerPlan{mixer: exaonePattern, ffn: sparseAfterDense, alter: unrotatedFull},
		},
		{
			types: []string{"ernie4_5_moe"},
			names: map[string]string{"num_experts": "moe_num_experts", "n_shared_experts": "moe_num_shared_experts", "num_experts_per_tok": "moe_k"},
			attn:  attentionShape{bias: "use_bias", outBias: "use_bias"}, ffn: ffnShape{bias: "use_bias"},
			moe: moeShape{shared: sharedCount, correction: yes, sharedBias: "use_bias"}, embed: embedShape{headBias: "use_bias"},
			plan: layerPlan{ffn: sparseBetween},
		},
	}
}

// mixedMoE have layers of several kinds beside.
func mixedMoE() []family {
	return []family{
		{
			types:  []string{"llama4_text", "llama4"},
			assume: `{"head_dim": 128, "attention_chunk_size": 8192, "interleave_moe_layer_step": 1, "use_qk_norm": true}`,
			attn:   attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: "use_qk_norm", shape: weightless}},
			moe:    moeShape{width: "intermediate_size", shared: sharedExpert},
			plan:   layerPlan{mixer: chunkedUnlessFixed, ffn: interleaved, alter: llama4Layer},
		},
		{
			types: []string{"afmoe"}, names: map[string]string{"first_k_dense_replace": "num_dense_layers"}, norms: prePostNorm(),
			attn: attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes}, gate: plainGate},
			moe:  moeShape{shared: sharedCount, correction: yes},
			plan: layerPlan{mixer: fullEvery("global_attn_every_n_layers", 4), ffn: sparseAfterDense, alter: unrotatedFull},
		},
		{
			types: []string{"aria_text"},
			names: map[string]string{"num_experts": "moe_num_experts", "n_shared_experts": "moe_num_shared_experts",
				"num_experts_per_tok": "moe_topk"},
			attn: biased(), ffn: ffnShape{bias: "mlp_bias"}, moe: moeShape{width: "intermediate_size", shared: sharedCount, sharedBias: "mlp_bias"},
			plan: always(),
		},
		{
			types: []string{"cohere2_moe"}, norms: normPlan{mixer: []string{"input_layernorm"}, parallel: yes, joined: true}, attn: biased(),
			moe:  moeShape{width: "intermediate_size", shared: sharedCount},
			plan: layerPlan{mixer: fullEvery("sliding_window_pattern", 4), ffn: sparseAfterDense, alter: unrotatedFull},
		},
		{
			types: []string{"laguna"}, assume: `{"first_k_dense_replace": 1}`,
			attn: attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes}, gate: headGate},
			moe:  moeShape{shared: sharedWidth, correction: yes}, plan: layerPlan{ffn: sparseAfterDense, alter: headsPerLayer},
		},
		{
			types: []string{"mimo_v2_flash"}, assume: `{"first_k_dense_replace": 1}`, attn: attentionShape{bias: attentionBias},
			moe: moeShape{shared: sharedCount}, mixers: map[string]mixer{full: splitHeads, sliding: slidingSplitHeads},
			plan: layerPlan{mixer: mimoPattern, ffn: sparseAfterDense},
		},
	}
}

func graniteNames() map[string]string {
	return map[string]string{"shared_expert_intermediate_size": "shared_intermediate_size"}
}

// withSinks adds a learned logit for each head.
func withSinks(a attentionShape) attentionShape {
	a.sinks = yes
	return a
}

// sparseBetween gives the layers from one index to another experts (ERNIE 4.5).
func sparseBetween(r *reader, i int) string {
	if ffn, ok := r.listedFFN(i); ok {
		return ffn
	}
	last := r.layers - 1
	if v, _, _ := r.look("moe_layer_end_index"); v != nil && v != asNumber(-1) {
		last = r.countOr("moe_layer_end_index", last)
	}
	return choose((i+1)%r.sizeOr("moe_layer_interval", 1) == 0 && i >= r.countOr("moe_layer_start_index", 0) && i <= last, "moe", "mlp")
}

// interleaved gives the layers in moe_layers, or else every
// interleave_moe_layer_step-th, experts (Llama 4).
func interleaved(r *reader, i int) string {
	if r.has("moe_layers") {
		return choose(slices.Contains(r.numbersOf("moe_layers"), i), "moe", "mlp")
	}
	return choose((i+1)%r.size("interleave_moe_layer_step") == 0, "moe", "mlp")
}

// chunkedUnlessFixed: layers with rotary positions look back within a chunk,
// those without see the whole context (Llama 4).
func chunkedUnlessFixed(r *reader, i int) string {
	var k kind
	someUnrotated(r, i, &k)
	return choose(k.noRope, full, chunked)
}

// llama4Layer: dense layers are wider than experts.
func llama4Layer(r *reader, i int, k *kind) {
	someUnrotated(r, i, k)
	if k.ffn == "mlp" {
		k.width = r.size("intermediate_size_mlp")
	}
}

func headsPerLayer(r *reader, i int, k *kind) {
	if heads := r.numbersOf("num_attention_heads_per_layer"); len(heads) > 0 {
		k.heads, _ = layerEntry(r, "num_attention_heads_per_layer", heads, i)
	}
}

// splitHeads is attention whose values are narrower than its keys (MiMo-V2).
func splitHeads(r *reader, k kind) []Block {
	a := r.heads(k)
	a.ValueDim = r.sizeOr("v_head_dim", a.KeyDim)
	return []Block{r.attend(k, a)}
}

// slidingSplitHeads has twice the key-value heads, unless their number is
// stated, and a sink a head.
func slidingSplitHeads(r *reader, k kind) []Block {
	a := r.heads(k)
	a.KVHeads = r.sizeOr("swa_num_key_value_heads", 2*a.KVHeads)
	a.ValueDim = r.sizeOr("v_head_dim", a.KeyDim)
	a.Window = r.size("sliding_window")
	b := r.attend(k, a)
	b.Extra += int64(a.Heads)
	return []Block{b}
}

// mimoPattern reads hybrid_layer_pattern, in which 1 is a window, or gives the
// first and every sixth layer the whole context.
func mimoPattern(r *reader, i int) string {
	if r.has("hybrid_layer_pattern") {
		return choose(r.marked("hybrid_layer_pattern", i) == "moe", sliding, full)
	}
	return choose(i == 0 || (i+1)%6 == 0, full, sliding)
}
