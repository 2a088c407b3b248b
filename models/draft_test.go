package models_test

import (
	"math"
	"testing"

	"llmprof"
	"llmprof/internal/testkit"
	"llmprof/models"
)

// A draft module has the parameters that its checkpoint has: those of the published files that the model itself does
// not account for, routers' biases left out, with the embedding and the head that the files hold twice.
func TestDraftModule(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	for name, want := range map[string]float64{"glm-4.5": 5539976512, "glm-4.5-air": 3616579328} {
		m, err := table.Model(name)
		testkit.Must(t, err)
		d := m.DraftModule()
		if d == nil || m.Drafts != 1 {
			t.Fatalf("%s: no draft module of %d", name, m.Drafts)
		}
		if got := float64(d.Params()); math.Abs(got-want) > 1e-4*want {
			t.Errorf("%s: the draft module has %.0f parameters, its checkpoint %.0f", name, got, want)
		}
	}
	m, err := table.Model("qwen3-8b")
	if err != nil || m.DraftModule() != nil {
		t.Errorf("qwen3-8b has a draft module: %v", err)
	}
}

// MiniMax-M3's checkpoint has one module for drafts (num_nextn_predict_layers) of the seven that it was trained with
// (num_mtp_modules); those of M2 and its like have none, whatever the config says. Sources: NeMo AutoModel's
// minimax_m3_vl/mtp, https://github.com/MiniMax-AI/MiniMax-M2.7/issues/16.
func TestDraftModulesThatCheckpointsHave(t *testing.T) {
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	for name, want := range map[string]int{"minimax-m3": 1, "minimax-m2": 0, "minimax-m2.5": 0, "step-3.5-flash": 3, "deepseek-v3": 1,
		"qwen3-next-80b-a3b": 1, "qwen3-8b": 0} {
		m, err := table.Model(name)
		testkit.Must(t, err)
		if m.Drafts != want {
			t.Errorf("%s: %d draft layers, want %d", name, m.Drafts, want)
		}
	}
}
