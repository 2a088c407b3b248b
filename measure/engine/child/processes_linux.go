package child

import (
	"fmt"
	"iter"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	return fmt.Sprintf("%s=%d:%s", startedBy, pid, bornAt(strconv.Itoa(pid)))
}

// bornAt is when a process was started, in ticks since the system was; "" if there
// is no such process. A number that is given out again has another time.
func bornAt(pid string) string {
	if f := fieldsOf(read(pid, "stat")); len(f) > startField {
		return f[startField]
	}
	return ""
}

// Fields of a process's stat after the name (proc_pid_stat(5)).
const (
	stateField  = 0
	parentField = 1
	groupField  = 2
	startField  = 19
)

// read is a file of a process, "" where there is none that may be read.
func read(pid, file string) string {
	text, _ := os.ReadFile("/proc/" + pid + "/" + file)
	return string(text)
}

// fieldsOf are the fields of a process's stat after its name in parentheses, which may hold anything.
func fieldsOf(stat string) []string { return strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) }

// processes are all that there are, with what their stat says.
func processes() iter.Seq2[int, string] {
	return func(yield func(int, string) bool) {
		entries, _ := os.ReadDir("/proc")
		for _, e := range entries {
			if pid, err := strconv.Atoi(e.Name()); err == nil && !yield(pid, read(e.Name(), "stat")) {
				return
			}
		}
	}
}

// Left lists the processes of this user that an llmprof started which has ended.
func Left() (left []Leftover) {
	for pid, stat := range processes() {
		name := strconv.Itoa(pid)
		by, born, ok := strings.Cut(starter(name), ":")
		if !ok || bornAt(by) == born {
			continue
		}
		k, ok := kinOf(stat)
		if !ok || fieldsOf(stat)[stateField] == "Z" {
			continue
		}
		i := slices.IndexFunc(left, func(l Leftover) bool { return l.Group == k.group })
		if i < 0 {
			i = len(left)
			left = append(left, Leftover{Group: k.group, Command: commandOf(name), By: by})
		}
		left[i].PIDs = append(left[i].PIDs, pid)
	}
	return left
}

// starter is the value of the variable in a process's environment, "" for none.
func starter(pid string) string {
	for variable := range strings.SplitSeq(read(pid, "environ"), "\x00") {
		if value, ok := strings.CutPrefix(variable, startedBy+"="); ok {
			return value
		}
	}
	return ""
}

// commandOf is the beginning of a process's command line.
func commandOf(pid string) string {
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
	ours, others := map[int]bool{c.PID(): true}, map[int]kin{}
	for pid, stat := range processes() {
		if k, ok := kinOf(stat); ok {
			others[pid] = k
		}
	}
	for grown := true; grown; {
		grown = false
		for pid, p := range others {
			if !ours[pid] && (p.group == c.PID() || ours[p.parent]) {
				ours[pid], grown = true, true
			}
		}
	}
	return slices.Sorted(maps.Keys(ours))
}

type kin struct{ parent, group int }

// kinOf reads the parent and the group from a process's stat.
func kinOf(stat string) (k kin, ok bool) {
	f := fieldsOf(stat)
	if len(f) <= groupField {
		return kin{}, false
	}
	parent, err1 := strconv.Atoi(f[parentField])
	group, err2 := strconv.Atoi(f[groupField])
	return kin{parent, group}, err1 == nil && err2 == nil
}
