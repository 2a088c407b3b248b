//go:build unix && !solaris && !illumos && !aix

package atomicfile

import (
	"os"
	"syscall"
)

// hold locks a temporary file. The lock ends with the process, however that ends.
func hold(name string) *os.File {
	f, err := os.Open(name)
	if err != nil {
		return nil
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil { // as on file systems without locks
		_ = f.Close()
		return nil
	}
	return f
}

// removeUnheld removes a temporary file that no process holds.
func removeUnheld(name string) {
	f, err := os.Open(name)
	if err != nil {
		return
	}
	if TryLock(f) == nil {
		_ = os.Remove(name)
	}
	_ = f.Close()
}
