package experiment

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// writeFiles writes files by their names, in the working folder.
func writeFiles(t *testing.T, files map[string]string) {
	t.Helper()
	for name, text := range files {
		testkit.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o644))
	}
}

// A result is of the contents of every file that its settings name: with another one the point is run anew, and the
// result of before stays.
func TestContents(t *testing.T) {
	t.Chdir(t.TempDir())
	start := map[string]string{
		"mm/config.json": "{}", "mm/tokenizer.json": "{}", "mm/model.safetensors": "w", "alone/config.json": "{}", "w/a.safetensors": "w",
		"p.txt": "one", "t.csv": "a,b",
		"serve.sh": "x", "llama3.1-8b/old-result.json": "{}",
	}
	writeFiles(t, start)
	server := "engine: openai\nbase_url: http://127.0.0.1:1/v1\nenergy: false\n"
	for name, text := range map[string]string{
		"folder.yaml": server + "model: ./mm\n", "bare.yaml": server + "model: mm\n", "config.yaml": server + "model: alone/config.json\n",
		"weights.yaml": "model: llama3.1-8b\nweights_dir: w\n", "prompts.yaml": server + "model: llama3.1-8b\nprompts: p.txt\n",
		"load.yaml":    server + "model: llama3.1-8b\nload: t.csv\n",
		"command.yaml": server + "model: llama3.1-8b\nengine_cmd: sh serve.sh --port 1\n",
		"own.yaml":     server + "model: llama3.1-8b\nengine_cmd: ./serve.sh\n",
		"flag.yaml":    server + "model: llama3.1-8b\nengine_cmd: vllm --config=serve.sh\n",
	} {
		writeFiles(t, map[string]string{name: text})
	}
	hash := func(file string) string {
		t.Helper()
		e, err := Load(file)
		testkit.Must(t, err)
		trials, err := e.Trials()
		testkit.Must(t, err)
		return trials[0].Hash
	}
	for _, c := range []struct{ experiment, file string }{
		{"folder.yaml", "mm/config.json"}, {"folder.yaml", "mm/tokenizer.json"}, {"folder.yaml", "mm/model.safetensors"},
		{"folder.yaml", "mm/hf_quant_config.json"},
		{"bare.yaml", "mm/config.json"}, {"config.yaml", "alone/config.json"}, {"config.yaml", "alone/hf_quant_config.json"},
		{"weights.yaml", "w/a.safetensors"}, {"weights.yaml", "w/b.safetensors"},
		{"prompts.yaml", "p.txt"}, {"load.yaml", "t.csv"}, {"command.yaml", "serve.sh"}, {"own.yaml", "serve.sh"}, {"flag.yaml", "serve.sh"},
	} {
		before := hash(c.experiment)
		if hash(c.experiment) != before {
			t.Errorf("%s: two hashes of the same files", c.experiment)
		}
		writeFiles(t, map[string]string{c.file: "{\"another\": 1}"})
		if hash(c.experiment) == before {
			t.Errorf("%s: the hash is the same with another %s", c.experiment, c.file)
		}
		testkit.Must(t, os.Remove(c.file))
		writeFiles(t, start)
	}
}

// Settings that name no file of this machine have the hash that they always had.
func TestNoContents(t *testing.T) {
	t.Chdir(t.TempDir())
	writeFiles(t, map[string]string{
		"llama3.1-8b/old-result.json": "{}", "org": "", "a.yaml": "model: llama3.1-8b\n", "b.yaml": "model: org/name\n",
		"c.yaml": "model: /no/such/model\nengine: openai\nbase_url: http://127.0.0.1:1/v1\nenergy: false\n",
	})
	for _, file := range []string{"a.yaml", "b.yaml", "c.yaml"} {
		e, err := Load(file)
		testkit.Must(t, err)
		settings, err := e.Points[0].Canonical()
		if err != nil || strings.Contains(string(settings), "contents") {
			t.Errorf("%s: %s, %v", file, settings, err)
		}
	}
}

// A file that changes while its experiment runs makes no result of the contents before.
func TestChangedMeanwhile(t *testing.T) {
	good, err := fixture(Default())
	testkit.Must(t, err)
	t.Chdir(t.TempDir())
	writeFiles(t, map[string]string{"p.txt": "one", "e.yaml": "model: llama3.1-8b\nprompts: p.txt\ngrid: {batch: [1, 2, 3]}\n"})
	e, err := Load("e.yaml")
	testkit.Must(t, err)
	trials, err := e.Trials()
	testkit.Must(t, err)
	n := 0
	sum, err := Run(t.Context(), trials, single(func(_ context.Context, p Point) (*result.Result, error) {
		if n++; p.Batch == 2 {
			writeFiles(t, map[string]string{"p.txt": "two"})
		}
		return good, nil
	}), Options{Store: Store{"results"}})
	if err == nil || sum.Measured != 1 || sum.Failed != 2 || n != 2 {
		t.Errorf("%+v after %d measurements: %v", sum, n, err)
	}
	failures, err := Store{"results"}.Failures()
	if err != nil || len(failures) != 2 || !strings.Contains(fmt.Sprint(failures[0].Errors), "p.txt") {
		t.Errorf("%+v, %v", failures, err)
	}
}
