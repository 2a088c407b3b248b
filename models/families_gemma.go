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
			types: []string{"vaultgemma"}, norms: normPlan{mixer: []string{"input_layernorm"}, ffn: []string{"pre_feedforward_layernorm"}}, attn: capped,
			plan: layerPlan{mixer: fullEvery("sliding_window_pattern", 2)},
		},
		{
			types: []string{"gemma3_text", "gemma3"}, names: pattern,
			assume: `{"vocab_size": 262208, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 256, "sliding_window": 4096, "max_position_embeddings": 131072}`,
			norms:  prePostNorm(),
			attn:   attentionShape{bias: attentionBias, outBias: attentionBias, norms: headNorms{on: yes}, softcap: "attn_logit_softcapping"},
			plan:   layerPlan{mixer: fullEvery("sliding_window_pattern", 6)},
		},
	}
}
