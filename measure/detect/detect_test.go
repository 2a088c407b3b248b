package detect

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"

	"llmprof"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/unit"
)

// driverFiles are those of an A100, which do not tell its memory.
func driverFiles() fstest.MapFS {
	return fstest.MapFS{"proc/driver/nvidia/gpus/0000:07:00.0/information": {
		Data: []byte("Model: \t\t NVIDIA A100-SXM4-80GB\nGPU UUID: \t GPU-1\n"),
	}}
}

// TestNvidiaSMI checks that the driver's tool is asked for what its files lack,
// and only on the machine itself.
func TestNvidiaSMI(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the tool is played by a shell script")
	}
	dir := t.TempDir()
	script := "#!/bin/sh\necho 'NVIDIA A100-SXM4-80GB, 81920, 00000000:07:00.0, GPU-1'\necho 'not a line of it'\n"
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))

	here, err := List(t.Context(), driverFiles(), true)
	testkit.Must(t, err)
	if len(here) != 1 || here[0].Memory == nil || *here[0].Memory != unit.Bytes(81920<<20) {
		t.Errorf("here: %+v", here)
	}
	table, err := hardware.Load(llmprof.HardwareTOML)
	testkit.Must(t, err)
	if unknown := Match(table, here); unknown != 0 || *here[0].Key != "a100-sxm-80gb" {
		t.Errorf("%d unknown: %+v", unknown, here)
	}
	if elsewhere, _ := List(t.Context(), driverFiles(), false); len(elsewhere) != 1 || elsewhere[0].Memory != nil {
		t.Errorf("elsewhere: %+v", elsewhere)
	}
	if nothing, err := List(t.Context(), fstest.MapFS{}, false); len(nothing) != 0 || err != nil {
		t.Errorf("nothing: %+v, %v", nothing, err)
	}
	script = "#!/bin/sh\necho Driver/library version mismatch; exit 18\n"
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "nvidia-smi"), []byte(script), 0o755))
	if _, err := List(t.Context(), fstest.MapFS{}, true); err == nil || !strings.Contains(err.Error(), "version mismatch") {
		t.Errorf("an nvidia-smi that fails: %v", err)
	}
	if files, err := List(t.Context(), driverFiles(), true); len(files) != 1 || err != nil {
		t.Errorf("an nvidia-smi that fails beside the driver's files: %+v, %v", files, err)
	}
}

// FuzzProc checks that no file under /proc panics or makes a negative memory.
func FuzzProc(f *testing.F) {
	f.Add("Model: NVIDIA H200\nGPU UUID: GPU-1\n", "NVIDIA Jetson AGX Orin\x00", "MemTotal: 64349180 kB\n")
	f.Add(":::", "jetson", "MemTotal: 99999999999999999999 kB\n")
	f.Fuzz(func(t *testing.T, information, model, meminfo string) {
		root := fstest.MapFS{
			"proc/driver/nvidia/gpus/0000:07:00.0/information": {Data: []byte(information)},
			"proc/device-tree/model":                           {Data: []byte(model)},
			"proc/meminfo":                                     {Data: []byte(meminfo)},
		}
		for _, d := range append(procDevices(root), jetson(root)...) {
			if d.Name == "" && d.Bus != nil || d.Memory != nil && *d.Memory < 0 {
				t.Errorf("%+v", d)
			}
		}
	})
}
