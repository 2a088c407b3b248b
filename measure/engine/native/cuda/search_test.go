package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// A folder that is named is searched alone, and the error says so.
func TestMissingInFolder(t *testing.T) {
	dir := t.TempDir()
	_, err := OpenCompiler(dir)
	var missing *MissingError
	if !errors.As(err, &missing) {
		t.Fatalf("%v is no MissingError", err)
	}
	for _, f := range nvrtcLibrary().files {
		if !slices.Contains(missing.Tried, filepath.Join(dir, f)) {
			t.Errorf("%s was not tried: %v", f, missing.Tried)
		}
	}
	for _, want := range []string{"NVRTC", dir, "--cuda-libs"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %q", want, err)
		}
	}
}

// A file that is no library is named with what the loader says of it.
func TestBrokenLibrary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the loader is Linux's")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "libnvrtc.so.13")
	if err := os.WriteFile(path, []byte("no ELF"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenCompiler(dir); err == nil || !strings.Contains(err.Error(), path+": ") {
		t.Errorf("%v does not say what is wrong with %s", err, path)
	}
}

// Without a folder the toolkit's folders and those of pip's wheels are searched.
func TestSearchedFolders(t *testing.T) {
	home := t.TempDir()
	site := filepath.Join(home, "env", "lib", "python3.12", "site-packages")
	wheel := filepath.Join(site, "nvidia", "cu13", "lib")
	if err := os.MkdirAll(wheel, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(wheel, "libcublasLt.so.13"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("VIRTUAL_ENV", filepath.Join(home, "env"))
	t.Setenv("CUDA_HOME", filepath.Join(home, "toolkit"))
	paths, empty := cublasLibrary().candidates("")
	if !slices.Contains(paths, filepath.Join(wheel, "libcublasLt.so.13")) {
		t.Errorf("the wheel is not among %v", paths)
	}
	if !slices.Contains(empty, filepath.Join(home, "toolkit", "lib64")) {
		t.Errorf("CUDA_HOME is not among the folders without it: %v", empty)
	}
	if paths[0] != "libcublasLt.so.13" {
		t.Errorf("%s is tried first: want the loader's own search", paths[0])
	}
}

// What is said when memory is short has both amounts in it.
func TestMemoryError(t *testing.T) {
	err := &MemoryError{What: "the model", GPU: "NVIDIA H200", Needed: 160e9, Free: 139.5e9}
	for _, want := range []string{"the model", "160.00 GB", "139.50 GB", "NVIDIA H200", "20.50 GB short"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %q", want, err)
		}
	}
}
