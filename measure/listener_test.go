//go:build linux

package measure

import (
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The addresses of this machine are told from those of others by whatever name.
func TestHere(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"localhost": true, "127.0.0.1": true, "127.0.0.2": true, "::1": true, "0.0.0.0": true, "::": true,
		"::ffff:127.0.0.1": true,
		"192.0.2.1":        false, "2001:db8::1": false, "no-such-host.invalid": false, "": false}
	if _, err := net.DefaultResolver.LookupNetIP(t.Context(), "ip", own); err == nil {
		names[own] = true
	}
	interfaces, _ := net.InterfaceAddrs() // of bridges too
	for _, a := range interfaces {
		names[a.(*net.IPNet).IP.String()] = true
	}
	for name, want := range names {
		if at, got := here(t.Context(), name); got != want {
			t.Errorf("%q: %v %v, want %v", name, at, got, want)
		}
	}
}

// serveHeld starts a process that has a port of an address, and a file as a server has its GPU.
func serveHeld(t *testing.T, address, device string) (port uint16) {
	t.Helper()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Skip(err)
	}
	file, err := l.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	port = uint16(l.Addr().(*net.TCPAddr).Port)
	if l.Close() != nil {
		t.Fatal("the listener does not close")
	}
	c := exec.CommandContext(t.Context(), "sleep", "60")
	c.ExtraFiles = []*os.File{file}
	if device != "" {
		d, err := os.Open(device)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		c.ExtraFiles = append(c.ExtraFiles, d)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	file.Close()
	return port
}

// A port counts if the process that listens there uses a GPU of this machine. A forwarder has the port alone.
func TestForwardedPort(t *testing.T) {
	gpu := filepath.Join(t.TempDir(), "gpu0")
	if err := os.WriteFile(gpu, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	device := func(path string) bool { return path == gpu }
	for _, address := range []string{"127.0.0.1:0", "127.0.0.2:0", "0.0.0.0:0", "[::1]:0", "[::]:0"} {
		host := netip.MustParseAddrPort(address).Addr()
		port := serveHeld(t, address, gpu)
		if err := usesGPU([]netip.Addr{host}, port, device); err != nil {
			t.Errorf("%s, with a GPU: %v", address, err)
		}
		port = serveHeld(t, address, "")
		if err := usesGPU([]netip.Addr{host}, port, device); err == nil || !strings.Contains(err.Error(), "sleep") ||
			!strings.Contains(err.Error(), "forwarded") {
			t.Errorf("%s, forwarded: %v", address, err)
		}
	}
	// Another process has the GPU, and its own port on another address of the same number.
	port := serveHeld(t, "127.0.0.1:0", "")
	serveHeld(t, netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), port).String(), gpu)
	if err := usesGPU([]netip.Addr{netip.MustParseAddr("127.0.0.1")}, port, device); err == nil {
		t.Error("a server on another address is taken for a forwarded port's")
	}
	if err := usesGPU([]netip.Addr{netip.MustParseAddr("127.0.0.3")}, port, device); err == nil ||
		!strings.Contains(err.Error(), "no process") {
		t.Errorf("where nothing listens: %v", err)
	}
}
