package experiment

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// A run of the whole waits for its shards, whatever the folder's name is.
func TestLockOfAFolderNamedAsAPattern(t *testing.T) {
	s := Store{Dir: filepath.Join(t.TempDir(), "[a]*")}
	testkit.Must(t, os.MkdirAll(s.Dir, 0o755))
	shard, err := s.lock("1/2")
	testkit.Must(t, err)
	if whole, err := s.lock(""); err == nil || !strings.Contains(err.Error(), "is in use by another run") {
		t.Errorf("beside a shard: %v, %v", whole, err)
	}
	testkit.Must(t, shard.release())
	whole, err := s.lock("")
	testkit.Must(t, err)
	testkit.Must(t, whole.release())
}
