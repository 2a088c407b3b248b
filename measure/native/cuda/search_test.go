package cuda

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// If a folder is named, only that folder is searched, and the error says so.
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

// The error for a file that is no library has the loader's message.
func TestBrokenLibrary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the loader is Linux's")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "libnvrtc.so.13")
	testkit.Must(t, os.WriteFile(path, []byte("no ELF"), 0o644))
	if _, err := OpenCompiler(dir); err == nil || !strings.Contains(err.Error(), path+": ") {
		t.Errorf("%v does not say what is wrong with %s", err, path)
	}
}

// Without a folder the toolkit's folders and those of pip's wheels are searched.
func TestSearchedFolders(t *testing.T) {
	home := t.TempDir()
	site := filepath.Join(home, "[env]", "lib", "python3.12", "site-packages")
	wheel := filepath.Join(site, "nvidia", "cu13", "lib")
	testkit.Must(t, os.MkdirAll(wheel, 0o755))
	testkit.Must(t, os.WriteFile(filepath.Join(wheel, "libcublasLt.so.13"), nil, 0o644))
	t.Setenv("VIRTUAL_ENV", filepath.Join(home, "[env]"))
	t.Setenv("CUDA_HOME", filepath.Join(home, "toolkit"))
	paths, empty, err := cublasLibrary().candidates("")
	testkit.Must(t, err)
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

// No folder that depends on the working directory is searched, whatever the environment names,
// because anyone who can write there would choose the code that is loaded.
func TestSearchesAbsoluteFoldersAlone(t *testing.T) {
	here := t.TempDir()
	for _, root := range []string{".venv", "env", "tools"} {
		folder := filepath.Join(here, root, "lib", "python3.12", "site-packages", "nvidia", "cu13", "lib")
		testkit.Must(t, os.MkdirAll(folder, 0o755))
		for _, file := range []string{filepath.Join(folder, "libnvrtc.so.13"), filepath.Join(here, root, "python3"),
			filepath.Join(here, "libnvrtc.so.13")} {
			testkit.Must(t, os.WriteFile(file, nil, 0o755))
		}
	}
	t.Chdir(here)
	t.Setenv("VIRTUAL_ENV", "env")
	t.Setenv("CUDA_HOME", "toolkit")
	t.Setenv("PATH", "tools"+string(filepath.ListSeparator)+os.Getenv("PATH"))
	for _, search := range []string{"", "/opt/cuda:", ":/opt/cuda", "libs:/opt/cuda"} {
		t.Setenv("LD_LIBRARY_PATH", search)
		paths, empty, err := nvrtcLibrary().candidates("")
		testkit.Must(t, err)
		for _, path := range append(paths, empty...) {
			named := slices.Contains(nvrtcLibrary().files, path) // searched by the loader
			if !filepath.IsAbs(path) && (!named || search != "") || strings.HasPrefix(path, here) {
				t.Errorf("LD_LIBRARY_PATH=%q: %s is searched", search, path)
			}
		}
		if search != "" && !slices.Contains(empty, "/opt/cuda") {
			t.Errorf("LD_LIBRARY_PATH=%q: /opt/cuda is not among %v", search, empty)
		}
	}
	if paths, _, err := nvrtcLibrary().candidates("."); err != nil || paths[0] != filepath.Join(here, "libnvrtc.so.13") {
		t.Errorf("the folder . is searched as %v, %v", paths, err)
	}
}

// A library that the loader found by its name is reported with its path.
func TestPlaceOfLibrary(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the loader is Linux's")
	}
	const name = "libm.so.6"
	h, err := load(name)
	if err != nil {
		t.Skipf("no %s here: %v", name, err)
	}
	if path := place(h, name); !filepath.IsAbs(path) || !strings.HasPrefix(filepath.Base(path), "libm") {
		t.Errorf("%s is said to be %s", name, path)
	}
}

// The error for a lack of memory has both amounts.
func TestMemoryError(t *testing.T) {
	err := &MemoryError{What: "the model", GPU: "NVIDIA H200", Needed: 160e9, Free: 139.5e9}
	for _, want := range []string{"the model", "160.00 GB", "139.50 GB", "NVIDIA H200", "20.50 GB short"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in %q", want, err)
		}
	}
}
