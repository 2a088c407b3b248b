package models_test

import (
	"slices"
	"testing"

	"llmprof"
	"llmprof/internal/testkit"
	"llmprof/models"
)

// TestOrderCounts finds the counts of every kind again in the order of layers.
func TestOrderCounts(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	for _, name := range table.Names() {
		m, err := table.Model(name)
		testkit.Must(t, err)
		counts := make([]int, len(m.Layers))
		for i, k := range m.Order {
			if k < 0 || k >= len(m.Layers) {
				t.Fatalf("%s: layer %d is of kind %d of %d", name, i, k, len(m.Layers))
			}
			counts[k]++
		}
		for k := range m.Layers {
			if counts[k] != m.Layers[k].Count {
				t.Errorf("%s: %d layers of kind %q in order, %d counted", name, counts[k], m.Layers[k].Name, m.Layers[k].Count)
			}
		}
	}
}

// TestOrderOfHybrids compares the places of layers with the published configs.
func TestOrderOfHybrids(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	for _, q := range []struct {
		model, kind string
		at          []int
	}{
		// huggingface.co/nvidia/Nemotron-H-8B-Base-8K, hybrid_override_pattern: the places of "*"
		{"nemotron-h-8b", "attention", []int{7, 18, 29, 40}},
		// huggingface.co/deepseek-ai/DeepSeek-V3, first_k_dense_replace: 3
		{"deepseek-v3", "attention + mlp", []int{0, 1, 2}},
	} {
		m, err := table.Model(q.model)
		testkit.Must(t, err)
		var at []int
		for i, k := range m.Order {
			if m.Layers[k].Name == q.kind {
				at = append(at, i)
			}
		}
		if !slices.Equal(at, q.at) {
			t.Errorf("%s has %q at %v, want %v", q.model, q.kind, at, q.at)
		}
	}
}
