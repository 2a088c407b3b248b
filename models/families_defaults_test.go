package models

import (
	"encoding/json"
	"testing"
)

// The defaults of each class are found by its line, and nothing else is.
func TestClassOf(t *testing.T) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(defaultsJSON), &all); err != nil || len(all) < 100 {
		t.Fatalf("%d classes, %v", len(all), err)
	}
	for modelType, want := range all {
		if got := classOf(modelType); got != string(want) {
			t.Errorf("%s: %q, want %q", modelType, got, want)
		}
	}
	for _, modelType := range []string{"", "none", `llama": {"x`} {
		if got := classOf(modelType); got != "" {
			t.Errorf("%q: %q", modelType, got)
		}
	}
}
