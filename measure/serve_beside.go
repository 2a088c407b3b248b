package measure

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"llmprof/measure/experiment"
	"llmprof/measure/power"
)

// proc is where Linux describes processes.
const proc = "/proc"

// here are the addresses of a host name if all of them are this machine's.
func here(ctx context.Context, host string) ([]netip.Addr, bool) {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	own, failed := net.InterfaceAddrs()
	if err != nil || failed != nil || len(addresses) == 0 {
		return nil, false
	}
	for i, a := range addresses {
		a = a.Unmap().WithZone("")
		addresses[i] = a
		same := func(o net.Addr) bool {
			n, is := o.(*net.IPNet)
			return is && n.IP.String() == a.String()
		}
		if !a.IsLoopback() && !a.IsUnspecified() && !slices.ContainsFunc(own, same) {
			return nil, false
		}
	}
	return addresses, true
}

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
	for _, pid := range processes() {
		parent[pid], _ = power.ParentOf(os.DirFS("/"), pid) // 0 if it is not known
		open[pid] = opened(pid)
	}
	name := ""
	for pid, files := range open {
		if !slices.ContainsFunc(files, func(f string) bool { return slices.Contains(listeners, f) }) {
			continue
		}
		comm, _ := os.ReadFile(filepath.Join(proc, strconv.Itoa(pid), "comm"))
		name = fmt.Sprintf("%s (process %d)", bytes.TrimSpace(comm), pid)
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
	return fmt.Errorf("%s listens on port %d and uses no GPU of this machine, as where the port is forwarded to another host: %s", name, port, instead)
}

// gpuDevice reports whether a file is of a GPU.
func gpuDevice(path string) bool {
	return slices.ContainsFunc([]string{"/dev/nvidia", "/dev/nvhost", "/dev/nvgpu", "/dev/nvmap", "/dev/kfd"}, func(p string) bool { return strings.HasPrefix(path, p) })
}

// listening are the sockets that listen on a port of addresses, as links of open files name them.
func listening(at []netip.Addr, port uint16) (sockets []string) {
	for _, table := range []string{"tcp", "tcp6"} {
		text, _ := os.ReadFile(filepath.Join(proc, "net", table))
		for line := range strings.Lines(string(text)) {
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

func processes() (pids []int) {
	entries, _ := os.ReadDir(proc)
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// opened are the files that a process has open; none of another user's.
func opened(pid int) (files []string) {
	folder := filepath.Join(proc, strconv.Itoa(pid), "fd")
	entries, _ := os.ReadDir(folder)
	for _, e := range entries {
		if file, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil {
			files = append(files, file)
		}
	}
	return files
}

// program is what a process runs; "" if it is not known.
func program(pid int) string {
	file, _ := os.Readlink(filepath.Join(proc, strconv.Itoa(pid), "exe"))
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

// besideServer finds the sensors of the GPUs that a server runs on which was started on this machine: those that
// the point names, or the only one. What uses them now is taken for the server.
func (l *Lab) besideServer(ctx context.Context, p *experiment.Point) (*meters, error) {
	why := otherHost(ctx, p.BaseURL, false)
	var m *power.Monitor
	if why == nil {
		m, why = power.Open(ctx, power.Options{GPUs: p.GPUs, NoGPUs: p.Device == "cpu", Root: l.Root, Env: l.Env})
		if why != nil && !errors.Is(why, power.ErrNoSensor) {
			return nil, why
		}
	}
	if why == nil && len(m.GPUs()) > 0 {
		why = otherHost(ctx, p.BaseURL, true)
	}
	if why == nil && len(p.GPUs) == 0 && len(m.GPUs()) > 1 {
		why = fmt.Errorf("nothing ties any of the %d GPUs of this machine to a server that was started elsewhere: name them (gpus), or have it started around the run (engine_cmd)", len(m.GPUs()))
	}
	if why != nil {
		if m != nil {
			if err := m.Close(); err != nil {
				return nil, err
			}
		}
		if l.NeedEnergy {
			return nil, why
		}
		return &meters{why: why}, nil
	}
	server, err := m.Busy(ctx)
	if err != nil {
		return nil, errors.Join(err, m.Close())
	}
	for _, process := range server {
		m.Own(process.PID)
	}
	l.sayClocks(m)
	return &meters{monitors: []*power.Monitor{m}}, nil
}

// otherHost is why this machine's sensors say nothing of the server at a URL; nil if it runs here. gpus says that
// they are of GPUs, which the server has to use: its port may be forwarded to another host.
func otherHost(ctx context.Context, base string, gpus bool) error {
	at, err := url.Parse(base)
	if err != nil {
		return errors.New("the base URL has no host")
	}
	host := at.Hostname()
	addresses, ok := here(ctx, host)
	if !ok {
		return fmt.Errorf("the sensors of this machine say nothing of a server at %s: measure on that host, with a URL of the loopback, or have it started around the run (engine_cmd)", host)
	}
	if !gpus {
		return nil
	}
	port := cmp.Or(at.Port(), map[string]string{"http": "80", "https": "443"}[at.Scheme])
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("the base URL has no port: %w", err)
	}
	return usesGPU(addresses, uint16(n), gpuDevice)
}
