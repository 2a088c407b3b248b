package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/measure/calibrate"
	"llmprof/measure/detect"
)

// processorTOML describes a processor faster than any, so that every share is below 1.
const processorTOML = `[gpu.this-cpu]
name = "This processor"
vendor = "none"
generation = "processor"
compute_capability = "none"
integrated = true
sms = 4
clock = "3 GHz"
peak.fp32 = "50 TFLOP/s"
peak.fp16 = "50 TFLOP/s"
memory = "16 GB"
bandwidth = "2 TB/s"
link = "200 GB/s"
l2 = "32 MB"
gpus_per_node = 4
tdp = "200 W"
source = "a test"
`

// An interrupter sends an interrupt to this process when it is told of a line.
type interrupter struct {
	mu   sync.Mutex
	text bytes.Buffer
	at   string
	done bool
}

func (w *interrupter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if !w.done && strings.Contains(w.text.String(), w.at) {
		w.done = true
		if self, err := os.FindProcess(os.Getpid()); err == nil {
			_ = self.Signal(os.Interrupt)
		}
	}
	return len(p), nil
}

func (w *interrupter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// A processor is calibrated for real: interrupted, gone on with, fitted again
// from its rows, and used.
func TestCalibrate(t *testing.T) {
	py := python(t)
	dir := t.TempDir()
	table, rows, file := filepath.Join(dir, "cpu.toml"), filepath.Join(dir, "rows.jsonl"), filepath.Join(dir, "mine.toml")
	testkit.Must(t, os.WriteFile(table, []byte(processorTOML), 0o644))
	args := []string{"calibrate", "--engine", "transformers", "--device", "cpu", "--quick", "--tp", "2", "--hardware", table, "--gpu",
		"this-cpu", "--python", py, "--rows", rows, "-o", file}

	stop := &interrupter{at: "[9/"}
	if code := run(args, nil, &bytes.Buffer{}, stop, os.Getenv); code != 130 ||
		!strings.Contains(stop.String(), "the same command with --engine transformers goes on there") {
		t.Fatalf("interrupted: exit %d: %s", code, stop)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("an interrupted run left a calibration")
	}
	before, err := calibrate.ReadRows[calibrate.Machine, calibrate.Row](rows)
	if err != nil || len(before.Rows) < 9 {
		t.Fatalf("after the interrupt: %+v, %v", before, err)
	}
	whole, err := os.OpenFile(rows, os.O_APPEND|os.O_WRONLY, 0)
	testkit.Must(t, err)
	if _, err := whole.WriteString(`{"schema":"llmprof.bench/v1","ki`); err != nil { // as a crash would leave it
		t.Fatal(err)
	}
	whole.Close()

	var out, errs bytes.Buffer
	if code := run(args, nil, &out, &errs, os.Getenv); code != 0 {
		t.Fatalf("gone on with: exit %d: %s", code, errs.String())
	}
	if regexp.MustCompile(`\[[1-9]/`).MatchString(errs.String()) {
		t.Errorf("what was measured is measured again: %s", errs.String())
	}
	after, err := calibrate.ReadRows[calibrate.Machine, calibrate.Row](rows)
	testkit.Must(t, err)
	kinds := map[calibrate.Kind]int{}
	for i := range after.Rows {
		kinds[after.Rows[i].Kind]++
	}
	for _, kind := range []calibrate.Kind{calibrate.GEMM, calibrate.AttentionPrefill, calibrate.AttentionDecode, calibrate.RMSNorm,
		calibrate.Activation,
		calibrate.Read, calibrate.Copy, calibrate.EagerLaunch, calibrate.EagerStep, calibrate.AllReduce, calibrate.Sustained} {
		if kinds[kind] == 0 {
			t.Errorf("no row of %s: %s", kind, errs.String())
		}
	}
	text, err := os.ReadFile(rows)
	testkit.Must(t, err)
	s := schema(t, "bench")
	for line := range strings.Lines(string(text)) {
		checkSchema(t, s, line)
	}

	f, err := hardware.ReadCalibration(file)
	testkit.Must(t, err)
	if f.Name != "mine" || f.GPU != "this-cpu" || f.Engine != "transformers" || len(f.TP) != 2 || f.Values["host.launch"].N != 3 {
		t.Errorf("%+v", f)
	}
	again := try(t, "calibrate", "--rows", rows, "--hardware", table, "--name", "mine")
	if want, err := os.ReadFile(file); err != nil || again.code != 0 || again.stdout != string(want) {
		t.Errorf("fitted again: exit %d, %v: %s\n%s", again.code, err, again.stderr, again.stdout)
	}
	got := try(t, "estimate", "--model", "llama3.2-1b", "--gpu", "this-cpu", "--hardware", table, "--calibration", file, "--engine",
		"transformers", "--weights", "fp32", "--format", "json")
	if got.code != 0 || !strings.Contains(got.stdout, `"name": "mine"`) {
		t.Errorf("estimate: exit %d: %s%s", got.code, got.stderr, got.stdout)
	}
}

// calibrate and validate --live find the GPU in the same way, and say the same
// where they cannot.
func TestCalibrateTarget(t *testing.T) {
	two := append(one(h200Name), detect.Device{Name: "NVIDIA L4"})
	for _, c := range []struct {
		gpu     string
		devices []detect.Device
		says    string
	}{
		{"", nil, "no GPU found to measure on"},
		{"h200", nil, "no GPU found to measure on"},
		{"", two, "unlike GPUs, h200-sxm-141gb and l4-24gb"},
		{"a100", one(h200Name), "this machine has h200-sxm-141gb"},
		{"", one("NVIDIA H20000"), "name it with --gpu"},
		{"no-such", one(h200Name), "no-such"},
	} {
		m := &machine{devices: c.devices}
		live := m.tryLive(t, "--gpu", c.gpu, "--model", "llama3.2-1b")
		a := &app{stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}, env: func(string) string { return "" }}
		f := &fitting{gpu: c.gpu, gpus: func(context.Context) []detect.Device { return m.devices }, given: func(string) bool { return true }}
		f.TP, f.Limit = 1, time.Second
		err := settings.InFlags(a.runCalibrate(t.Context(), f))
		if err == nil || !strings.Contains(err.Error(), c.says) || err.Error() != live.stderr {
			t.Errorf("--gpu %q of %v: %v; --live says %s, want %q", c.gpu, c.devices, err, live.stderr, c.says)
		}
	}
}

// The calibration of the H200 that comes with the program is what its rows give,
// on any machine.
func TestRefit(t *testing.T) {
	rows := "../../measure/calibrate/testdata/h200.jsonl"
	file := filepath.Join(t.TempDir(), "again.toml")
	got := try(t, "calibrate", "--rows", rows, "-o", file)
	want, err := os.ReadFile("../../hardware/calibrations/h200-sxm-141gb.toml")
	testkit.Must(t, err)
	text, err := os.ReadFile(file)
	if err != nil || got.code != 0 || string(text) != strings.Replace(string(want), `name = "h200"`, `name = "again"`, 1) ||
		!strings.Contains(got.stderr, "52 rows of") {
		t.Errorf("exit %d, %v: %s\n%s", got.code, err, got.stderr, text)
	}
	f, err := hardware.ReadCalibration(file)
	if err != nil || f.Name != "again" {
		t.Errorf("%+v, %v", f, err)
	}
	text, err = os.ReadFile(rows)
	testkit.Must(t, err)
	s := schema(t, "bench")
	for line := range strings.Lines(string(text)) {
		checkSchema(t, s, line)
	}
	if got := try(t, "calibrate", "--rows", rows, "--gpu", "a100"); got.code != 1 ||
		!strings.Contains(got.stderr, "the rows are of h200-sxm-141gb, not of a100-sxm-80gb") {
		t.Errorf("another GPU: exit %d: %s", got.code, got.stderr)
	}
}
