package models_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"llmprof/models"
)

// A layout is a checkpoint as a quantization library wrote it: config.json, and the header of its
// safetensors file. Those of compressed-tensors 0.17.0 are testdata/layouts.py's.
type layout struct {
	Name   string
	Size   int64
	Config json.RawMessage
	Header json.RawMessage
}

func layouts(t testing.TB) []layout {
	t.Helper()
	data, err := os.ReadFile("testdata/layouts.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	var all []layout
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l layout
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// write puts the files of a layout in a directory, with holes for weights.
func (l *layout) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	header := binary.LittleEndian.AppendUint64(nil, uint64(len(l.Header)))
	header = append(header, l.Header...)
	if err := os.WriteFile(filepath.Join(dir, "config.json"), l.Config, 0o600); err != nil {
		t.Fatal(err)
	}
	ggufFile(t, filepath.Join(dir, "model.safetensors"), header, l.Size+int64(len(header)))
	return dir
}

// What config.json says of the formats makes the bytes that the tensors beside it have.
func TestLayoutsHaveTheirBytes(t *testing.T) {
	all := layouts(t)
	for _, l := range all {
		m, err := models.Resolver{}.Resolve(t.Context(), l.write(t))
		if err != nil {
			t.Errorf("%s: %v", l.Name, err)
			continue
		}
		off := float64(m.StoredBytes())/float64(m.Stored.Bytes) - 1
		t.Logf("%-20s %8.0f bytes, %8d in the file (%+.3f %%), activations %v", l.Name, float64(m.StoredBytes()), m.Stored.Bytes, 100*off, m.Stored.Act)
		if off > 0.005 || off < -0.005 {
			t.Errorf("%s: %+.2f %%", l.Name, 100*off)
		}
	}
	if len(all) < 20 {
		t.Errorf("%d layouts", len(all))
	}
}
