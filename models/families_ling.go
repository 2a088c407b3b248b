package models

import "slices"

// ling is inclusionAI's family of mixtures: Ling and Ling 2.0 (arXiv:2510.22115), and the thinking models Ring of the same shapes.
func ling() family {
	return family{
		types:  []string{"bailing_moe", "bailing_moe_v2"},
		assume: `{"first_k_dense_replace": 0, "moe_router_enable_shared_expert": true}`,
		attn:   attentionShape{bias: "use_qkv_bias", outBias: "use_bias", norms: headNorms{on: "use_qk_norm"}},
		moe:    moeShape{shared: sharedCount, correction: "moe_router_enable_expert_bias"},
		plan:   layerPlan{ffn: sparseAfterDense}, tune: tuneLing,
	}
}

// tuneLing reads what the second version assumes where its config is silent, and the width of the shared experts.
func tuneLing(r *reader) {
	architectures, _ := r.value("architectures").([]any)
	if r.modelType == "bailing_moe_v2" || slices.Contains(architectures, any("BailingMoeV2ForCausalLM")) {
		for _, name := range []string{"use_qk_norm", "moe_router_enable_expert_bias"} {
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
