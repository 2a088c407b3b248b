package models

import (
	"fmt"
	"strings"
	"testing"
)

// Scaled rotary positions reach as far as engines take the model.
func TestContextOfScaledPositions(t *testing.T) {
	const config = `{"model_type": "qwen3", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
		"num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 40960, "rope_scaling": %s}`
	for rope, want := range map[string]int{
		`null`: 40960,
		`{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}`: 131072, // Qwen's model cards state this.
		`{"type": "yarn", "factor": 4}`: 163840,
		`{"rope_type": "yarn", "factor": 1.0, "original_max_position_embeddings": 4096}`:   40960,
		`{"type": "linear", "factor": 4.0}`:                                                163840,
		`{"type": "dynamic", "factor": 2.0}`:                                               81920,
		`{"rope_type": "llama3", "factor": 8.0, "original_max_position_embeddings": 8192}`: 40960,
		`{"rope_type": "longrope", "factor": 32.0}`:                                        40960,
		`{"rope_type": "default"}`:                                                         40960,
	} {
		m, err := Read("x", fmt.Appendf(nil, config, rope))
		if err != nil || m.MaxContext != want {
			t.Errorf("%s: %v, %v; want %d", rope, m, err, want)
		}
	}
	for rope, want := range map[string]string{
		`"yarn"`:                            `rope_scaling is the text "yarn"; want an object`,
		`{"type": "yarn", "factor": -4}`:    "rope_scaling.factor is -4; want a number from 0",
		`{"type": "linear", "factor": "4"}`: `rope_scaling.factor is the text "4"; want a number`,
		`{"type": "yarn", "factor": 4, "original_max_position_embeddings": 0}`: "rope_scaling.original_max_position_embeddings is 0; want a " +
			"whole number from 1",
	} {
		if _, err := Read("x", fmt.Appendf(nil, config, rope)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %s", rope, err, want)
		}
	}
}
