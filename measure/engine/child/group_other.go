//go:build !unix

package child

import (
	"os"
	"os/exec"
)

// ownGroup does nothing: where there are no process groups, children of a worker
// see its end by their closed pipes alone.
func ownGroup(*exec.Cmd) {}

// terminate ends a process, for it cannot be asked to.
func terminate(p *os.Process) { _ = p.Kill() }

func kill(p *os.Process) { _ = p.Kill() }
