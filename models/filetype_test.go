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

// unquantizedModel is a model of the table in 16 bits, as the files had it that llama.cpp was given.
func unquantizedModel(t *testing.T, table *models.Table, name string) *models.Model {
	t.Helper()
	text, err := table.Config(name)
	testkit.Must(t, err)
	var config map[string]any
	testkit.Must(t, json.Unmarshal(text, &config))
	delete(config, "quantization_config")
	text, err = json.Marshal(config)
	testkit.Must(t, err)
	m, err := models.Read(name, text)
	testkit.Must(t, err)
	return m
}

// Experts in MXFP4 stay so in every file, of which the sizes are those that the hub and llama.cpp's own figures have: 63.4 GB of
// the "Q8_0" of gpt-oss-120b (https://github.com/AlexsJones/llmfit/issues/1059), 11.27 and 59.02 GiB of the files that
// llama.cpp's benchmarks take (benches/dgx-spark.md).
func TestExpertsStayInMXFP4(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	for name, want := range map[string]float64{"gpt-oss-20b": 11.27 * (1 << 30), "gpt-oss-120b": 59.02 * (1 << 30)} {
		m, err := table.Model(name)
		testkit.Must(t, err)
		if mix := models.PublishedFileType(m); mix != "mxfp4_moe" {
			t.Errorf("%s is published as %q", name, mix)
		}
		for _, mix := range []string{"mxfp4_moe", "q8_0"} {
			q, err := models.Quantize(m, mix)
			testkit.Must(t, err)
			if off := float64(q.StoredBytes())/want - 1; off > 0.002 || off < -0.002 {
				t.Errorf("%s in %s: %v, %+.2f %%", name, mix, q.StoredBytes(), 100*off)
			}
		}
	}
}

// Every quantization of every model has the bytes that llama.cpp has, to the tensor.
func TestQuantizeMeetsLlamaCpp(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	n := 0
	for _, want := range llamaCpp(t) {
		m := unquantizedModel(t, table, want.Model)
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
