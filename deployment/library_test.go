package deployment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/analytic"
)

// A user's table is looked for in the user's configuration folder.
func TestUserFile(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if path, err := userFile(); err != nil || !strings.HasSuffix(path, filepath.Join("llmprof", "hardware.toml")) {
		t.Errorf("user file is %q, %v", path, err)
	}
}

// A host that is described, and no placement, holds what the GPU has no room for.
func TestDescribedHostHoldsTheRest(t *testing.T) {
	r := Request{Model: "gpt-oss-120b", GPU: "rtx-4090", Engine: "llama.cpp", Host: "ddr5-6000x2"}
	d, err := Open(os.Getenv).Resolve(t.Context(), &r)
	if err != nil {
		t.Fatal(err)
	}
	e, err := analytic.Predict(&d.Case)
	if err != nil || !e.Memory.Fits() {
		t.Errorf("%v of memory: %v", e.Memory.Total, err)
	}
}
