package hardware_test

import (
	"strings"
	"testing"

	"llmprof"
	"llmprof/hardware"
)

// TestDriverNames checks that every name that a driver reports finds its GPU, unless it
// stands for several.
func TestDriverNames(t *testing.T) {
	table, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{
		"NVIDIA H100 80GB HBM3": "h100-sxm-80gb", "NVIDIA A100 80GB PCIe": "a100-pcie-80gb", "NVIDIA GeForce RTX 4090": "rtx-4090-24gb",
		"AMD Instinct MI300X": "mi300x-192gb",
	} {
		if g, err := table.GPU(name); err != nil || g.Key != key {
			t.Errorf("GPU(%q) = %s, %v; want %s", name, g.Key, err, key)
		}
		if g, err := hardware.Find(llmprof.HardwareTOML, name); err != nil || g.Key != key {
			t.Errorf("Find(%q) = %s, %v; want %s", name, g.Key, err, key)
		}
	}
	if _, err := table.GPU("NVIDIA Jetson Xavier NX Developer Kit"); err == nil || !strings.Contains(err.Error(), "name one of these") {
		t.Errorf("a name of two modules: %v", err)
	}
}
