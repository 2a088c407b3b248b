package experiment

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/internal/tree"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// archive opens the files of a txtar archive.
func archive(text string) func(string) ([]byte, error) {
	files := map[string][]byte{}
	for _, f := range txtar.Parse([]byte(text)).Files {
		files[f.Name] = f.Data
	}
	return func(name string) ([]byte, error) {
		data, ok := files[filepath.ToSlash(name)]
		if !ok {
			return nil, fmt.Errorf("open %s: %w", name, fs.ErrNotExist)
		}
		return data, nil
	}
}

func mustLoad(t *testing.T, file, text string) *Experiment {
	t.Helper()
	e, err := load(file, archive(text))
	testkit.Must(t, err)
	return e
}

// inThreeForms is one experiment in each form.
const inThreeForms = `
-- a.toml --
name = "one"
model = "llama3.1-8b" # a comment
cycles = 2
gap_s = "1.5 s"
gpus = [0, "GPU-1"]
carbon_intensity_g_kwh = 400
[grid]
prompt_len = [128, 1024]
batch = [1, 8]
[metadata]
owner = { name = "x" }
-- a.yaml --
gap_s: 1.5
metadata: {owner: {name: x}}
grid:
  prompt_len: [128, 1024]
  batch:
    - 1
    - 8
gpus: [0, GPU-1]
model: &m llama3.1-8b
cycles: 2
name: one
carbon_intensity_g_kwh: 4e2
-- a.json --
{"model": "llama3.1-8b", "name": "one", "cycles": 2, "gap_s": 1.5, "gpus": ["0", "GPU-1"],
	"metadata": {"owner": {"name": "x"}}, "carbon_intensity_g_kwh": 400.0,
 "grid": {"prompt_len": [128, 1024], "batch": [1, 8]}}
`

// TestForms checks that the form of a file does not matter, nor its order of keys
// where they are no axes of a grid.
func TestForms(t *testing.T) {
	var first *Experiment
	for _, file := range []string{"a.toml", "a.yaml", "a.json"} {
		e := mustLoad(t, file, inThreeForms)
		e.File = ""
		if first == nil {
			first = e
		}
		if diff := cmp.Diff(first, e); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
	if first.Gap != 1.5 || first.Cycles != 2 || len(first.Points) != 4 || first.Points[1].Batch != 8 || first.Points[1].PromptLen != 128 {
		t.Errorf("%+v", first)
	}
	if diff := cmp.Diff([]string{"0", "GPU-1"}, first.Points[0].GPUs); diff != "" {
		t.Error(diff)
	}
}

// TestHash holds the hash of one point for ever: results that are stored are
// found by it. The canonical text is what sha256sum was given.
func TestHash(t *testing.T) {
	p := Default()
	p.Model, p.Batch = "llama3.1-8b", 8
	text, err := p.Canonical()
	testkit.Must(t, err)
	const want = `{"api":"completions","batch":8,"dtype":"bf16","energy":true,"engine":"transformers","gen_len":128,"graph":true,` +
		`"model":"llama3.1-8b","nodes":1,"prompt_len":1024,"prompts":"random","replicas":1,"size":true,"tp":1,"tpot":true,"ttft":true,` +
		`"ttlt":true}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Error(diff)
	}
	hash, err := p.Hash()
	testkit.Must(t, err)
	if want := "2ec09efea42f55b764a44c8eb44fdac4651a081f9650491239705db4fe8f7c62"; hash != want {
		t.Errorf("hash %s, want %s", hash, want)
	}
}

// TestEveryField checks that each setting changes the hash, so that none can be
// forgotten in it.
func TestEveryField(t *testing.T) {
	base := Default()
	plain, _ := base.Hash()
	for _, key := range Settings() {
		p := Default()
		var v any
		switch old := p.Value(key).(type) {
		case string:
			v = "other"
		case bool:
			v = !old
		case []string:
			v = nil
		default:
			v = int64(77)
		}
		n := &tree.Node{Scalar: v}
		if v == nil {
			n = &tree.Node{Kind: tree.ListKind, Items: []*tree.Node{{Scalar: "x"}}}
		}
		if m := p.set(key, n); m != nil {
			t.Fatal(m)
		}
		if h, _ := p.Hash(); h == plain {
			t.Errorf("%s does not change the hash", key)
		}
	}
}

// TestExtends lays files over each other: bases in their order, each with its
// own bases, relative to itself.
func TestExtends(t *testing.T) {
	e := mustLoad(t, "x/run.toml", `
-- x/run.toml --
extends = ["../base/gpu.yaml", "sizes.json"]
batch = 4
[metadata]
c = 3
-- base/gpu.yaml --
extends: common.toml
dtype: fp16
batch: 1
metadata: {b: 2}
-- base/common.toml --
model = "llama3.1-8b"
gen_len = 64
dtype = "fp32"
[metadata]
a = 1
b = 1
-- x/sizes.json --
{"prompt_len": 2048, "gen_len": 32}
`)
	p := e.Points[0]
	if p.Model != "llama3.1-8b" || p.DType != "fp16" || p.Batch != 4 || p.GenLen != 32 || p.PromptLen != 2048 || e.Name != "run" {
		t.Errorf("%+v", e)
	}
	if diff := cmp.Diff(map[string]any{"a": int64(1), "b": int64(2), "c": int64(3)}, e.Metadata); diff != "" {
		t.Error(diff)
	}
}

// TestPoints takes the product of a grid, adds points and excludes some.
func TestPoints(t *testing.T) {
	e := mustLoad(t, "p.toml", `
-- p.toml --
model = "llama3.1-8b"
points = [{batch = 64, gen_len = 16}, {batch = 1, prompt_len = 128}]
[grid]
batch = [1, 8, 32]
prompt_len = [128, 4096]
[[exclude]]
batch = [8, 32]
prompt_len = 4096
`)
	var got []string
	for _, p := range e.Points {
		got = append(got, fmt.Sprintf("%d/%d/%d", p.Batch, p.PromptLen, p.GenLen))
	}
	want := []string{"1/128/128", "1/4096/128", "8/128/128", "32/128/128", "64/1024/16"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(e.Warnings) != 1 || !strings.Contains(e.Warnings[0], "the point batch = 1, prompt_len = 128 stands twice") {
		t.Errorf("warnings: %q", e.Warnings)
	}
}

// TestOrders holds the order of the runs, and that the shuffled one is the same
// each time and has each run once.
func TestOrders(t *testing.T) {
	order := func(name string) string {
		e := mustLoad(t, "o.toml", "-- o.toml --\nmodel = \"m\"\ncycles = 3\norder_seed = 5\norder = \""+name+"\"\ngrid = {batch = [1, 2]}\n")
		trials, err := e.Trials()
		testkit.Must(t, err)
		var got string
		for _, tr := range trials {
			got += fmt.Sprintf("%d%d ", tr.Point.Batch, tr.Cycle)
		}
		return got
	}
	if got, want := order("sequential"), "10 11 12 20 21 22 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := order("interleaved"), "10 20 11 21 12 22 "; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	got := order("shuffled")
	if got != order("shuffled") || got == order("sequential") || len(got) != 18 {
		t.Errorf("shuffled: %s", got)
	}
	for run := range strings.FieldsSeq("10 11 12 20 21 22") {
		if strings.Count(got, run+" ") != 1 {
			t.Errorf("shuffled has %s %d times: %s", run, strings.Count(got, run+" "), got)
		}
	}
}

// TestMistakes reads testdata/mistakes.txtar: files, each with all that is wrong
// with it.
func TestMistakes(t *testing.T) {
	path := filepath.Join("testdata", "mistakes.txtar")
	a, err := txtar.ParseFile(path)
	testkit.Must(t, err)
	text, err := os.ReadFile(path)
	testkit.Must(t, err)
	var out []txtar.File
	for _, f := range a.Files {
		if strings.HasSuffix(f.Name, ".want") {
			continue
		}
		out = append(out, f)
		if strings.HasPrefix(f.Name, "base") {
			continue
		}
		e, err := load(f.Name, archive(string(text)))
		got := ""
		if err != nil {
			got = err.Error() + "\n"
			var ms tree.Errors
			if !errors.As(err, &ms) {
				t.Errorf("%s: %T is not of Mistakes", f.Name, err)
			}
		} else {
			got = "warnings:\n" + strings.Join(e.Warnings, "\n") + "\n"
		}
		out = append(out, txtar.File{Name: f.Name + ".want", Data: []byte(got)})
		for _, w := range a.Files {
			if w.Name == f.Name+".want" && os.Getenv("UPDATE_GOLDEN") == "" {
				if diff := cmp.Diff(string(w.Data), got); diff != "" {
					t.Errorf("%s: %s", f.Name, diff)
				}
			}
		}
	}
	a.Files = out
	if os.Getenv("UPDATE_GOLDEN") != "" {
		testkit.Must(t, os.WriteFile(path, txtar.Format(a), 0o644))
	}
}

// FuzzLoad checks that no file panics, and that what loads has runs with names
// that files can have.
func FuzzLoad(f *testing.F) {
	for _, file := range txtar.Parse([]byte(inThreeForms)).Files {
		f.Add(strings.TrimPrefix(file.Name, "a."), string(file.Data))
	}
	f.Add("yaml", "a: &a [*a]\nb: *b\n<<: {model: x}\n? x\n: y")
	f.Add("toml", "points = [{}]\n[[exclude]]\n'model' = 1")
	f.Add("json", `{"sharding_config": {"num_shards": 1e9}, "decoder_config": [], "quantization_config": null, "batching_options": 3}`)
	f.Fuzz(func(t *testing.T, form, text string) {
		e, err := load("x."+form, func(name string) ([]byte, error) {
			if name != "x."+form {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		})
		if err != nil {
			return
		}
		if len(e.Points) == 0 {
			t.Fatal("no point and no error")
		}
		for i := range e.Points {
			if err := e.Points[i].Check(); err != nil {
				t.Fatalf("a bad point was loaded: %v", err)
			}
		}
	})
}
