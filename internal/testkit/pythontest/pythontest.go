// Package pythontest finds the Python with which tests run real engines.
package pythontest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Find returns a Python with torch and transformers: the one that LLMPROF_PYTHON names, or that of "make
// venv". Without one it skips the test, or fails it if LLMPROF_PYTHON is "required", as CI sets it.
func Find(t testing.TB) string {
	t.Helper()
	named := os.Getenv("LLMPROF_PYTHON")
	if named != "" && named != "required" {
		return named
	}
	path, err := venv()
	switch {
	case err == nil:
	case named == "required":
		t.Fatalf("%s has no torch and transformers: make venv: %v", path, err)
	default:
		t.Skip("no Python with torch and transformers: make venv, or name one in LLMPROF_PYTHON")
	}
	return path
}

// venv finds the Python of "make venv", and checks once that it has torch and transformers. To import them
// takes seconds, and is left to the tests.
var venv = sync.OnceValues(func() (string, error) {
	root, err := moduleRoot()
	if err != nil {
		return "", err
	}
	path := filepath.Join(root, ".venv", "bin", "python")
	return path, exec.Command(path, "-c", "import importlib.metadata as m; m.version('torch'), m.version('transformers')").Run()
})

// moduleRoot is the nearest folder above the test's with a go.mod.
func moduleRoot() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return folder, nil
		}
		above := filepath.Dir(folder)
		if above == folder {
			return "", errors.New("no folder above the test has a go.mod")
		}
		folder = above
	}
}
