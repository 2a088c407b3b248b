//go:build !unix || solaris || illumos || aix

package atomicfile

import (
	"os"
	"runtime"
)

// hold does nothing: on Windows a file that is open cannot be removed, and on other systems none is taken for a stale one.
func hold(string) *os.File { return nil }

// removeUnheld removes a temporary file that no process has open.
func removeUnheld(name string) {
	if runtime.GOOS == "windows" {
		_ = os.Remove(name)
	}
}
