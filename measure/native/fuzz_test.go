package native

import (
	"errors"
	"maps"
	"slices"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/models"
)

// For every config.json the engine either runs the model, with finite angles and sizes that fit an
// integer, or refuses it.
func FuzzShape(f *testing.F) {
	for _, config := range slices.Sorted(maps.Values(tiny())) {
		f.Add([]byte(config), 1, 16, 4)
	}
	f.Add([]byte(llama8B), 8, 1024, 128)
	f.Add([]byte(`{"model_type":"llama","hidden_size":16777152,"intermediate_size":16777152,"num_hidden_layers":9999,"num_attention_heads":8,
		"num_key_value_heads":1,"head_dim":128,"vocab_size":16777216}`), 65535, 1<<24, 1)
	f.Fuzz(func(t *testing.T, config []byte, batch, prompt, gen int) {
		m, err := models.Read("m", config)
		if err != nil {
			return
		}
		o := &Options{Model: m, Config: config, Workload: operator.Workload{Batch: batch, PromptLen: prompt, GenLen: gen}}
		if err := Check(o); err != nil {
			var no *UnsupportedError
			if !errors.As(err, &no) {
				t.Fatalf("%v is no UnsupportedError", err)
			}
			return
		}
		s, err := readShape(m, config)
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range s.rope.frequencies(s.headDim) {
			if !(v >= 0 && v <= 1) {
				t.Fatalf("frequency %d is %v: %+v", i, v, s.rope)
			}
		}
		w, b := layout(&s), measureBuffers(&s, o, 132)
		if w.bytes() <= 0 || b.total <= 0 || b.kv <= 0 || w.bytes()+b.total < 0 || paramsOf(w) != m.Params() {
			t.Fatalf("%d bytes of weights, %d of buffers, %d of cache; %d parameters of %d", w.bytes(), b.total, b.kv, paramsOf(w), m.Params())
		}
	})
}
