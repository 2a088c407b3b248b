package native

import (
	"math"
	"os"
	"testing"

	"llmprof/measure/engine/native/internal/emulate"
)

const wideMixture = `{"model_type":"qwen3_moe","hidden_size":576,"intermediate_size":512,"moe_intermediate_size":192,"num_hidden_layers":3,
		"num_attention_heads":16,"num_key_value_heads":2,"head_dim":128,"num_experts":40,"num_experts_per_tok":8,"norm_topk_prob":true,
		"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":1001,"max_position_embeddings":4096,"hidden_act":"silu",
		"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":false,"attention_bias":false,"use_sliding_window":false}`

// A step of all layers in one kernel gives the scores that one of many kernels gives.
func TestLayersAreTheirKernels(t *testing.T) {
	emulate.Device(t)
	for name, config := range map[string]string{"wide": wideMixture, "qwen3_moe": tinyQwen3MoE, "mixtral": tinyMixtral} {
		if v := os.Getenv("ONLY"); v != "" && v != name {
			continue
		}
		for _, prompt := range []int{14, 15} {
			opt := Options{Seed: 7, Batch: 1, PromptLen: prompt, GenLen: 4}
			var all [2][][]float32
			for i := range all {
				opt.apart = i == 1
				e := open(t, config, opt)
				m := &meter{t: t}
				m.must(e.SetPrompts(randomPrompts(3, 1, prompt, e.shape.vocab)))
				m.must(poison(e))
				_, err := e.Prefill()
				m.must(err)
				for range opt.GenLen - 1 {
					_, err := e.Step()
					m.must(err)
					s, err := e.scores()
					m.must(err)
					all[i] = append(all[i], s[0])
				}
			}
			for step := range all[0] {
				worst, size := 0.0, 0.0
				for i, v := range all[0][step] {
					worst = max(worst, math.Abs(float64(v-all[1][step][i])))
					size = max(size, math.Abs(float64(v)))
				}
				t.Logf("%s, %d tokens, step %d: scores of %.3g differ by %.3g", name, prompt, step, size, worst)
				if !(worst < size/150) {
					t.Errorf("%s, %d tokens, step %d: scores of %.3g differ by %.3g", name, prompt, step, size, worst)
				}
			}
		}
	}
}
