package models

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/models/safetensors"
	"llmprof/unit"
)

// tensorsOf are those that transformers makes, in 16 bits.
func (b *built) tensorsOf(t testing.TB) Tensors {
	t.Helper()
	all := make(Tensors, len(b.Tensors))
	for _, pair := range b.Tensors {
		var name string
		e := safetensors.Entry{DType: "BF16", Shape: []int64{}}
		testkit.Must(t, json.Unmarshal(pair[0], &name))
		testkit.Must(t, json.Unmarshal(pair[1], &e.Shape))
		e.Offsets = []int64{0, 2 * e.Elements()}
		all[name] = e
	}
	return all
}

// unknown is the config of a family that nobody knows.
func (b *built) unknown(t testing.TB) []byte {
	t.Helper()
	var config map[string]any
	testkit.Must(t, json.Unmarshal(b.Config, &config))
	config["model_type"], config["architectures"] = "tomorrow", []string{"TomorrowForCausalLM"}
	text, err := json.Marshal(config)
	testkit.Must(t, err)
	return text
}

// figures are what is priced of a model: its parameters, caches and states, and the sizes of its products, each as often as there is one.
func figures(m *Model) string {
	products := make(map[string]int)
	for l, b := range m.Blocks() {
		_ = b.visit(func(p part, m *Linear) error {
			copies := 1
			if p == expertPart {
				copies = b.Experts.Count
			}
			products[fmt.Sprintf("%d by %d", m.Out, m.In)] += l.Count * copies * max(m.Times, 1)
			return nil
		})
		if a := b.Attention; a != nil {
			products[fmt.Sprint("attention ", a.Heads, a.KVHeads, a.KeyDim, a.ValueDim, a.Window)] += l.Count
		}
	}
	return fmt.Sprintf("%d parameters, %d active, %v of cache, %v of state; %v", m.Params(), m.ActiveParams(),
		m.CacheBytes(100_000, unit.BF16), m.StateBytes(unit.BF16), products)
}

// Families that are known, read without their code by their tensors, are the same models; the others are refused.
func TestTensorsTellFamilies(t *testing.T) {
	same, refused := 0, 0
	for _, b := range readBuilt(t) {
		if b.Tensors == nil {
			continue
		}
		known, err := Read(b.ModelType, b.Config)
		testkit.Must(t, err)
		m, err := Checkpoint{Config: b.unknown(t), Tensors: b.tensorsOf(t)}.Read("x")
		if err != nil {
			t.Logf("%s: %v", b.ModelType, err)
			refused++
			continue
		}
		if got, want := figures(m), figures(known); got != want {
			t.Errorf("%s:\n%s\nwant\n%s", b.ModelType, got, want)
			continue
		}
		if !slices.Contains(m.Notes, "its family is not known: its shape is concluded from its tensors") {
			t.Errorf("%s: notes %q", b.ModelType, m.Notes)
		}
		same++
	}
	t.Logf("%d are the same, %d are refused", same, refused)
	if same < 30 {
		t.Errorf("%d families", same)
	}
}

// cut is a config of one layer, without what is null.
func cut(t testing.TB, text []byte) []byte {
	t.Helper()
	var config map[string]any
	testkit.Must(t, json.Unmarshal(text, &config))
	for field, v := range config {
		list, ok := v.([]any)
		switch {
		case v == nil || strings.HasPrefix(field, "id2") || strings.HasPrefix(field, "label2"):
			delete(config, field)
		case ok && len(list) > 1:
			config[field] = list[:1]
		case field == "num_hidden_layers":
			config[field] = 1
		}
	}
	text, err := json.Marshal(config)
	testkit.Must(t, err)
	return text
}

// FuzzTensors: whatever the tensors of a family that is not known, there is a model with finite counts or an error.
func FuzzTensors(f *testing.F) {
	for _, b := range readBuilt(f) {
		if b.Tensors == nil {
			continue
		}
		all := b.tensorsOf(f) // of one layer, since the fuzzer is slow with large inputs
		for name := range all {
			if found := layerNumber().FindStringSubmatch(name); found != nil && found[1] != "0" {
				delete(all, name)
			}
		}
		text, err := json.Marshal(all)
		testkit.Must(f, err)
		f.Add(cut(f, b.unknown(f)), text)
	}
	f.Fuzz(func(t *testing.T, config, header []byte) {
		all, err := safetensors.ParseEntries(header)
		if err != nil {
			return
		}
		for _, lenient := range []bool{false, true} {
			if m, err := (Checkpoint{Config: config, Tensors: all, Lenient: lenient}).Read("fuzz"); err == nil {
				checkCounts(t, m)
			}
		}
	})
}
