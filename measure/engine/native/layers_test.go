package native

import (
	"testing"

	"llmprof/measure/engine/native/internal/emulate"
)

const wideMixture = `{"model_type":"qwen3_moe","hidden_size":576,"intermediate_size":512,"moe_intermediate_size":192,"num_hidden_layers":3,
		"num_attention_heads":16,"num_key_value_heads":2,"head_dim":128,"num_experts":40,"num_experts_per_tok":8,"norm_topk_prob":true,
		"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":1001,"max_position_embeddings":4096,"hidden_act":"silu",
		"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":false,"attention_bias":false,"use_sliding_window":false}`

func TestLayersAgainstReference(t *testing.T) {
	emulate.Device(t)
	for _, prompt := range []int{1, 14, 15, 16, 31, 127, 200} {
		t.Run("", func(t *testing.T) {
			e := open(t, wideMixture, Options{Seed: 7, Batch: 1, PromptLen: prompt, GenLen: 4})
			compare(t, e, newReference(t, wideMixture, 7), 4)
		})
	}
}
