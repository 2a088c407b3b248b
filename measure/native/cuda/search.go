package cuda

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"llmprof/internal/input"
)

// A MissingError says that none of a library's names could be opened.
type MissingError struct {
	Library string   // name for people: "NVRTC"
	Tried   []string // paths and names, in the order in which they were tried
	Reasons []string // error of the loader for each file
	Folders []string // folders searched that have none of its files
	Hint    string   // advice for the user
}

// Error names the library, says where it was searched, and what to do.
func (e *MissingError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cuda: cannot open %s", e.Library)
	for i, t := range e.Tried {
		fmt.Fprintf(&b, "; %s: %s", t, e.Reasons[i])
	}
	if len(e.Folders) > 0 {
		fmt.Fprintf(&b, "; it is in none of %s", strings.Join(e.Folders, ", "))
	}
	if e.Hint != "" {
		fmt.Fprintf(&b, "; %s", e.Hint)
	}
	return b.String()
}

// A library is one of NVIDIA's, with its file names, newest first.
type library struct {
	name   string
	files  []string
	wheel  []string // folders below site-packages/nvidia that pip's wheels put it in
	beside string   // pattern of files beside it that it opens itself
	hint   string   // advice where the library is missing
}

// toolkitHint is for the libraries that do not come with the driver.
const toolkitHint = "install the CUDA toolkit 12 or 13, or its wheels by pip (nvidia-cuda-nvrtc, nvidia-cublas), or name their folder " +
	"with --cuda-libs"

func driverLibrary() library {
	return library{
		name: "the NVIDIA driver (libcuda)", files: []string{"libcuda.so.1"},
		hint: "the native engine needs an NVIDIA GPU and its driver on this machine",
	}
}

func nvrtcLibrary() library {
	return library{
		name: "NVRTC, CUDA's run-time compiler", files: []string{"libnvrtc.so.13", "libnvrtc.so.12"},
		wheel: []string{"cu13", "cuda_nvrtc"}, beside: "libnvrtc-builtins.so.*", hint: toolkitHint,
	}
}

func cublasLibrary() library {
	return library{
		name: "cuBLASLt", files: []string{"libcublasLt.so.13", "libcublasLt.so.12"},
		wheel: []string{"cu13", "cublas"}, hint: toolkitHint,
	}
}

// open opens the first file of l that can be: in folder alone if one is named,
// else by the loader's own search, then in the toolkit's folders and in those
// of pip's wheels.
// It says which file that is.
func (l library) open(folder string) (handle uintptr, file string, err error) {
	paths, empty, err := l.candidates(folder)
	if err != nil {
		return 0, "", err
	}
	missing := &MissingError{Library: l.name, Folders: empty, Hint: l.hint}
	for _, path := range paths {
		l.before(path)
		h, err := load(path)
		if err == nil {
			return h, place(h, path), nil
		}
		missing.Tried = append(missing.Tried, path)
		missing.Reasons = append(missing.Reasons, strings.TrimPrefix(err.Error(), path+": "))
	}
	return 0, "", missing
}

// before opens what a library opens by name at some later time, and would not
// find if it lies in a folder that the loader does not search.
func (l library) before(path string) {
	if l.beside == "" || !strings.Contains(path, "/") {
		return
	}
	found, _ := input.Files(filepath.Dir(path), l.beside) // the pattern is well formed
	for _, f := range found {
		_, _ = load(f) // the library itself says if it lacks it
	}
}

// candidates are the paths and names to try, and the folders of those searched
// that have none. The driver comes with the kernel module, so a folder of CUDA
// libraries does not replace the loader's search for it.
func (l library) candidates(folder string) (paths, empty []string, err error) {
	if folder != "" && len(l.wheel) > 0 {
		if folder, err = filepath.Abs(folder); err != nil { // a name without a slash is searched by the loader
			return nil, nil, fmt.Errorf("cuda: the folder of the libraries: %w", err)
		}
		for _, f := range l.files {
			paths = append(paths, filepath.Join(folder, f))
		}
		return paths, nil, nil
	}
	searched, safe := loaderPath()
	if safe {
		paths = append(paths, l.files...)
	}
	for _, d := range append(searched, l.folders()...) {
		before := len(paths)
		for _, f := range l.files {
			if p := filepath.Join(d, f); exists(p) {
				paths = append(paths, p)
			}
		}
		if len(paths) == before {
			empty = append(empty, d)
		}
	}
	return paths, empty, nil
}

// loaderPath is LD_LIBRARY_PATH as far as it is absolute. With an entry that is not, or
// is empty, the loader's own search looks in the working directory, and is not safe.
func loaderPath() (searched []string, safe bool) {
	searched = filepath.SplitList(os.Getenv("LD_LIBRARY_PATH"))
	all := len(searched)
	searched = absolute(searched)
	if len(searched) == all {
		return nil, true // the loader knows them
	}
	return searched, false
}

// absolute drops paths that depend on the working directory: whoever can write there
// would choose what is loaded.
func absolute(paths []string) []string {
	return slices.DeleteFunc(paths, func(path string) bool { return !filepath.IsAbs(path) })
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
	toolkits, _ := input.Files("/usr/local", "cuda-*/lib64") // the pattern is well formed
	slices.Reverse(toolkits)                                 // newest first
	dirs = append(dirs, toolkits...)
	for _, site := range sitePackages() {
		for _, w := range l.wheel {
			dirs = append(dirs, filepath.Join(site, "nvidia", w, "lib"))
		}
		if len(l.wheel) > 0 {
			dirs = append(dirs, filepath.Join(site, "torch", "lib"))
		}
	}
	return absolute(dirs)
}

// sitePackages are the folders that pip installs to: of an active environment,
// of the Pythons on PATH, and of the user.
func sitePackages() []string {
	var roots []string
	for _, v := range []string{"VIRTUAL_ENV", "CONDA_PREFIX"} {
		if r := os.Getenv(v); r != "" {
			roots = append(roots, r)
		}
	}
	for _, bin := range filepath.SplitList(os.Getenv("PATH")) {
		if exists(filepath.Join(bin, "python3")) {
			roots = append(roots, filepath.Dir(bin))
		}
	}
	if home, err := os.UserHomeDir(); err == nil {
		roots = append(roots, filepath.Join(home, ".local"))
	}
	var sites []string
	for _, r := range absolute(roots) {
		for _, name := range []string{"site-packages", "dist-packages"} {
			found, _ := input.Files(filepath.Join(r, "lib"), "python3*/"+name) // the pattern is well formed
			sites = append(sites, found...)
		}
	}
	return slices.Compact(sites)
}
