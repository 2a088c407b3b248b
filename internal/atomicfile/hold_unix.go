//go:build unix && !solaris && !illumos && !aix

package atomicfile

import (
	"os"
	"syscall"
)

// hold locks a temporary file. The lock ends with the process, however that ends.
func hold(name string) *os.File { return lock(name, syscall.LOCK_EX) }

// removeUnheld removes a temporary file that no process holds.
func removeUnheld(name string) {
	if f := lock(name, syscall.LOCK_EX|syscall.LOCK_NB); f != nil {
		_ = os.Remove(name)
		_ = f.Close()
	}
}

// lock opens a file and locks it. It is nil where that fails, as on file systems without locks.
func lock(name string, how int) *os.File {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	if err := syscall.Flock(int(f.Fd()), how); err != nil {
		_ = f.Close()
		return nil
	}
	return f
}
