package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestNamesInDocs checks that the document of experiment files names every other name of a setting, and every name
// without effect.
func TestNamesInDocs(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("..", "..", "..", "..", "docs", "experiments.md"))
	if err != nil {
		t.Fatal(err)
	}
	for key := range renames() {
		if !strings.Contains(string(data), "`"+key+"`") {
			t.Errorf("docs/experiments.md does not say what becomes of %s", key)
		}
	}
	for key := range voids() {
		if !strings.Contains(string(data), "`"+key+"`") {
			t.Errorf("docs/experiments.md does not say that %s has no effect", key)
		}
	}
}
