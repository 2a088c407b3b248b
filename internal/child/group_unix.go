//go:build unix

package child

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup puts the command in a process group of its own, so that its children
// end with it, and so that a Ctrl-C on the terminal is ours alone to handle.
func ownGroup(cmd *exec.Cmd, guarded bool) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	dieWithUs(cmd.SysProcAttr, guarded)
}

// terminate asks a group to end.
func terminate(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGTERM) }

// kill ends a group. One that is gone already is no error.
func kill(p *os.Process) { _ = syscall.Kill(-p.Pid, syscall.SIGKILL) }
