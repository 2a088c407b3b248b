package models

import (
	"strings"
	"testing"
)

// A dtype that nobody here knows is named, and not taken for 16 bits; where none is stated, 16 bits are.
func TestUnknownDtype(t *testing.T) {
	config := func(dtype string) []byte {
		return []byte(`{"model_type":"llama","hidden_size":512,"intermediate_size":1024,"num_hidden_layers":2,"num_attention_heads":8,` +
			`"num_key_value_heads":8,"vocab_size":1024,
			"max_position_embeddings":4096,"hidden_act":"silu","rms_norm_eps":1e-5,"tie_word_embeddings":false` + dtype + `}`)
	}
	for dtype, want := range map[string]string{
		`,"torch_dtype":"complex64"`: `torch_dtype is the text "complex64": want float32`, `,"dtype":5`: "dtype is 5: want float32",
		`,"dtype":["bfloat16"]`: "dtype is a list: want float32",
		"":                      "", `,"dtype":null`: "", `,"torch_dtype":"auto"`: "", `,"torch_dtype":"torch.bfloat16"`: "",
	} {
		_, err := Read("x", config(dtype))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", dtype, err, want)
		}
	}
}
