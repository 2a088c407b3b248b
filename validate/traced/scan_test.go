package traced

import (
	"bytes"
	"compress/gzip"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestScan(t *testing.T) {
	for _, form := range []string{`%`, `{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "NVIDIA H100"}], "traceEvents": %, ` +
		`"llmprof": {"batch": 4}, "other": {"a": [1, {}]}}`} {
		text := strings.Replace(form, "%", `[
{"ph": "M", "name": "process_name", "args": {"name": "x", "device": "cpu"}},
{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "args": {"device": "odd"}},
{"ph": "X", "cat": "kernel", "name": "later", "ts": 9.5, "dur": 2, "args": {"device": 1, "correlation": 7}},
{"ph": "X", "cat": "gpu_memcpy", "name": "Memcpy HtoD", "ts": 3, "dur": 0.5, "args": {"device": 1, "correlation": 8}},
{"ph": "X", "cat": "cuda_runtime", "name": "cudaGraphLaunch", "ts": 2, "dur": 1, "args": {"correlation": 7}},
{"ph": "X", "cat": "gpu_user_annotation", "name": "execute_context_0(0)_generation_4(4)", "ts": 2, "dur": 10}
]`, 1)
		l, err := Scan(strings.NewReader(text))
		if err != nil {
			t.Fatalf("%s: %v", form, err)
		}
		if len(l.Kernels) != 2 || l.Kernels[1].Name != "later" || l.Kernels[1].Device != 1 || !l.Graphs[l.Kernels[1].Correlation] ||
			l.Graphs[8] || len(l.Marks) != 1 || !l.Marks[0].Device {
			t.Errorf("%+v", l)
		}
		if form != "%" && (l.Devices[0] != "NVIDIA H100" || string(l.Note) != `{"batch": 4}`) {
			t.Errorf("%+v", l)
		}
	}
}

func TestScanRefuses(t *testing.T) {
	for want, text := range map[string]string{
		"no traceEvents":      `{"a": 1}`,
		"want a list":         `{"traceEvents": {}}`,
		"begins with 5":       `5`,
		"EOF":                 `{"traceEvents": [{"ph": "X"`,
		"event 1":             `[{}, "x"]`,
		"lasts -1":            `[{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": -1}]`,
		"more than 17 MB":     `[{"ph": "X", "name": "` + strings.Repeat("x", 3*mostEvent) + `"}]`,
		"cannot unmarshal":    `[{"ph": "X", "cat": "kernel", "name": "k", "ts": "soon"}]`,
		"exceeded max depth":  strings.Repeat("[", 20000),
		"invalid character":   `{"traceEvents": [}`,
		"exceeded max depth ": `{"a": ` + strings.Repeat("[", 20000),
	} {
		if _, err := Scan(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), strings.TrimSpace(want)) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// A trace of any length is read in a space that its kernels need, not its bytes.
func TestScanStreams(t *testing.T) {
	const events = 200_000
	filler := []byte(`,{"ph": "X", "cat": "cpu_op", "name": "aten::linear", "ts": 1, "dur": 2, "args": {"Input Dims": [[1, 2], [3, 4]]}}`)
	parts := []io.Reader{strings.NewReader(`{"traceEvents": [{}`)}
	for range events / 1000 {
		parts = append(parts, bytes.NewReader(bytes.Repeat(filler, 1000)))
	}
	parts = append(parts, strings.NewReader(`]}`))
	l, err := Scan(io.MultiReader(parts...))
	if err != nil || len(l.Kernels) != 0 {
		t.Errorf("%v, %v", l, err)
	}
}

// FuzzScan checks that a trace is read, in order of time, or refused.
func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2, "args": {"correlation": 3}}]}`))
	f.Add([]byte(`[{"ph": "X", "cat": "gpu_memset", "ts": 1e308, "dur": 1e308}]`))
	f.Add([]byte(`{"deviceProperties": [{"id": -1}], "traceEvents": []}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		l, err := Scan(bytes.NewReader(text))
		if err != nil {
			return
		}
		last := math.Inf(-1)
		for _, k := range l.Kernels {
			if !(k.TS >= last) || !(k.Dur >= 0) || math.IsInf(k.TS+k.Dur, 0) {
				t.Errorf("%+v after %v", k, last)
			}
			last = k.TS
		}
	})
}

// A file is told by what it begins with, for a trace may be renamed; an empty one says so.
func TestScanFile(t *testing.T) {
	text := []byte(`[{"ph": "X", "cat": "kernel", "name": "k", "ts": 1, "dur": 2}]`)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"a.json": text, "b.json.gz": packed.Bytes(), "c.gz": text, "d": packed.Bytes()} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if l, err := ScanFile(path); err != nil || len(l.Kernels) != 1 {
			t.Errorf("%s: %+v, %v: want one kernel", name, l, err)
		}
	}
	for _, name := range []string{"empty.json", "empty.gz"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := ScanFile(path); err == nil || !strings.Contains(err.Error(), "empty") {
			t.Errorf("%s: %v, want that it is empty", name, err)
		}
	}
}
