package child

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// mark is the assignment that marks this program's children.
func mark() string {
	pid := os.Getpid()
	return fmt.Sprintf("%s=%d:%s", startedBy, pid, bornAt(strconv.Itoa(pid)))
}

// bornAt is when a process was started, in ticks since the system was; "" if there
// is no such process. A number that is given out again has another time.
func bornAt(pid string) string {
	if f := statOf(pid); len(f) > startField {
		return f[startField]
	}
	return ""
}

// Fields of a process's stat after the name (proc_pid_stat(5)).
const (
	stateField = 0
	groupField = 2
	startField = 19
)

// statOf is what follows the name of a process in parentheses, which may hold
// anything.
func statOf(pid string) []string {
	stat, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return nil
	}
	text := string(stat)
	return strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
}

// Left lists the processes of this user that an llmprof started which has ended.
func Left() []Leftover {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var left []Leftover
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		by, born, ok := strings.Cut(starter(e.Name()), ":")
		if !ok || bornAt(by) == born {
			continue
		}
		stat := statOf(e.Name())
		if len(stat) <= groupField || stat[stateField] == "Z" {
			continue
		}
		group, err := strconv.Atoi(stat[groupField])
		if err != nil {
			continue
		}
		i := slices.IndexFunc(left, func(l Leftover) bool { return l.Group == group })
		if i < 0 {
			i = len(left)
			left = append(left, Leftover{Group: group, Command: commandOf(e.Name()), By: by})
		}
		left[i].PIDs = append(left[i].PIDs, pid)
	}
	return left
}

// starter is the value of the variable in a process's environment, "" for none.
func starter(pid string) string {
	environment, err := os.ReadFile("/proc/" + pid + "/environ")
	if err != nil {
		return "" // another user's
	}
	for variable := range bytes.SplitSeq(environment, []byte{0}) {
		if value, ok := bytes.CutPrefix(variable, []byte(startedBy+"=")); ok {
			return string(value)
		}
	}
	return ""
}

// commandOf is the beginning of a process's command line.
func commandOf(pid string) string {
	const most = 100
	line, _ := os.ReadFile("/proc/" + pid + "/cmdline")
	text := strings.TrimSpace(string(bytes.ReplaceAll(line, []byte{0}, []byte{' '})))
	if len(text) > most {
		text = text[:most] + "..."
	}
	return text
}
