//go:build linux && (amd64 || arm64)

package cuda

import (
	"fmt"
	"maps"
	"slices"

	"github.com/ebitengine/purego"
)

// load opens a library, by a path or by a name that the loader searches for.
func load(path string) (uintptr, error) {
	return purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
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
