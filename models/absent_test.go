package models

import (
	"encoding/json"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// A field that is left out takes what transformers takes for it, or is an
// error that names it: without any one field, no default config reads as
// another model.
func TestAbsentFieldTakesItsDefault(t *testing.T) {
	for _, file := range []string{"defaults", "more"} {
		for _, c := range readCounted(t, "testdata/"+file+".jsonl") {
			switch c.ModelType {
			case "dots1", "nemotron", "hunyuan_v1_moe", "lfm2_moe":
				continue // their classes have no defaults that a model can be built from
			}
			var config map[string]json.RawMessage
			testkit.Must(t, json.Unmarshal(c.Config, &config))
			for field, value := range config {
				if field == "model_type" {
					continue
				}
				delete(config, field)
				without, err := json.Marshal(config)
				testkit.Must(t, err)
				m, err := Read(c.ModelType, without)
				if err == nil && m.Params()+allotted(m) != c.Params {
					t.Errorf("%s without %s (%.60s): %d parameters, want %d", c.ModelType, field, value, m.Params(), c.Params)
				}
				if err != nil && !strings.Contains(err.Error(), "missing") {
					t.Errorf("%s without %s: error %v does not say what is missing", c.ModelType, field, err)
				}
				config[field] = value
			}
		}
	}
}
