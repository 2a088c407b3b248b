package measure

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/casetest"
	"llmprof/measure/experiment"
	"llmprof/measure/native/cuda"
	"llmprof/models"
	"llmprof/unit"
)

func nativeLab(t *testing.T) *Lab {
	t.Helper()
	table, gpus := casetest.Tables(t)
	return &Lab{Models: models.Resolver{Table: table, Hub: models.Hub{Offline: true}}, GPUs: gpus, Root: os.DirFS("/"), Env: os.Getenv}
}

const nativeTiny = `{"model_type": "llama", "hidden_size": 256, "intermediate_size": 128, "num_hidden_layers": 2,
"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 128}`

// A model's own weights are taken where they lie beside its config.json, and
// random ones only where there are none.
func TestNativeWeights(t *testing.T) {
	bare, whole := t.TempDir(), t.TempDir()
	for path, text := range map[string]string{
		filepath.Join(bare, "config.json"): nativeTiny, filepath.Join(whole, "config.json"): nativeTiny,
		filepath.Join(whole, "model.safetensors"): "\x02\x00\x00\x00\x00\x00\x00\x00{}", // a header without a tensor
	} {
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	lab := nativeLab(t)
	for _, c := range []struct {
		name, model, given string
		asked, random      bool
		weights            string
	}{
		{"built-in", "llama3.1-8b", "", false, true, ""},
		{"by its hub id", "meta-llama/Llama-3.1-8B", "", true, true, ""},
		{"folder without", bare, "", false, true, ""},
		{"folder with", whole, "", false, false, whole},
		{"folder with, but random", whole, "", true, true, ""},
		{"given", bare, whole, false, false, whole},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := experiment.Default()
			p.Engine, p.Model, p.WeightsDir, p.RandomWeights = experiment.Native, c.model, c.given, c.asked
			set, err := lab.settings(t.Context(), &p)
			testkit.Must(t, err)
			if set.Load.RandomWeights != c.random || set.Model.RandomWeights != c.random || set.Load.Weights != c.weights {
				t.Errorf("random %v, said %v, weights %q; want %v, %q", set.Load.RandomWeights, set.Model.RandomWeights, set.Load.Weights, c.random,
					c.weights)
			}
			if !json.Valid(set.Load.Config) || !strings.Contains(string(set.Load.Config), "llama") {
				t.Errorf("config.json %.60q", set.Load.Config)
			}
		})
	}
}

// Without a GPU, or for what the native engine does not have, transformers is
// the engine.
func TestEngineChosen(t *testing.T) {
	lab := nativeLab(t)
	ready := cuda.Ready("") == nil
	for _, c := range []struct {
		name   string
		change func(*experiment.Point)
		native bool
	}{
		{"llama", func(*experiment.Point) {}, ready},
		{"fp16", func(p *experiment.Point) { p.DType = "fp16" }, false},
		{"another Python", func(p *experiment.Point) { p.Python = "python3" }, false},
		{"two GPUs", func(p *experiment.Point) { p.TP = 2 }, ready && cuda.Together("", 2) == nil},
		{"four", func(p *experiment.Point) { p.TP = 4 }, ready && cuda.Together("", 4) == nil},
		{"more than have been tried", func(p *experiment.Point) { p.TP = 8 }, false},
		{"deepseek", func(p *experiment.Point) { p.Model = "deepseek-v3" }, false},
		{"no such model", func(p *experiment.Point) { p.Model = "nothing" }, false},
		{"weights of the hub", func(p *experiment.Point) { p.Model = "meta-llama/Llama-3.1-8B" }, false},
		{"random ones of its shape", func(p *experiment.Point) { p.Model, p.RandomWeights = "meta-llama/Llama-3.1-8B", true }, ready},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := experiment.Default()
			p.Model = "llama3.1-8b"
			c.change(&p)
			want := map[bool]string{true: experiment.Native, false: experiment.Transformers}[c.native]
			if got := lab.Engine(t.Context(), p); got != want {
				t.Errorf("%s, want %s", got, want)
			}
		})
	}
}

// The least window of energy is the point's, or the lab's, or the measurer's.
func TestWindowSetting(t *testing.T) {
	lab := nativeLab(t)
	p := experiment.Default()
	p.Model, p.RandomWeights = "llama3.2-1b", true
	for _, c := range []struct {
		point unit.Seconds
		lab   time.Duration
		want  time.Duration
	}{{0, 0, defaultWindow}, {2, 0, 2 * time.Second}, {3, time.Second, 3 * time.Second}, {0, time.Second, time.Second}} {
		p.Window, lab.Window = c.point, c.lab
		set, err := lab.settings(t.Context(), &p)
		if err != nil || set.Window != c.want {
			t.Errorf("%v of the point, %v of the lab: %v, %v, want %v", c.point, c.lab, set, err, c.want)
		}
	}
}
