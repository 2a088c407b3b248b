//go:build (!unix && !windows) || solaris || illumos || aix

package atomicfile

import (
	"errors"
	"os"
)

// TryLock refuses, since the system has no locks.
func TryLock(*os.File) error { return errors.ErrUnsupported }
