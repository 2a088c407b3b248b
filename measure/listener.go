package measure

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"llmprof/internal/procfs"
)

// machine has the files of this machine, whose processes are told from those of other hosts.
var machine = os.DirFS("/")

// usesGPU refuses a port of this machine whose process uses no GPU of it: a port that is forwarded to another host
// looks like a server of this one. The GPU may be used by the process, by one that it started or, where the process
// was started by its own program, by another descendant of that parent.
func usesGPU(at []netip.Addr, port uint16, device func(path string) bool) error {
	const instead = "have the server started around the run (engine_cmd), or measure as its user where it runs"
	listeners := listening(at, port)
	if len(listeners) == 0 {
		return fmt.Errorf("no process that may be looked at listens on port %d, so that it may be forwarded to another host: %s", port, instead)
	}
	parent, open := map[int]int{}, map[int][]string{}
	for _, pid := range procfs.Processes(machine) {
		s, _ := procfs.StatOf(machine, pid) // the parent is 0 if it is not known
		parent[pid], open[pid] = s.Parent, procfs.Opened(machine, pid)
	}
	name := ""
	for pid, files := range open {
		if !slices.ContainsFunc(files, func(f string) bool { return slices.Contains(listeners, f) }) {
			continue
		}
		comm, _ := procfs.Text(machine, procfs.Of(pid, "comm"))
		name = fmt.Sprintf("%s (process %d)", comm, pid)
		root := pid
		for above := parent[root]; above > 1 && program(above) != "" && program(above) == program(root); above = parent[root] {
			root = above
		}
		for p := range open {
			if startedBy(p, root, parent) && slices.ContainsFunc(open[p], device) {
				return nil
			}
		}
	}
	if name == "" {
		return fmt.Errorf("the process that listens on port %d is another user's, and may forward it to another host: %s", port, instead)
	}
	return fmt.Errorf("%s listens on port %d and uses no GPU of this machine, as where the port is forwarded to another host: %s", name, port,
		instead)
}

// gpuDevice reports whether a file is of a GPU.
func gpuDevice(path string) bool {
	return slices.ContainsFunc([]string{"/dev/nvidia", "/dev/nvhost", "/dev/nvgpu", "/dev/nvmap", "/dev/kfd"},
		func(p string) bool { return strings.HasPrefix(path, p) })
}

// listening are the sockets that listen on a port of addresses, as links of open files name them.
func listening(at []netip.Addr, port uint16) (sockets []string) {
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := procfs.Text(machine, "proc/net/"+table)
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) < 10 || f[3] != "0A" {
				continue
			}
			local, ok := address(f[1])
			if !ok || local.Port() != port {
				continue
			}
			if a := local.Addr(); a.IsUnspecified() || slices.Contains(at, a) || slices.ContainsFunc(at, netip.Addr.IsUnspecified) {
				sockets = append(sockets, "socket:["+f[9]+"]")
			}
		}
	}
	return sockets
}

// address reads an address of /proc/net/tcp: words of the host's order, in hexadecimal digits.
func address(text string) (netip.AddrPort, bool) {
	words, digits, _ := strings.Cut(text, ":")
	raw, err := hex.DecodeString(words)
	port, failed := strconv.ParseUint(digits, 16, 16)
	if err != nil || failed != nil || len(raw)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(raw); i += 4 {
		binary.BigEndian.PutUint32(raw[i:], binary.NativeEndian.Uint32(raw[i:]))
	}
	a, ok := netip.AddrFromSlice(raw)
	return netip.AddrPortFrom(a.Unmap(), uint16(port)), ok
}

// program is what a process runs; "" if it is not known.
func program(pid int) string {
	file, _ := fs.ReadLink(machine, procfs.Of(pid, "exe"))
	return file
}

// startedBy reports whether a process is another one, or was started by it or its own.
func startedBy(pid, root int, parent map[int]int) bool {
	for ; pid > 1; pid = parent[pid] {
		if pid == root {
			return true
		}
	}
	return false
}
