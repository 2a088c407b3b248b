// Package procfs reads what Linux says of a machine and its processes, from files below a root that tests replace:
// os.DirFS("/") is this machine's. On other systems there are no such files.
package procfs

import (
	"bytes"
	"cmp"
	"fmt"
	"io/fs"
	"strconv"
	"strings"
)

// Text is what a file says, without its newline.
func Text(root fs.FS, name string) (string, error) {
	data, err := fs.ReadFile(root, name)
	return string(bytes.TrimSpace(data)), err
}

// Field is the value of the first line "name : value" of a file in /proc; "" if there is none.
func Field(root fs.FS, file, name string) string {
	lines, _ := Text(root, "proc/"+file) // what cannot be read has no such line
	for line := range strings.Lines(lines) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// mostMemory is the most KiB that are believed: more have no number of bytes.
const mostMemory = 1 << 50

// Memory is the bytes of a machine's memory, which /proc/meminfo has in KiB; nil if they are not known.
func Memory(root fs.FS) *int64 {
	kib, err := strconv.ParseInt(strings.TrimSuffix(Field(root, "meminfo", "MemTotal"), " kB"), 10, 64)
	if err != nil || kib <= 0 || kib >= mostMemory {
		return nil
	}
	return new(kib << 10)
}

// Board is what the device tree calls the board; "" if there is none.
func Board(root fs.FS) string {
	name, _ := Text(root, "proc/device-tree/model")
	return strings.TrimRight(name, "\x00\n")
}

// Processor is the name of a machine's processor, or of the board where its processor has none; "" if it is not known.
func Processor(root fs.FS) string {
	return cmp.Or(Field(root, "cpuinfo", "model name"), Board(root))
}

// Processes are the numbers of all processes.
func Processes(root fs.FS) (pids []int) {
	entries, _ := fs.ReadDir(root, "proc")
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Of is the name of a file of a process, or of its open files and its program.
func Of(pid int, file string) string { return fmt.Sprintf("proc/%d/%s", pid, file) }

// A Stat is what the file stat of a process says of it (proc_pid_stat(5)).
type Stat struct {
	State         string // "Z" of one that has ended and was not waited for
	Parent, Group int    // numbers of processes
	Started       string // ticks since the system's start: a number that is given out again has another time
}

// StatOf reads the stat of a process.
func StatOf(root fs.FS, pid int) (Stat, error) {
	text, err := fs.ReadFile(root, Of(pid, "stat"))
	if err != nil {
		return Stat{}, err
	}
	s, err := parseStat(string(text))
	if err != nil {
		return s, fmt.Errorf("%s: %w", Of(pid, "stat"), err)
	}
	return s, nil
}

// parseStat reads the fields after the second, a name in parentheses that may hold anything.
func parseStat(text string) (s Stat, err error) {
	const started = 19
	f := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(f) < 3 {
		return s, fmt.Errorf("%.80q is cut off", text)
	}
	s.State = f[0]
	if s.Parent, err = strconv.Atoi(f[1]); err != nil {
		return s, err
	}
	if len(f) > started {
		s.Started = f[started]
	}
	s.Group, err = strconv.Atoi(f[2])
	return s, err
}

// Opened are the files that a process has open; none of another user's.
func Opened(root fs.FS, pid int) (files []string) {
	entries, _ := fs.ReadDir(root, Of(pid, "fd"))
	for _, e := range entries {
		if file, err := fs.ReadLink(root, Of(pid, "fd/"+e.Name())); err == nil {
			files = append(files, file)
		}
	}
	return files
}
