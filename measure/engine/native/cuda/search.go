package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ebitengine/purego"
)

// A MissingError says that none of a library's names could be opened.
type MissingError struct {
	Library string   // what it is for people: "NVRTC"
	Tried   []string // paths and names, in the order in which they were tried
	Reasons []string // what the loader said of each of them
}

// Error names the library and where it was searched.
func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cuda: %s not found; searched:", e.Library)
	for i, t := range e.Tried {
		fmt.Fprintf(&b, "\n\t%s: %s", t, e.Reasons[i])
	}
	return b.String()
}

// A library is one of NVIDIA's, with its file names, newest first.
type library struct {
	name   string
	files  []string
	wheel  []string // folders below site-packages/nvidia that pip's wheels put it in
	beside string   // pattern of files beside it that it opens itself
}

func driverLibrary() library {
	return library{name: "the NVIDIA driver (libcuda)", files: []string{"libcuda.so.1"}}
}

func nvrtcLibrary() library {
	return library{name: "NVRTC, CUDA's run-time compiler", files: []string{"libnvrtc.so.13", "libnvrtc.so.12"}, wheel: []string{"cu13", "cuda_nvrtc"}, beside: "libnvrtc-builtins.so.*"}
}

func cublasLibrary() library {
	return library{name: "cuBLASLt", files: []string{"libcublasLt.so.13", "libcublasLt.so.12"}, wheel: []string{"cu13", "cublas"}}
}

// open opens the first file of l that can be: in folder alone if one is named,
// else by the loader's own search, then in the toolkit's folders and in those
// of pip's wheels.
func (l library) open(folder string) (uintptr, error) {
	missing := &MissingError{Library: l.name}
	for _, path := range l.candidates(folder) {
		l.before(path)
		h, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
		if err == nil {
			return h, nil
		}
		missing.Tried = append(missing.Tried, path)
		missing.Reasons = append(missing.Reasons, reason(err, path))
	}
	return 0, missing
}

// before opens what a library opens by name at some later time, and would not
// find if it lies in a folder that the loader does not search.
func (l library) before(path string) {
	if l.beside == "" || !strings.Contains(path, "/") {
		return
	}
	found, _ := filepath.Glob(filepath.Join(filepath.Dir(path), l.beside)) // a folder with [ matches nothing
	for _, f := range found {
		_, _ = purego.Dlopen(f, purego.RTLD_NOW|purego.RTLD_GLOBAL) // the library itself says if it lacks it
	}
}

// reason is what the loader said, less the path that it begins with.
func reason(err error, path string) string {
	return strings.TrimPrefix(err.Error(), path+": ")
}

// candidates are the paths and names to try. The driver comes with the kernel
// module, so a folder of CUDA libraries does not replace the loader's search
// for it.
func (l library) candidates(folder string) []string {
	var paths []string
	if folder != "" {
		for _, f := range l.files {
			paths = append(paths, filepath.Join(folder, f))
		}
		if len(l.wheel) > 0 {
			return paths
		}
	}
	paths = append(paths, l.files...)
	for _, d := range l.folders() {
		for _, f := range l.files {
			if p := filepath.Join(d, f); exists(p) {
				paths = append(paths, p)
			}
		}
	}
	return paths
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}

// folders are the usual places of l: of the toolkit, of the driver in
// containers, and of pip's wheels in the environments that can be seen.
func (l library) folders() []string {
	dirs := []string{"/usr/local/nvidia/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib/wsl/lib"}
	for _, v := range []string{"CUDA_HOME", "CUDA_PATH"} {
		if home := os.Getenv(v); home != "" {
			dirs = append(dirs, filepath.Join(home, "lib64"))
		}
	}
	dirs = append(dirs, "/usr/local/cuda/lib64")
	toolkits, _ := filepath.Glob("/usr/local/cuda-*/lib64") // the pattern is well formed
	slices.Reverse(toolkits)                                // newest first
	dirs = append(dirs, toolkits...)
	for _, site := range sitePackages() {
		for _, w := range l.wheel {
			dirs = append(dirs, filepath.Join(site, "nvidia", w, "lib"))
		}
		if len(l.wheel) > 0 {
			dirs = append(dirs, filepath.Join(site, "torch", "lib"))
		}
	}
	return dirs
}

// sitePackages are the folders that pip installs to: of an active environment,
// of a .venv beside the working directory, of the Pythons on PATH, and of the
// user.
func sitePackages() []string {
	var roots []string
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if r := os.Getenv(v); r != "" {
			roots = append(roots, r)
		}
	}
	roots = append(roots, ".venv")
	for _, bin := range filepath.SplitList(os.Getenv("PATH")) {
		if exists(filepath.Join(bin, "python3")) {
			roots = append(roots, filepath.Dir(bin))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, filepath.Join(home, ".local"))
	}
	var sites []string
	for _, r := range roots {
		for _, name := range []string{"site-packages", "dist-packages"} {
			found, _ := filepath.Glob(filepath.Join(r, "lib", "python3*", name)) // a root with [ matches nothing
			sites = append(sites, found...)
		}
	}
	return slices.Compact(sites)
}

// bind finds the functions of a library that is open; fns maps each name to a
// pointer to a function variable.
func bind(handle uintptr, library string, fns map[string]any) error {
	for name, fn := range fns {
		sym, err := purego.Dlsym(handle, name)
		if err != nil {
			return fmt.Errorf("cuda: %s has no %s (too old?): %w", library, name, err)
		}
		purego.RegisterFunc(fn, sym)
	}
	return nil
}
