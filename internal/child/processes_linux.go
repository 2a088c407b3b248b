package child

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"llmprof/internal/procfs"
)

// dieWithUs has the system signal the process when the thread that started it has
// ended. With a guard it is asked to end, and the guard sees to it that it does.
func dieWithUs(attr *syscall.SysProcAttr, guarded bool) {
	attr.Pdeathsig = syscall.SIGKILL
	if guarded {
		attr.Pdeathsig = syscall.SIGTERM
	}
}

// mark is the assignment that marks this program's children.
func mark() string {
	pid := os.Getpid()
	return fmt.Sprintf("%s=%d:%s", startedBy, pid, bornAt(pid))
}

// machine has the files of this machine.
var machine = os.DirFS("/")

// bornAt is when a process was started, in ticks since the system was; "" if there
// is no such process.
func bornAt(pid int) string {
	s, _ := procfs.StatOf(machine, pid)
	return s.Started
}

// read is a file of a process, "" where there is none that may be read.
func read(pid int, file string) string {
	text, _ := fs.ReadFile(machine, procfs.Of(pid, file))
	return string(text)
}

// Left lists the processes of this user that an llmprof started which has ended.
func Left() (left []Leftover) {
	for _, pid := range procfs.Processes(machine) {
		by, born, ok := strings.Cut(starter(pid), ":")
		if number, _ := strconv.Atoi(by); !ok || bornAt(number) == born {
			continue
		}
		s, err := procfs.StatOf(machine, pid)
		if err != nil || s.State == "Z" {
			continue
		}
		i := slices.IndexFunc(left, func(l Leftover) bool { return l.Group == s.Group })
		if i < 0 {
			i = len(left)
			left = append(left, Leftover{Group: s.Group, Command: commandOf(pid), By: by})
		}
		left[i].PIDs = append(left[i].PIDs, pid)
	}
	return left
}

// starter is the value of the variable in a process's environment, "" for none.
func starter(pid int) string {
	for variable := range strings.SplitSeq(read(pid, "environ"), "\x00") {
		if value, ok := strings.CutPrefix(variable, startedBy+"="); ok {
			return value
		}
	}
	return ""
}

// commandOf is the beginning of a process's command line.
func commandOf(pid int) string {
	const most = 100
	text := strings.TrimSpace(strings.ReplaceAll(read(pid, "cmdline"), "\x00", " "))
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}

// PIDs lists the program's process and all that belong to it: those of its group,
// and the children of any of them. None is left once it has ended.
func (c *Child) PIDs() []int {
	select {
	case <-c.ended:
		return nil
	default:
	}
	ours, others := map[int]bool{c.PID(): true}, map[int]procfs.Stat{}
	for _, pid := range procfs.Processes(machine) {
		if s, err := procfs.StatOf(machine, pid); err == nil {
			others[pid] = s
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, p := range others {
			if !ours[pid] && (p.Group == c.PID() || ours[p.Parent]) {
				ours[pid], grown = true, true
			}
		}
	}
	return slices.Sorted(maps.Keys(ours))
}
