package models

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"llmprof/internal/testkit"
)

// A counted config is one whose parameters transformers 5.17 counted by
// building the class on the meta device.
type counted struct {
	ModelType    string `json:"model_type"`
	Architecture string
	Variant      string
	Params       int64
	Config       json.RawMessage
}

func readCounted(t testing.TB, file string) []counted {
	t.Helper()
	data, err := os.ReadFile(file)
	testkit.Must(t, err)
	var all []counted
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		// Python writes Infinity, which encoding/json refuses.
		line := bytes.ReplaceAll(lines.Bytes(), []byte("Infinity"), []byte("1e9"))
		var c counted
		testkit.Must(t, json.Unmarshal(line, &c))
		all = append(all, c)
	}
	testkit.Must(t, lines.Err())
	return all
}

// Every class, at its defaults and with switches turned, has exactly the
// parameters that transformers counts.
func TestReadMeetsTransformers(t *testing.T) {
	var all []counted
	for _, file := range []string{"defaults", "more", "variants"} {
		all = append(all, readCounted(t, "testdata/"+file+".jsonl")...)
	}
	for _, c := range all {
		t.Run(c.ModelType+" "+c.Variant, func(t *testing.T) {
			m, err := Read(c.ModelType, c.Config)
			testkit.Must(t, err)
			if got := m.Params() + allotted(m); got != c.Params {
				t.Errorf("%d parameters, want %d (off by %d)", got, c.Params, got-c.Params)
			}
		})
	}
}

// allotted counts the matrices that transformers allots, and no checkpoint has,
// for LongCat's experts that do nothing.
func allotted(m *Model) (n int64) {
	if m.Family != "longcat_flash" {
		return 0
	}
	for _, l := range m.Layers {
		for _, b := range l.Blocks {
			if e := b.Experts; e != nil {
				n += 2 * int64(e.Idle) * int64(e.Activation.Width) * int64(m.Hidden) * int64(l.Count)
			}
		}
	}
	return n
}

// Configs as they stand on the hub, in their own and older spellings, have the
// parameters that the hub states; those of hunyuan-7b, trinity-mini and step-3
// are the sums of their matrices, which round to what their publishers state.
func TestReadPublished(t *testing.T) {
	all := append(readCounted(t, "testdata/published.jsonl"), readCounted(t, "testdata/older.jsonl")...)
	for _, c := range all {
		t.Run(c.ModelType, func(t *testing.T) {
			m, err := Read(c.ModelType, c.Config)
			testkit.Must(t, err)
			if got := m.Params(); got != c.Params {
				t.Errorf("%d parameters, want %d (off by %d)", got, c.Params, got-c.Params)
			}
		})
	}
}

func BenchmarkRead(b *testing.B) {
	config := readCounted(b, "testdata/defaults.jsonl")[0].Config
	for b.Loop() {
		if _, err := Read("x", config); err != nil {
			b.Fatal(err)
		}
	}
}

// A config.json is named after its folder, and one of a root after itself: a file that is dropped on the page has no folder.
func TestNamesOfFiles(t *testing.T) {
	for path, want := range map[string]string{
		"/config.json": "config", "/org/name/config.json": "name", "name/config.json": "name", "/org/small.json": "small", "small.gguf": "small",
	} {
		if got := nameOf(filepath.FromSlash(path)); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}
