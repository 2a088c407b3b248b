package native

import (
	"fmt"
	"slices"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
)

// deepMoE has so many layers that the streams of all tokens become similar, unless their
// embeddings are large.
const deepMoE = `{"model_type":"qwen3_moe","hidden_size":256,"intermediate_size":512,"moe_intermediate_size":64,"num_hidden_layers":%d,
	"num_attention_heads":4,"num_key_value_heads":2,"head_dim":64,"num_experts":32,"num_experts_per_tok":2,"norm_topk_prob":true,
	"decoder_sparse_step":1,"mlp_only_layers":[],"vocab_size":1001,"max_position_embeddings":4096,"hidden_act":"silu",
	"rms_norm_eps":1e-6,"rope_theta":1000000.0,"tie_word_embeddings":false,"attention_bias":false,"use_sliding_window":false}`

// hit returns how many experts the tokens of a random prompt choose in the last layer.
func hit(t *testing.T, layers, tokens int, spread bool) int {
	t.Helper()
	e := open(t, fmt.Sprintf(deepMoE, layers), Options{Seed: 7, Workload: operator.Workload{Batch: 1, PromptLen: tokens, GenLen: 1},
		Spread: spread})
	testkit.Must(t, e.SetPrompts(randomPrompts(3, 1, tokens, e.shape.vocab)))
	if _, err := e.Prefill(); err != nil {
		t.Fatal(err)
	}
	return hits(t, e, tokens)
}

// hits returns how many experts so many tokens chose in the layer that ran last.
func hits(t *testing.T, e *Engine, tokens int) int {
	t.Helper()
	chosen := make([]int32, tokens*e.shape.topK)
	testkit.Must(t, cuda.Download(e.dev, chosen, e.b.chosen))
	slices.Sort(chosen)
	return len(slices.Compact(chosen))
}

// A random prompt chooses as many experts as a uniform choice does, as estimates assume, if the
// embedding is so large that every token keeps its direction. With a small embedding the number
// falls with the depth of the layer.
func TestSpread(t *testing.T) {
	emulate.Long(t)
	const layers, tokens = 12, 40
	want := operator.DistinctExperts(32, 2, tokens)
	with, without := hit(t, layers, tokens, true), hit(t, layers, tokens, false)
	t.Logf("%d tokens hit %d of 32 experts, %d without; uniformly chosen %.1f", tokens, with, without, want)
	if float64(with) < want-3 || float64(without) > want-6 {
		t.Error("the embedding does not spread the choice")
	}
}

// Tokens and scores with a large embedding are those of the plain model with it.
func TestSpreadIsTheModels(t *testing.T) {
	opt := Options{Seed: 7, Workload: operator.Workload{Batch: 2, PromptLen: 9, GenLen: 3}, Spread: true}
	compare(t, open(t, tinyQwen3MoE, opt), referenceOf(t, tinyQwen3MoE, opt), opt.GenLen)
}
