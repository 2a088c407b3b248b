package models

// latents are the families with multi-head latent attention.
func latents() []family {
	mixers := map[string]mixer{full: latentAttention, "deepseek_sparse_attention": sparseLatentAttention}
	deepseek := family{
		assume: `{"first_k_dense_replace": 3, "n_shared_experts": 1}`,
		attn:   biased(), moe: moeShape{shared: sharedCount}, mixers: mixers, plan: layerPlan{ffn: sparseAfterDense},
	}
	return []family{
		deepseek.like("deepseek_v2", func(f *family) {
			f.assume = `{"first_k_dense_replace": 0, "n_shared_experts": 2}`
			f.ffn.bias, f.moe.sharedBias = "mlp_bias", "mlp_bias"
		}),
		deepseek.like("deepseek_v3", func(f *family) { f.types = append(f.types, "kimi_k2", "kimi_k25", "deepseek_vl_v2_text") }),
		deepseek.like("axk1", func(f *family) { f.finish = normAfterMoE }),
		deepseek.like("deepseek_v32", func(f *family) { f.plan.mixer = every("deepseek_sparse_attention") }),
		deepseek.like("glm_moe_dsa", func(f *family) {
			f.plan.mixer, f.plan.alter = every("deepseek_sparse_attention"), indexerOnce(glmIndexer)
		}),
		deepseek.like("glm4_moe_lite", func(f *family) {
			f.assume = `{"first_k_dense_replace": 1, "n_shared_experts": 1}`
		}),
		{types: []string{"minicpm3"}, attn: biased(), mixers: mixers},
		{types: []string{"youtu"}, attn: biased(), mixers: mixers},
	}
}

// normAfterMoE adds the norm that A.X-K1 has behind its experts.
func normAfterMoE(r *reader, k kind, b []Block) []Block {
	if k.ffn == "moe" {
		b[1].Norms = append(b[1].Norms, scaleOnly.norm("post_mlp_layernorm", r.hidden, 1))
	}
	return b
}
