package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestGraphInterrupted leaves the old file as it was, and no other beside it.
func TestGraphInterrupted(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "g.svg")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	a := &app{stdout: &out, stderr: &errs, env: func(string) string { return "" }}
	root := a.root()
	root.SetArgs([]string{"graph", "--model", "llama3.2-1b", "--gpu", "h100", "-o", path})
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := root.ExecuteContext(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v", err)
	}
	got, err := os.ReadFile(path)
	if err != nil || string(got) != "old" {
		t.Errorf("the file holds %q, error %v", got, err)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("%d files are left", len(files))
	}
}
