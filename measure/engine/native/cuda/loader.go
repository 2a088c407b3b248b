//go:build linux && (amd64 || arm64)

package cuda

import (
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/ebitengine/purego"
)

// load opens a library, by a path or by a name that the loader searches for.
func load(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
}

// linkMap is the head of glibc's and musl's struct link_map (link.h).
type linkMap struct {
	_    uintptr
	name *byte
}

// place is the path of an open library as the loader found it, and the name that it was
// opened by where the loader does not report it.
func place(handle uintptr, name string) string {
	dlinfo, err := purego.Dlsym(purego.RTLD_DEFAULT, "dlinfo")
	if err != nil {
		return name
	}
	const linkMapOf = 2 // RTLD_DI_LINKMAP
	var m *linkMap
	if failed, _, _ := purego.SyscallN(dlinfo, handle, linkMapOf, uintptr(unsafe.Pointer(&m))); int32(failed) != 0 || m == nil {
		return name
	}
	if path := goString(m.name); path != "" {
		return path
	}
	return name
}

// bind finds the functions of a library that is open; fns maps each name to a
// pointer to a function variable.
func bind(handle uintptr, library string, fns map[string]any) error {
	for _, name := range slices.Sorted(maps.Keys(fns)) {
		sym, err := purego.Dlsym(handle, name)
		if err != nil {
			return fmt.Errorf("cuda: %s has no %s; a newer one is needed: %w", library, name, err)
		}
		purego.RegisterFunc(fns[name], sym)
	}
	return nil
}
