package models_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"os"
	"testing"

	"llmprof"
	"llmprof/internal/testkit"
	"llmprof/models"
	"llmprof/unit"
)

// A mixed model is what llama.cpp makes of a model: the bytes of all tensors of each type.
type mixed struct {
	Model, Mix string
	Bytes      map[string]float64
}

// llamaCpp reads what llama_model_quantize of llama.cpp answers in a dry run over files of the models'
// shapes (testdata/llamacpp_mix.py).
func llamaCpp(t *testing.T) []mixed {
	t.Helper()
	data, err := os.ReadFile("testdata/llamacpp_mix.jsonl")
	testkit.Must(t, err)
	var all []mixed
	for lines := bufio.NewScanner(bytes.NewReader(data)); lines.Scan(); {
		var m mixed
		testkit.Must(t, json.Unmarshal(lines.Bytes(), &m))
		all = append(all, m)
	}
	return all
}

// Every quantization of every model has the bytes that llama.cpp has, to the tensor.
func TestQuantizeMeetsLlamaCpp(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	n := 0
	for _, want := range llamaCpp(t) {
		m, err := table.Model(want.Model)
		testkit.Must(t, err)
		q, err := models.Quantize(m, want.Mix)
		if err != nil {
			t.Errorf("%s in %s: %v", want.Model, want.Mix, err)
			continue
		}
		var sum float64
		for _, b := range want.Bytes {
			sum += b
		}
		// Corrections of routers and factors of rotary positions are vectors that the shape may lack.
		if got := float64(q.StoredBytes()); math.Abs(got-sum) > 3e-6*sum {
			t.Errorf("%s in %s: %.0f bytes, llama.cpp has %.0f (%+.0f): %v", want.Model, want.Mix, got, sum, got-sum, want.Bytes)
		}
		if q.Params() != m.Params() || q.NumLayers() != m.NumLayers() || q.KVBytesPerToken(unit.BF16) != m.KVBytesPerToken(unit.BF16) {
			t.Errorf("%s in %s is another model", want.Model, want.Mix)
		}
		n++
	}
	if n < 470 {
		t.Errorf("%d mixes compared", n)
	}
}
