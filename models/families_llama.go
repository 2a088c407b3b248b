package models

// preNorm is the arrangement of Llama and most after it: RMSNorm before each block.
func preNorm() normPlan {
	return normPlan{mixer: []string{"input_layernorm"}, ffn: []string{"post_attention_layernorm"}}
}

// llamas are the families that are Llama but for a bias, a window or a tied head.
func llamas() []family {
	return []family{
		{
			types:  []string{"llama"},
			assume: `{"tie_word_embeddings": false}`,
			norms:  preNorm(),
			attn:   attentionShape{bias: "attention_bias", outBias: "attention_bias"},
			ffn:    ffnShape{bias: "mlp_bias"},
		},
		{
			types: []string{"mistral", "ministral3"},
			norms: preNorm(),
			plan:  layerPlan{mixer: slidingEverywhere},
		},
		{
			types: []string{"qwen2"},
			norms: preNorm(),
			attn:  attentionShape{bias: yes},
			plan:  layerPlan{mixer: slidingAbove},
		},
	}
}
