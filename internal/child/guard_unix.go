//go:build unix

package child

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// A guard ends a process group when this program has ended, however it did: it is a
// shell in a session of its own, at the other end of a pipe that the system closes
// with this program. Linux's death signal reaches one process; a server's workers
// are others.
type guard struct {
	cmd  *exec.Cmd
	held *os.File // the pipe's end whose closing it waits for
}

// watch waits for the group's number, then for the pipe's end.
const watch = `read -r group || exit 0
while read -r line; do :; done
kill -s TERM -- "-$group"
n=0
while [ $n -lt %d ] && kill -s 0 -- "-$group"; do sleep 1; n=$((n+1)); done
kill -s KILL -- "-$group"`

// startGuard starts a guard that knows no group yet; nil where there is no shell.
func startGuard(grace time.Duration) *guard {
	shell, err := exec.LookPath("sh")
	if err != nil {
		return nil
	}
	theirs, ours, err := os.Pipe()
	if err != nil {
		return nil
	}
	defer theirs.Close()
	cmd := exec.Command(shell, "-c", fmt.Sprintf(watch, max(int(grace.Seconds()), 1)))
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.Stdin, cmd.SysProcAttr = theirs, &syscall.SysProcAttr{Setsid: true}
	if cmd.Start() != nil {
		_ = ours.Close()
		return nil
	}
	return &guard{cmd, ours}
}

// over makes the guard watch the group of a process.
func (g *guard) over(pid int) {
	if g != nil {
		_, _ = io.WriteString(g.held, fmt.Sprintln(pid)) // one that is gone guards nothing
	}
}

// release ends the guard, not its group.
func (g *guard) release() {
	if g == nil {
		return
	}
	_ = g.cmd.Process.Kill()
	_ = g.cmd.Wait()
	_ = g.held.Close()
}
