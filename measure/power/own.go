package power

import (
	"bytes"
	"fmt"
	"io/fs"
	"strconv"
)

// ours reports whether a process is one that was named, or descends from one. One that
// cannot be looked at, such as that of another container, is not.
func (m *Monitor) ours(pid int) bool {
	for range 64 { // generations, against a loop of numbers that are reused
		if m.own[pid] {
			return true
		}
		parent, err := ParentOf(m.root, pid)
		if err != nil || parent <= 1 {
			return false
		}
		pid = parent
	}
	return false
}

// ParentOf is the process that started one: the fourth field of /proc/PID/stat, whose second
// field is a name in parentheses that may hold anything.
func ParentOf(root fs.FS, pid int) (int, error) {
	text, err := fs.ReadFile(root, fmt.Sprintf("proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 2 {
		return 0, fmt.Errorf("proc/%d/stat: %.80q is cut off", pid, text)
	}
	return strconv.Atoi(string(fields[1]))
}

// nameOf is the name of a process, "" if it cannot be read.
func nameOf(root fs.FS, pid int) string {
	text, err := fs.ReadFile(root, fmt.Sprintf("proc/%d/comm", pid))
	if err != nil {
		return ""
	}
	return string(bytes.TrimSpace(text))
}
