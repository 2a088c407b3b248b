package deployment

import (
	"path/filepath"
	"strings"
	"testing"
)

// A user's table is looked for in the user's configuration folder.
func TestUserFile(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	if path, err := userFile(); err != nil || !strings.HasSuffix(path, filepath.Join("llmprof", "hardware.toml")) {
		t.Errorf("user file is %q, %v", path, err)
	}
}
