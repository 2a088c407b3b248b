//go:build !unix

package child

import (
	"os"
	"os/exec"
	"time"
)

// ownGroup does nothing: where there are no process groups, children of a worker
// see its end by their closed pipes alone.
func ownGroup(*exec.Cmd, bool) {}

// A guard would end a group after this program's end.
type guard struct{}

func startGuard(time.Duration) *guard { return nil }
func (*guard) over(int)               {}
func (*guard) release()               {}

// terminate ends a process, for it cannot be asked to.
func terminate(p *os.Process) { _ = p.Kill() }

func kill(p *os.Process) { _ = p.Kill() }
