package models

import "slices"

// ling is inclusionAI's family of MoE models: Ling and Ling 2.0 (arXiv:2510.22115), and the thinking models Ring of the same shapes.
func ling() family {
	return family{
		types:  []string{"bailing_moe", "bailing_moe_v2"},
		names:  map[string]string{"num_experts_per_tok": "num_experts_per_tok|num_experts_per_token"},
		assume: `{"first_k_dense_replace": 0, "moe_router_enable_shared_expert": true}`,
		attn:   attentionShape{bias: "use_qkv_bias", outBias: "use_bias", norms: headNorms{on: "use_qk_norm"}},
		moe:    moeShape{shared: sharedCount, correction: "moe_router_enable_expert_bias"},
		plan:   layerPlan{ffn: sparseAfterDense}, tune: tuneLing,
	}
}

// tuneLing reads what versions after the first assume where a config is silent, and the width of the shared experts.
func tuneLing(r *reader) {
	architectures, _ := r.value("architectures").([]any)
	if r.modelType != "bailing_moe" || slices.Contains(architectures, any("BailingMoeV2ForCausalLM")) {
		silent := []string{"use_qk_norm", "moe_router_enable_expert_bias"}
		if r.has("linear_num_heads") { // transformers wrote it, and has biases of experts as buffers
			silent = silent[:1]
		}
		for _, name := range silent {
			if _, _, stated := r.look(name); !stated {
				r.set(name, true)
			}
		}
	}
	switch {
	case !r.flag("moe_router_enable_shared_expert"):
		r.moe.shared = noShared
	case r.has("moe_shared_expert_intermediate_size"):
		r.moe.shared = sharedWidth
		r.set("shared_expert_intermediate_size", asNumber(r.countOr("n_shared_experts", 0)*r.size("moe_shared_expert_intermediate_size")))
	}
}

// lingHybrids are Ling and Ring with linear attention in most layers: Lightning Attention beside grouped queries
// (Ring-linear, arXiv:2510.19338) or latent attention (2.5 and 2.6), and Kimi's delta rule beside latent attention (3.0).
func lingHybrids() []family {
	f := ling()
	f.plan.mixer = lingLayer
	return []family{
		f.like("bailing_moe_linear", func(f *family) { f.mixers = map[string]mixer{linear: lingLightning} }),
		f.like("bailing_moe_v2_5", func(f *family) { f.mixers = map[string]mixer{full: latentAttention, linear: lingLightning} }),
		f.like("bailing_moe_v3", func(f *family) { f.mixers = map[string]mixer{full: lingLatent, linear: lingDelta} }),
	}
}

// lingHybrid is the family of a config whose model_type is "bailing_hybrid", which two families share: that of 3.0 has
// convolutions ahead of its linear attention.
func lingHybrid(config map[string]any) string {
	classes, _ := config["architectures"].([]any)
	if config["short_conv_kernel_size"] != nil || slices.Contains(classes, any("BailingMoeV3ForCausalLM")) {
		return "bailing_moe_v3"
	}
	return "bailing_moe_v2_5"
}

// lingLayer gives the last layer of each group softmax attention, and all layers beyond the last whole group.
func lingLayer(r *reader, i int) string {
	group := r.size("layer_group_size")
	return choose((i+1)%group == 0 || i >= r.size("num_hidden_layers")/group*group, full, linear)
}

// lingLightning is Lightning Attention with as many keys and values as queries.
func lingLightning(r *reader, k kind) []Block {
	blocks, a := lightning(r, k), r.heads(k)
	a.KVHeads = a.Heads
	b := &blocks[0]
	b.In[0].Bias, b.Out[0].Bias = r.on(r.attn.bias), r.on(r.attn.outBias)
	if r.on(r.attn.norms.on) {
		b.Norms = append(r.headNorms(a), b.Norms...)
	}
	return blocks
}

// lingDelta is the delta rule of Kimi Linear with projections of full rank.
func lingDelta(r *reader, k kind) []Block {
	if !r.flag("no_kda_lora") && !r.has("linear_num_heads") {
		r.fail("no_kda_lora is not true; projections of low rank are not understood here")
	}
	a := r.heads(k)
	a.KeyDim = r.sizeOr("linear_head_dim", a.KeyDim)
	inner := a.Heads * a.KeyDim
	s := Scan{
		Kind: GatedDelta, Heads: a.Heads, HeadDim: a.KeyDim, StateDim: a.KeyDim, Groups: a.Heads,
		Conv: 3 * inner, Kernel: r.size("short_conv_kernel_size"),
	}
	return []Block{r.channelDelta(s, []Linear{{Name: "f_proj", In: r.hidden, Out: inner, Heads: a.Heads}},
		[]Linear{{Name: "g_proj", In: r.hidden, Out: inner, Heads: a.Heads}})}
}

// lingLatent is latent attention with a gate a head.
func lingLatent(r *reader, _ kind) []Block {
	b := r.latent()
	if r.flag("use_mla_nope") {
		b.Attention.RotaryDim = 0
	}
	switch gate := r.text("gated_attention_proj_granularity_type"); gate {
	case "":
		if r.has("linear_num_heads") { // transformers states no more
			b.In = append(b.In, Linear{Name: "g_proj", In: r.hidden, Out: b.Attention.Heads, Heads: b.Attention.Heads})
		}
	case "head_wise":
		b.In = append(b.In, Linear{Name: "g_proj", In: r.hidden, Out: b.Attention.Heads, Heads: b.Attention.Heads})
	default:
		r.fail("gated_attention_proj_granularity_type is %s; want \"head_wise\"", quote(gate))
	}
	return []Block{b}
}
