//go:build linux

package transformers_test

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// gone waits for a process to end. A process of another parent is a zombie for a
// moment; what is left of it in /proc then has no command line.
func gone(t *testing.T, pid int) {
	t.Helper()
	for range 200 {
		text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err != nil || len(text) == 0 {
			return
		}
		time.Sleep(25 * time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}
