package hardware_test

import (
	"testing"

	"llmprof/hardware"
	"llmprof/unit"
)

// Every host of the table is whole, and is found by its names.
func TestHosts(t *testing.T) {
	for _, h := range hardware.Hosts() {
		if err := h.Check(); err != nil {
			t.Error(err)
		}
		if h.Source == "" {
			t.Errorf("%s has no source", h.Key)
		}
		for _, name := range append(h.Aliases, h.Key) {
			if found, err := hardware.HostOf(name); err != nil || found.Key != h.Key {
				t.Errorf("%s: %v, %v", name, found.Key, err)
			}
		}
	}
}

// A host is described by its memory too.
func TestHostOf(t *testing.T) {
	for name, want := range map[string]unit.BytesPerSec{
		"ddr5-6000x2": 96e9, "DDR4-3200": 51.2e9, "ddr4-2133x4": 68.256e9, "lpddr5x-8000x4": 256e9, "desktop": 89.6e9,
	} {
		h, err := hardware.HostOf(name)
		if err != nil || h.Bandwidth() != want {
			t.Errorf("%s: %v, %v; want %v", name, h.Bandwidth(), err, want)
		}
	}
	for _, name := range []string{"", "ddr5", "ddr5-60x2", "ddr5-6000x0", "ddr6-9000x2", "desktop-ddr9"} {
		if h, err := hardware.HostOf(name); err == nil {
			t.Errorf("%q is %+v", name, h)
		}
	}
}

// Threads, the fabric and the memory limit what is read.
func TestHostReads(t *testing.T) {
	h := hardware.Host{Channels: 2, Speed: 6000, PerCore: 20e9, Cores: 8}
	for _, x := range []struct {
		threads int
		read    unit.BytesPerSec
		want    unit.BytesPerSec
		weights unit.FLOPsPerSec
	}{{0, 0, 96e9, 160e9}, {2, 0, 96e9, 40e9}, {0, 64e9, 64e9, 160e9}, {16, 0, 96e9, 160e9}} {
		h.Threads, h.Read = x.threads, x.read
		if h.Reads() != x.want || h.Weights().Times(0.5625) != x.weights {
			t.Errorf("%+v: %v, %v weights", x, h.Reads(), h.Weights())
		}
	}
}
