package models

import (
	"fmt"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// llama is a small but whole config, in which tests replace one thing.
const llama = `{"model_type":"llama","vocab_size":32000,"hidden_size":4096,"intermediate_size":11008,` +
	`"num_hidden_layers":32,"num_attention_heads":32,"num_key_value_heads":8,"max_position_embeddings":4096}`

// Each bad config is an error that names the field and says what is wrong.
func TestReadRefuses(t *testing.T) {
	replace := func(old, by string) string {
		out := strings.Replace(llama, old, by, 1)
		if out == llama {
			t.Fatalf("%s is not in the config", old)
		}
		return out
	}
	withLayers := func(extra string) string { return replace(`"model_type":"llama"`, extra) }
	for _, c := range []struct{ name, config, want string }{
		{"nothing", ``, "ends too early"},
		{"not an object", `[1]`, "want a JSON object"},
		{"cut off", llama[:80], "early"},
		{"text after the end", llama + `{}`, "after its end"},
		{"two commas", replace(`,`, `,,`), "not valid JSON"},
		{"a key twice", replace(`"vocab_size"`, `"hidden_size"`), `key "hidden_size" twice`},
		{"deep nesting", replace(`32000`, strings.Repeat(`[`, 10000)), "nested more than 32 deep"},
		{"an output of llmprof", `{"schema":"llmprof.measure/v1"}`, `it is an output of llmprof ("llmprof.measure/v1") and no model`},
		{"no model type", replace(`"model_type":"llama",`, ``), "model_type is missing"},
		{"model type a number", replace(`"llama"`, `7`), "model_type is 7; want a text"},
		{"misspelt model type", replace(`"llama"`, `"lama"`), "near: llama"},
		{"unknown with Llama's fields", replace(`"llama"`, `"brandnew9"`), "does not say what its norms"},
		{"unknown without them", `{"model_type":"brandnew9"}`, "lack vocab_size, hidden_size"},
		{"an encoder", `{"model_type":"bert"}`, "encoder"},
		{"missing size", replace(`"hidden_size":4096,`, ``), "hidden_size is missing"},
		{"null size", replace(`4096,"int`, `null,"int`), "hidden_size is missing"},
		{"zero size", replace(`4096,"int`, `0,"int`), "hidden_size is 0; want a whole number from 1"},
		{"negative", replace(`:32,"num_att`, `:-32,"num_att`), "num_hidden_layers is -32"},
		{"huge", replace(`:32,"num_att`, `:1e30,"num_att`), "num_hidden_layers is 1e30"},
		{"many layers", replace(`:32,"num_att`, `:10001,"num_att`), "at most 10000 layers"},
		{"a fraction", replace(`11008`, `11008.5`), "intermediate_size is 11008.5; want a whole number"},
		{"a text", replace(`11008`, `"11008"`), `intermediate_size is the text "11008"; want a whole number`},
		{"a list", replace(`11008`, `[11008]`), "intermediate_size is a list; want a whole number"},
		{"NaN", replace(`11008`, `NaN`), `intermediate_size is the text "NaN"`},
		{"infinity", replace(`11008`, `-Infinity`), `intermediate_size is the text "-Infinity"`},
		{"a switch that is no switch", replace(`"model_type"`, `"attention_bias":"yes","model_type"`), "attention_bias is the text"},
		{"heads do not divide", replace(`_heads":32`, `_heads":33`), "num_attention_heads (33) is not a multiple of num_key_value_heads (8)"},
		{"width does not divide", replace(`4096,"int`, `4100,"int`), "hidden_size (4100) is not a multiple of num_attention_heads (32)"},
		{"all at the limit", strings.NewReplacer(`4096,"int`, `16777216,"int`, `11008`, `16777216`).Replace(llama), "parameters"},
		{"layer types too few", withLayers(`"layer_types":["full_attention"],"model_type":"llama"`), "layer_types has 1 entries for 32 layers"},
		{"top k", `{"model_type":"mixtral","vocab_size":9,"hidden_size":8,"intermediate_size":8,"num_hidden_layers":1,` +
			`"num_attention_heads":1,"num_key_value_heads":1,"num_local_experts":2,"num_experts_per_tok":3}`,
			"num_experts_per_tok (3) is more than num_local_experts (2)"},
		{"pattern", `{"model_type":"nemotron_h","hybrid_override_pattern":"M-X*"}`, `letter 'X' at 2; known are M`},
		{"pattern length", `{"model_type":"nemotron_h","hybrid_override_pattern":"M-M*","num_hidden_layers":5}`, "4 letters for 5 layers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read(c.name, []byte(c.config))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v; want one with %q", err, c.want)
			}
		})
	}
}

// A layer type of another family is named, with those that this one knows.
func TestReadUnknownLayerType(t *testing.T) {
	config := strings.Replace(llama, `"num_hidden_layers":32`, `"num_hidden_layers":1,"layer_types":["mamba"]`, 1)
	_, err := Read("x", []byte(config))
	if err == nil || !strings.Contains(err.Error(), `"linear_attention" is not understood (known: attention, chunked_attention`) {
		t.Errorf("error %v", err)
	}
}

func TestReadRefusesLargeFiles(t *testing.T) {
	_, err := Read("x", make([]byte, 100_000_000))
	if err == nil || !strings.Contains(err.Error(), "larger than 8.4 MB") {
		t.Errorf("error %v", err)
	}
}

// transformers writes bare Infinity where a limit has no end.
func TestReadAcceptsInfinityElsewhere(t *testing.T) {
	config := strings.Replace(llama, `{`, `{"time_step_limit":[0.0,Infinity],"_name_or_path":"Infinity, \"NaN\"",`+
		`"attention_dropout":-Infinity,`, 1)
	m, err := Read("x", []byte(config))
	testkit.Must(t, err)
	if m.NumLayers() != 32 {
		t.Errorf("%d layers", m.NumLayers())
	}
}

// As many layers as are read are one kind, counted.
func TestReadManyLayers(t *testing.T) {
	types := strings.Repeat(`"full_attention",`, maxLayers-1) + `"full_attention"`
	layers := fmt.Sprintf(`"num_hidden_layers":%d,"layer_types":[%s]`, maxLayers, types)
	config := strings.NewReplacer(`"num_hidden_layers":32`, layers, `4096,"int`, `64,"int`).Replace(llama)
	m, err := Read("x", []byte(config))
	testkit.Must(t, err)
	if len(m.Layers) != 1 || m.Layers[0].Count != maxLayers {
		t.Errorf("%d kinds of layers", len(m.Layers))
	}
}
