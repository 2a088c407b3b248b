package measure

import (
	"bufio"
	"bytes"
	"io/fs"
	"runtime"
	"strconv"
	"strings"

	"llmprof/measure/result"
)

// mostMemory is the most KiB that are believed: more have no number of bytes.
const mostMemory = 1 << 50

// host describes the machine from what the kernel says under root ("/" as an
// fs.FS): its processor, its memory, its driver. Names of the machine and of its
// users are left out.
func host(root fs.FS) result.Machine {
	m := result.Machine{OS: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), GPUs: []result.GPU{}}
	if text, err := fs.ReadFile(root, "proc/cpuinfo"); err == nil {
		m.CPU = field(text, "model name")
	}
	if m.CPU == "" {
		if text, err := fs.ReadFile(root, "proc/device-tree/model"); err == nil {
			m.CPU = strings.TrimRight(string(text), "\x00\n")
		}
	}
	if text, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		if kb, err := strconv.ParseInt(strings.TrimSuffix(field(text, "MemTotal"), " kB"), 10, 64); err == nil && kb > 0 && kb < mostMemory {
			m.MemoryBytes = new(kb << 10)
		}
	}
	return m
}

// field is the value of the first line "name : value".
func field(text []byte, name string) string {
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		key, value, ok := strings.Cut(lines.Text(), ":")
		if ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
