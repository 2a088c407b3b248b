//go:build !linux || (!amd64 && !arm64)

package cuda

import (
	"errors"
	"runtime"
)

// errSystem is why nothing can be opened: the names of the libraries, and how
// they are called, are those of Linux on processors that have a CUDA driver.
var errSystem = errors.New("this program runs CUDA on Linux on x86-64 and 64-bit Arm alone, not on " + runtime.GOOS + "/" + runtime.GOARCH)

func load(string) (uintptr, error) { return 0, errSystem }

func place(_ uintptr, name string) string { return name }

func bind(uintptr, string, any) error { return errSystem }
