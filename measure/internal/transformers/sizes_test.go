package transformers_test

import (
	"testing"

	"llmprof/models"
	"llmprof/unit"
)

// The worker counts tensors, package models shapes: two routes to one number.
func TestSizesAgreeWithTheShapes(t *testing.T) {
	w := common(t)
	for _, name := range []string{"llama", "qwen3moe", "mamba2", "qwen3next", "bamba", "gemma3"} {
		model, err := models.Read(name, tiny(t, name))
		if err != nil {
			t.Error(err)
			continue
		}
		for _, static := range []bool{false, true} {
			if name == "gemma3" && !static {
				continue // a growing window is a view of tensors that are longer
			}
			l := tinyLoad(t, name)
			l.StaticCache = static
			ready := load(t, w, l)
			size, err := w.Size(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			tokens := l.PromptLen
			if static {
				tokens += l.GenLen - 1
			}
			kv := int64(l.Batch) * int64(model.CacheBytes(tokens, unit.FP32))
			check(t, name, "params", ready.Params, model.Params())
			check(t, name, "params_bytes", size.ParamsBytes, 4*model.Params())
			check(t, name, "kv_bytes", size.KVBytes, kv)
			check(t, name, "kv_tokens", int64(size.KVTokens), int64(tokens))
			check(t, name, "state_bytes", size.StateBytes, int64(model.StateBytes(unit.FP32))*int64(l.Batch))
			if size.PeakBytes != nil || size.Activations != nil || size.Reserved != nil {
				t.Errorf("%s: a peak of memory was measured on a CPU: %+v", name, size)
			}
		}
	}
}

func check(t *testing.T, model, what string, got, want int64) {
	t.Helper()
	if got != want {
		t.Errorf("%s: the worker counts %s %d, the shape says %d", model, what, got, want)
	}
}
