//go:build linux && (amd64 || arm64)

package emulate

import "github.com/ebitengine/purego"

const canPreload = true

// preload opens the library for the whole process: the loader knows one that is
// open by the name inside it, and so the engine, which opens libcuda.so.1, gets
// this one.
func preload(path string) error {
	_, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_GLOBAL)
	return err
}
