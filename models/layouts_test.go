package models_test

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/models"
)

// A layout is a checkpoint as a quantization library wrote it: config.json, and the header of its
// safetensors file. Those of compressed-tensors 0.17.0 and bitsandbytes are testdata/layouts.py's, those of MLX 0.32
// quantize_model's and save_model's of mlx-lm, of the same model.
type layout struct {
	Name   string
	Size   int64
	Config json.RawMessage
	Header json.RawMessage
}

func layouts(t testing.TB) []layout {
	t.Helper()
	data, err := os.ReadFile("testdata/layouts.jsonl")
	testkit.Must(t, err)
	var all []layout
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var l layout
		testkit.Must(t, json.Unmarshal(lines.Bytes(), &l))
		all = append(all, l)
	}
	return all
}

// write puts the files of a layout in a directory, with holes for weights.
func (l *layout) write(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	text := append(slices.Clone(l.Header), bytes.Repeat([]byte(" "), -len(l.Header)&7)...) // Data begin at a multiple of 8.
	header := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "config.json"), l.Config, 0o600))
	ggufFile(t, filepath.Join(dir, "model.safetensors"), header, l.Size)
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
		t.Logf("%-20s %8.0f bytes, %8d in the file (%+.3f %%), activations %v", l.Name, float64(m.StoredBytes()), m.Stored.Bytes, 100*off,
			m.Stored.Act)
		if off > 0.001 || off < -0.001 {
			t.Errorf("%s: %+.2f %%", l.Name, 100*off)
		}
		alone, err := models.Read(l.Name, l.Config)
		testkit.Must(t, err)
		if off := float64(alone.StoredBytes())/float64(m.Stored.Bytes) - 1; off > 0.005 || off < -0.005 {
			t.Errorf("%s: %+.2f %% by its config alone", l.Name, 100*off)
		}
	}
	if len(all) < 26 {
		t.Errorf("%d layouts", len(all))
	}
}

// Tensors that are not what config.json says are an error, and so is an index; --lenient notes it.
func TestTensorsHaveToAgree(t *testing.T) {
	for _, l := range layouts(t) {
		if l.Name != "FP8" {
			continue
		}
		l.Config = bytes.Replace(l.Config, []byte(`"ignore":["lm_head"]`), []byte(`"ignore":["lm_head","re:.*mlp.*"]`), 1)
		dir := l.write(t)
		if _, err := (models.Resolver{}).Resolve(t.Context(), dir); err == nil ||
			!strings.Contains(err.Error(), "the tensors beside it have 0.002199 GB") {
			t.Error(err)
		}
		m, err := models.Resolver{Lenient: true}.Resolve(t.Context(), dir)
		if err != nil || len(m.Notes) != 1 {
			t.Errorf("%v, %v", m, err)
		}
		testkit.Must(t, os.Remove(filepath.Join(dir, "model.safetensors")))
		for total, want := range map[string]string{"2199208": "the tensors beside it have", "3379240": ""} {
			index := `{"metadata":{"total_size":` + total + `},"weight_map":{"model.norm.weight":"model.safetensors"}}`
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), []byte(index), 0o600))
			if _, err := (models.Resolver{}).Resolve(t.Context(), dir); (err != nil) != (want != "") {
				t.Errorf("total_size %s: %v", total, err)
			}
		}
		return
	}
}
