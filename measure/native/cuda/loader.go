//go:build linux && (amd64 || arm64)

package cuda

import (
	"fmt"
	"reflect"
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

// bind finds the functions of a library that is open. functions points to a struct, whose fields of
// functions name their symbols by their tags.
func bind(handle uintptr, library string, functions any) error {
	fields := reflect.ValueOf(functions).Elem()
	for i := range fields.NumField() {
		name := fields.Type().Field(i).Tag.Get("symbol")
		if name == "" {
			continue
		}
		sym, err := purego.Dlsym(handle, name)
		if err != nil {
			return fmt.Errorf("cuda: %s has no %s; a newer one is needed: %w", library, name, err)
		}
		f := fields.Field(i)
		purego.RegisterFunc(reflect.NewAt(f.Type(), f.Addr().UnsafePointer()).Interface(), sym)
	}
	return nil
}
