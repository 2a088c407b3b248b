package atomicfile

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A file has its old content until all of the new is written.
func TestWrite(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "x")
	holds := func(want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		files, _ := os.ReadDir(dir)
		if err != nil || string(got) != want || len(files) != 1 {
			t.Errorf("%q, %v, %d files: want %q in one", got, err, len(files), want)
		}
	}
	if err := WriteFile(path, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds("old")
	broken := errors.New("broken")
	err := Write(path, 0o600, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return broken
	})
	if !errors.Is(err, broken) {
		t.Errorf("%v: want %v", err, broken)
	}
	holds("old")
	if err := WriteFile(path, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	holds("new")
	if err := WriteFile(filepath.Join(dir, "none", "x"), nil, 0o600); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("in a folder that is not there: %v", err)
	}
}
