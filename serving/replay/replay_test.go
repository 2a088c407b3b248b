package replay

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/serving"
)

// all reads a trace to its end.
func all(t testing.TB, r io.Reader, o Options) (*Trace, []serving.Request) {
	t.Helper()
	tr, err := Read(r, o)
	testkit.Must(t, err)
	var list []serving.Request
	for {
		r, ok := tr.Next()
		if !ok {
			return tr, list
		}
		list = append(list, r)
	}
}

// Every format is known by its content, and its requests come at the time and with the
// tokens that it states.
func TestFormats(t *testing.T) {
	server, err := filepath.Glob("../../experiments/h200-vllm/server/*.json.gz")
	if err != nil || len(server) == 0 {
		t.Fatal("no results of a server", err)
	}
	for _, x := range []struct {
		file, format  string
		n, skipped    int
		last          float64
		prompts, gens int
	}{
		{"testdata/azure.csv", "azure", 8, 0, 8.251431, 3913, 550},
		{"testdata/mooncake.jsonl", "mooncake", 5, 0, 9, 7747, 1666},
		{"testdata/burstgpt.csv", "burstgpt", 2, 1, 113, 700, 170},
		{"testdata/servegen.csv", "servegen", 2, 0, 0.237, 1300, 180},
		{"testdata/plain.csv", "csv", 2, 0, 0.75, 1536, 192},
		{"testdata/plain.jsonl", "jsonl", 2, 0, 0.75, 1536, 192},
		{"testdata/records.jsonl", "records", 3, 1, 1.5, 700, 70},
		{"testdata/vllm.json", "vllm", 2, 0, 0.75, 1536, 192},
		{server[0], "llmprof", 24, 0, 8.046, 24 * 1024, 24 * 64},
	} {
		f, err := os.Open(x.file)
		testkit.Must(t, err)
		tr, list := all(t, f, Options{})
		f.Close()
		prompts, gens, last := 0, 0, 0.0
		for _, r := range list {
			prompts, gens, last = prompts+r.Prompt, gens+r.Gen, float64(r.At)
		}
		if tr.Err() != nil || tr.Format != x.format || len(list) != x.n || tr.Skipped != x.skipped || prompts != x.prompts || gens != x.gens || last < x.last-0.01 || last > x.last+0.01 {
			t.Errorf("%s: %q, %d requests and %d skipped, %d + %d tokens, the last at %g: %v", x.file, tr.Format, len(list), tr.Skipped, prompts, gens, last, tr.Err())
		}
	}
}

// Hashes stand for blocks of 512 tokens, and a speed makes arrivals come sooner.
func TestMooncake(t *testing.T) {
	data, err := os.ReadFile("testdata/mooncake.jsonl")
	testkit.Must(t, err)
	_, list := all(t, strings.NewReader(string(data)), Options{Speed: 2, Requests: 3})
	if len(list) != 3 || list[1].At != 1.5 || list[0].HashTokens != 512 || len(list[0].Hashes) != 5 || list[0].Hashes[1] != 42 {
		t.Errorf("%+v", list)
	}
}

// A trace compressed by gzip is the trace, and one that ends in the middle is an error.
func TestCompressed(t *testing.T) {
	data, err := os.ReadFile("testdata/azure.csv")
	testkit.Must(t, err)
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, err = z.Write(data)
	testkit.Must(t, errors.Join(err, z.Close()))
	tr, list := all(t, bytes.NewReader(packed.Bytes()), Options{})
	if tr.Format != "azure" || len(list) != 8 || tr.Err() != nil {
		t.Errorf("%q, %d requests: %v", tr.Format, len(list), tr.Err())
	}
	for _, n := range []int{2, packed.Len() / 2, packed.Len() - 4} {
		tr, err := Read(bytes.NewReader(packed.Bytes()[:n]), Options{})
		for err == nil {
			if _, ok := tr.Next(); !ok {
				err = tr.Err()
				break
			}
		}
		if err == nil {
			t.Errorf("%d of %d bytes are a whole trace", n, packed.Len())
		}
	}
}

// What is no trace is refused with the line and what would be right.
func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"":                                      "empty",
		"hello\n1\n":                            "no columns for time",
		"time,prompt\n1,2\n":                    "no columns for time",
		"{}":                                    "without records",
		"{\"a\": 1}\n{\"a\": 2}\n":              "no fields for prompt",
		"time,prompt,generated\n1,2\n":          "2 columns where the header has 3",
		"time,prompt,generated\n1,x,3\n":        "no number of tokens",
		"time,prompt,generated\nnoon,2,3\n":     "no time",
		"time,prompt,generated\n5,2,3\n1,2,3\n": "sort the trace",
		"time,prompt,generated\n5,2,-3\n":       "no number of tokens",
		"time,prompt,generated\nNaN,2,3\n":      "no time in seconds",
		"time,prompt,generated\n1,2,0\n":        "no request that generated",
		"{\"prompt\": 5, \"generated\": 5}\n{\"prompt\": 5, \"generated\": 5}\n": "no field for the time",
		"time,prompt,generated\n" + strings.Repeat("1", mostLine+5) + "\n":       "longer than",
	} {
		tr, err := Read(strings.NewReader(text), Options{})
		if err == nil {
			for {
				if _, ok := tr.Next(); !ok {
					break
				}
			}
			err = tr.Err()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

// Requests that come so late that the clock could not tell their steps apart are refused.
func TestSlowTrace(t *testing.T) {
	tr, err := Read(strings.NewReader("time,prompt,generated\n0,2,3\n2.5,2,3\n"), Options{Speed: 1e-12})
	testkit.Must(t, err)
	for ok := true; ok; {
		_, ok = tr.Next()
	}
	if err := tr.Err(); err == nil || !strings.Contains(err.Error(), "request 2 comes 2.5e+12 s after the first: at most 1e+10 s are replayed") {
		t.Error(err)
	}
}

// FuzzRead checks that no text panics, and that every request that comes out is possible.
func FuzzRead(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.[cj]s*")
	for _, name := range files {
		data, err := os.ReadFile(name)
		testkit.Must(f, err)
		f.Add(string(data))
	}
	f.Fuzz(func(t *testing.T, text string) {
		tr, err := Read(strings.NewReader(text), Options{})
		if err != nil {
			return
		}
		for last := 0.0; ; {
			r, ok := tr.Next()
			if !ok {
				return
			}
			if float64(r.At) < last || r.Prompt < 1 || r.Gen < 1 {
				t.Fatalf("%+v", r)
			}
			last = float64(r.At)
		}
	})
}
