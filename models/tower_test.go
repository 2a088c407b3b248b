package models_test

import (
	"slices"
	"strings"
	"testing"

	"llmprof"
	"llmprof/internal/testkit"
	"llmprof/models"
)

// A built-in model says which parts of its checkpoint it leaves out, as the checkpoint's whole config does.
func TestBuiltInModelsNameTheirTowers(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	seen := 0
	for _, c := range aiconfigurator(t) {
		built, err := table.Model(c.Name)
		if err != nil {
			continue
		}
		whole, err := models.Checkpoint{Config: []byte(c.Config), Quant: []byte(c.Quant)}.Read(c.Name)
		if err != nil { // TestAIConfigurator has the reason.
			continue
		}
		for _, n := range towers(whole) {
			counted := strings.Replace(n, "is not counted", "counts in the memory of servers alone: the model is priced as text, without "+
				"images and sound", 1)
			if seen++; !slices.Contains(built.Notes, n) && !slices.Contains(built.Notes, counted) {
				t.Errorf("%s: notes %q lack %q", c.Name, built.Notes, n)
			}
		}
	}
	if seen < 10 {
		t.Errorf("%d towers", seen)
	}
}

// encoders are the notes on encoders that a shape leaves out.
func towers(m *models.Model) (notes []string) {
	for _, n := range m.Notes {
		if strings.Contains(n, "tower") {
			notes = append(notes, n)
		}
	}
	return notes
}

// One note names both fields by which a config counts its draft layers.
func TestDraftLayersHaveOneNote(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	m, err := table.Model("minimax-m3")
	testkit.Must(t, err)
	drafts := slices.DeleteFunc(slices.Clone(m.Notes), func(n string) bool { return !strings.Contains(n, "MTP") })
	if len(drafts) != 1 || !strings.Contains(drafts[0], "num_nextn_predict_layers, num_mtp_modules") {
		t.Errorf("%q", drafts)
	}
}
