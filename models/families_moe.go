package models

// mixtures are the families with experts and ordinary attention.
func mixtures() []family {
	return concat(plainMixtures(), sharedMixtures(), mixedMixtures())
}

// plainMixtures have a mixture in every layer and no expert that all tokens take.
func plainMixtures() []family {
	return []family{
		{
			types: []string{"mixtral"}, assume: untied, norms: preNorm(scaleOnly),
			moe: moeShape{width: wide}, plan: layerPlan{mixer: slidingEverywhere, ffn: allSparse},
		},
		{
			types: []string{"phimoe"}, assume: untied, norms: preNorm(scaleAndShift), attn: biased(),
			moe: moeShape{width: wide}, embed: embedShape{headBias: "lm_head_bias"},
			plan: layerPlan{mixer: slidingEverywhere, ffn: allSparse},
		},
		{types: []string{"olmoe"}, assume: untied, norms: preNorm(scaleOnly), attn: whole(), moe: moeShape{width: wide}, plan: always()},
		{types: []string{"flex_olmo"}, assume: untied, norms: postNorm(), attn: whole(), moe: moeShape{width: wide}, plan: always()},
		{
			types: []string{"granitemoe"}, assume: untied, norms: preNorm(scaleOnly), attn: biased(), moe: moeShape{width: wide}, plan: always(),
		},
		{
			types: []string{"granitemoe_swa"}, assume: untied, norms: preNorm(scaleOnly), attn: withSinks(biased()),
			moe: moeShape{width: wide}, plan: layerPlan{mixer: fullFirst("", 4), ffn: allSparse},
		},
		{
			types: []string{"granite_swa"}, assume: tied, norms: preNorm(scaleOnly), attn: withSinks(biased()),
			ffn: ffnShape{bias: "mlp_bias"}, plan: layerPlan{mixer: fullFirst("", 4)},
		},
		{
			types: []string{"qwen3_moe", "qwen3_vl_moe_text", "qwen3_omni_moe_text"}, assume: untied, norms: preNorm(scaleOnly), attn: perHead(),
			plan: layerPlan{mixer: slidingAbove, ffn: sparseStep},
		},
		{
			types: []string{"mellum"}, assume: untied, norms: preNorm(scaleOnly), attn: perHead(),
			plan: layerPlan{mixer: slidingAbove, ffn: sparseAfterDense},
		},
		{
			types: []string{"minimax_m2"}, assume: untied, norms: preNorm(scaleOnly),
			attn: attentionShape{norms: headNorms{on: yes, scope: wholeHead}}, moe: moeShape{width: wide}, plan: always(),
		},
		{
			types: []string{"gpt_oss"}, assume: `{"tie_word_embeddings": false, "attention_bias": true, "head_dim": 64}`, norms: preNorm(scaleOnly),
			attn: withSinks(biased()), moe: moeShape{width: wide, bias: yes, routerBias: yes},
			plan: layerPlan{mixer: fullEvery("sliding_window_pattern", 2), ffn: allSparse},
		},
	}
}

// sharedMixtures have a feed-forward beside the experts that all tokens take.
func sharedMixtures() []family {
	return []family{
		{
			types: []string{"granitemoeshared"}, names: graniteNames(), assume: untied, norms: preNorm(scaleOnly), attn: biased(),
			moe: moeShape{width: wide, shared: sharedWidth}, plan: always(),
		},
		{
			types: []string{"qwen2_moe"}, assume: `{"tie_word_embeddings": false, "qkv_bias": true}`, norms: preNorm(scaleOnly),
			attn: attentionShape{bias: "qkv_bias"}, moe: moeShape{shared: sharedWidth, sharedGate: true},
			plan: layerPlan{mixer: slidingAbove, ffn: sparseStep},
		},
		{
			types: []string{"glm4_moe", "glm4v_moe_text"}, assume: `{"tie_word_embeddings": false, "first_k_dense_replace": 1, "partial_rotary_factor": 0.5}`,
			norms: preNorm(scaleOnly), attn: attentionShape{bias: attentionBias, norms: headNorms{on: "use_qk_norm"}, floorDim: true},
			moe:  moeShape{shared: sharedCount},
			plan: layerPlan{ffn: sparseAfterDense},
		},
		{
			types: []string{"dots1"}, assume: `{"tie_word_embeddings": false, "first_k_dense_replace": 0}`, norms: preNorm(scaleOnly), attn: perHead(),
			moe: moeShape{shared: sharedCount}, plan: layerPlan{mixer: slidingAbove, ffn: sparseAfterDense},
		},
		{
			types: []string{"hy_v3"}, assume: denseFirst, norms: preNorm(scaleOnly), attn: perHead(),
			moe: moeShape{shared: sharedCount}, plan: layerPlan{ffn: sparseAfterDense},
		},
		{
			types: []string{"solar_open"}, assume: untied, norms: preNorm(scaleOnly), attn: attentionShape{bias: attentionBias},
			moe: moeShape{shared: sharedCount}, plan: layerPlan{ffn: sparseAfterDense},
		},
		{
			types: []string{"exaone_moe"}, assume: `{"tie_word_embeddings": false, "first_k_dense_replace": 1}`, norms: preNorm(scaleOnly),
			attn: attentionShape{norms: headNorms{on: yes}}, moe: moeShape{shared: sharedCount},
			plan: layerPlan{mixer: exaonePattern, ffn: sparseAfterDense, alter: unrotatedFull},
		},
		{
			types:  []string{"ernie4_5_moe"},
			names:  map[string]string{"num_experts": "moe_num_experts", "n_shared_experts": "moe_num_shared_experts", "num_experts_per_tok": "moe_k"},
			assume: tied, norms: preNorm(scaleOnly), attn: attentionShape{bias: "use_bias", outBias: "use_bias"}, ffn: ffnShape{bias: "use_bias"},
			moe: moeShape{shared: sharedCount, correction: yes, sharedBias: "use_bias"}, embed: embedShape{headBias: "use_bias"},
			plan: layerPlan{ffn: sparseBetween},
		},
	}
}

// mixedMixtures have layers of several kinds beside.
func mixedMixtures() []family {
	return []family{
		{
			types: []string{"llama4_text", "llama4"}, assume: `{"tie_word_embeddings": false, "head_dim": 128, "attention_chunk_size": 8192,
				"interleave_moe_layer_step": 1, "use_qk_norm": true}`,
			norms: preNorm(scaleOnly),
			attn:  attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: "use_qk_norm", shape: weightless}},
			moe:   moeShape{width: wide, shared: sharedExpert},
			plan:  layerPlan{mixer: chunkedUnlessFixed, ffn: interleaved, alter: llama4Layer},
		},
		{
			types: []string{"afmoe"}, names: map[string]string{"first_k_dense_replace": "num_dense_layers"},
			assume: `{"tie_word_embeddings": false, "num_dense_layers": 1}`, norms: prePostNorm(),
			attn: attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes}, gate: plainGate},
			moe:  moeShape{shared: sharedCount, correction: yes},
			plan: layerPlan{mixer: fullEvery("global_attn_every_n_layers", 4), ffn: sparseAfterDense, alter: unrotatedFull},
		},
		{
			types:  []string{"aria_text"},
			names:  map[string]string{"num_experts": "moe_num_experts", "n_shared_experts": "moe_num_shared_experts", "num_experts_per_tok": "moe_topk"},
			assume: untied, norms: preNorm(scaleOnly), attn: biased(), ffn: ffnShape{bias: "mlp_bias"},
			moe: moeShape{width: wide, shared: sharedCount, sharedBias: "mlp_bias"}, plan: always(),
		},
		{
			types: []string{"cohere2_moe"}, assume: tied, norms: normPlan{mixer: []string{"input_layernorm"}, parallel: yes}, attn: biased(),
			moe:  moeShape{width: wide, shared: sharedCount},
			plan: layerPlan{mixer: fullEvery("sliding_window_pattern", 4), ffn: sparseAfterDense, alter: unrotatedFull},
		},
		{
			types: []string{"laguna"}, assume: denseFirst, norms: preNorm(scaleOnly),
			attn: attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes}, gate: headGate},
			moe:  moeShape{shared: sharedWidth, correction: yes},
			plan: layerPlan{ffn: sparseAfterDense, alter: headsPerLayer},
		},
		{
			types: []string{"mimo_v2_flash"}, assume: denseFirst, norms: preNorm(scaleOnly), attn: attentionShape{bias: attentionBias},
			moe:    moeShape{shared: sharedCount},
			mixers: map[string]mixer{full: splitHeads, sliding: slidingSplitHeads},
			plan:   layerPlan{mixer: mimoPattern, ffn: sparseAfterDense},
		},
	}
}

// denseFirst: the first layer alone has no mixture.
const denseFirst = `{"tie_word_embeddings": false, "first_k_dense_replace": 1}`

// graniteNames are Granite's names for its shared feed-forward.
func graniteNames() map[string]string {
	return map[string]string{"shared_expert_intermediate_size": "shared_intermediate_size"}
}

// withSinks adds a learned logit for each head.
func withSinks(a attentionShape) attentionShape {
	a.sinks = yes
	return a
}

// sparseBetween gives the layers from one index to another a mixture (ERNIE 4.5).
func sparseBetween(r *reader, i int) string {
	if ffn, ok := r.listedFFN(i); ok {
		return ffn
	}
	last := r.layers - 1
	if v, _, _ := r.look("moe_layer_end_index"); v != nil && v != asNumber(-1) {
		last = r.countOr("moe_layer_end_index", last)
	}
	if (i+1)%r.sizeOr("moe_layer_interval", 1) == 0 && i >= r.countOr("moe_layer_start_index", 0) && i <= last {
		return "moe"
	}
	return "mlp"
}

// interleaved gives the layers in moe_layers, or else every
// interleave_moe_layer_step-th, a mixture (Llama 4).
func interleaved(r *reader, i int) string {
	if r.has("moe_layers") {
		for _, sparse := range r.numbersOf("moe_layers") {
			if sparse == i {
				return "moe"
			}
		}
		return "mlp"
	}
	if (i+1)%r.size("interleave_moe_layer_step") == 0 {
		return "moe"
	}
	return "mlp"
}

// chunkedUnlessFixed: layers with rotary positions look back within a chunk,
// those without see the whole context (Llama 4).
func chunkedUnlessFixed(r *reader, i int) string {
	var k kind
	someUnrotated(r, i, &k)
	if k.fixed {
		return full
	}
	return chunked
}

// llama4Layer: dense layers are wider than experts.
func llama4Layer(r *reader, i int, k *kind) {
	someUnrotated(r, i, k)
	if k.ffn == "mlp" {
		k.width = r.size("intermediate_size_mlp")
	}
}

// headsPerLayer reads the number of query heads of each layer.
func headsPerLayer(r *reader, i int, k *kind) {
	heads := r.numbersOf("num_attention_heads_per_layer")
	if len(heads) == 0 {
		return
	}
	if len(heads) != r.layers {
		r.fail("num_attention_heads_per_layer has %d entries for %d layers", len(heads), r.layers)
		return
	}
	k.heads = heads[i]
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
		if r.marked("hybrid_layer_pattern", i) == "moe" {
			return sliding
		}
		return full
	}
	if i == 0 || (i+1)%6 == 0 {
		return full
	}
	return sliding
}
