//go:build unix && !solaris && !illumos && !aix

package atomicfile

import (
	"errors"
	"os"
	"syscall"
)

// TryLock locks an open file until it is closed, however its process ends. It is ErrLocked where another has it.
func TryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}
