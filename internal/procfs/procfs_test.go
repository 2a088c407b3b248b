package procfs

import (
	"fmt"
	"os"
	"slices"
	"testing"
	"testing/fstest"
)

func TestField(t *testing.T) {
	root := fstest.MapFS{"proc/cpuinfo": {Data: []byte("processor : 0\nmodel name : A: B\n")}}
	for name, want := range map[string]string{"model name": "A: B", "processor": "0", "model": ""} {
		if got := Field(root, "cpuinfo", name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if got := Processor(fstest.MapFS{"proc/device-tree/model": {Data: []byte("Orin\x00")}}); got != "Orin" {
		t.Errorf("the board is called %q", got)
	}
}

// This process is among all, has this test's parent, and has its own program open where it opened it.
func TestProcesses(t *testing.T) {
	root := os.DirFS("/")
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("no /proc")
	}
	if !slices.Contains(Processes(root), os.Getpid()) {
		t.Error("this process is not listed")
	}
	if s, err := StatOf(root, os.Getpid()); err != nil || s.Parent != os.Getppid() || s.Started == "" || s.State == "Z" {
		t.Errorf("%+v, %v", s, err)
	}
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if !slices.Contains(Opened(root, os.Getpid()), file.Name()) {
		t.Errorf("%s is not among the open files", file.Name())
	}
	if _, err := StatOf(root, -1); err == nil {
		t.Error("a process of the number -1 has a stat")
	}
}

// The name of a program, which may hold anything, never moves the numbers after it.
func FuzzStat(f *testing.F) {
	f.Add("sh", 1, 2)
	f.Add(") S 7 8 (", -1, 0)
	f.Fuzz(func(t *testing.T, name string, parent, group int) {
		if s, err := parseStat(fmt.Sprintf("12 (%s) S %d %d 0 -1", name, parent, group)); err != nil ||
			s != (Stat{State: "S", Parent: parent, Group: group}) {
			t.Errorf("%q: %+v, %v", name, s, err)
		}
		_, _ = parseStat(name)
	})
}
