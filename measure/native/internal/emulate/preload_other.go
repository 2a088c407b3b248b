//go:build !linux || (!amd64 && !arm64)

package emulate

const canPreload = false

func preload(string) error { return ErrNoCompiler }
