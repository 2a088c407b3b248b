//go:build unix

package transformers_test

import (
	"syscall"
	"testing"
)

func kill(t *testing.T, pid int) {
	t.Helper()
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
}
