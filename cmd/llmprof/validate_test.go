package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof"
	"llmprof/internal/testkit"
	"llmprof/models"

	"github.com/google/go-cmp/cmp"
)

// TestValidateSchema holds the JSON of a comparison to its schema.
func TestValidateSchema(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, writeFixtures(dir))
	broken := filepath.Join(t.TempDir(), "broken.json")
	testkit.Must(t, os.WriteFile(broken, []byte(`{"schema": "llmprof.aggregate/v1"}`), 0o644))
	s := schema(t, "validate")
	for _, c := range []struct {
		args []string
		code int
	}{
		{[]string{dir}, 0},
		{[]string{dir, broken}, 1},
		{[]string{broken}, 1},
		{[]string{"--by", "source,model,batch"}, 0},
		{nil, 0},
		{[]string{"--fail-over", "1"}, 1},
	}[:testkit.Cases(3, 6)] {
		got := try(t, append([]string{"validate", "--format", "json"}, c.args...)...)
		if got.code != c.code {
			t.Errorf("%v: exit %d, want %d: %s", c.args, got.code, c.code, got.stderr)
		}
		checkSchema(t, s, got.stdout)
	}
}

// A compared is a row of a comparison's JSON.
type compared struct {
	Metric, Engine, GPU, Model string
	Mode                       *string
	Batch, TP                  int
	Prompt                     int     `json:"prompt_len"`
	Gen                        int     `json:"gen_len"`
	Weights, Load              string  //
	Predicted                  float64 `json:"predicted_s"`
	Joules                     float64 `json:"predicted_j"`
	Error                      float64
	Fitted                     bool
}

type comparisonJSON struct {
	Observations  int
	Rows, Skipped []compared
	Summary       []struct {
		Metric, Engine, GPU string
		TP, N               int
		Fitted              bool
		Bias                float64
		Mean                float64 `json:"mean_ape"`
	}
}

func readComparison(t *testing.T, args ...string) (c comparisonJSON) {
	t.Helper()
	got := try(t, append([]string{"validate", "--format", "json"}, args...)...)
	if got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &c))
	return c
}

// TestValidateIsEstimate checks that a row is predicted as "llmprof estimate"
// predicts it.
func TestValidateIsEstimate(t *testing.T) {
	keys := map[string]string{"ttft_s": "ttft_s", "tpot_s": "tpot_s", "ttlt_s": "ttlt_s"}
	engines := map[string]string{"transformers eager": "transformers", "transformers graph": "transformers-graph", "vllm-2024": "vllm-2024",
		"tensorrt-llm-2024": "tensorrt-llm-2024"}
	tried := map[string]int{}
	table, err := models.Load(llmprof.ModelsJSON)
	testkit.Must(t, err)
	for _, r := range readComparison(t).Rows {
		name := r.Engine
		if r.Mode != nil {
			name += " " + *r.Mode
		}
		engine, ok := engines[name]
		if !ok || keys[r.Metric] == "" || r.Load != "static" || r.Weights == "fp32" || tried[name+r.Metric] == testkit.Cases(1, 3) {
			continue
		}
		if m, err := table.Model(r.Model); err != nil || m.MaxContext > 0 && r.Prompt+r.Gen > m.MaxContext {
			continue // an estimate over the model's context is no answer
		}
		tried[name+r.Metric]++
		want := expected(t, keys[r.Metric], "estimate", "--format", "json", "--model", r.Model, "--gpu", r.GPU, "--engine", engine,
			"--weights", r.Weights, "--tp", itoa(r.TP), "--batch", itoa(r.Batch), "--prompt-len", itoa(r.Prompt), "--gen-len", itoa(r.Gen))
		if math.Abs(want-r.Predicted) > 1e-12*want {
			t.Errorf("%+v: %v s, estimate says %v s", r, r.Predicted, want)
		}
	}
	if len(tried) < 8 {
		t.Errorf("only %d kinds of rows were tried", len(tried))
	}
}

func itoa(n int) string {
	b, _ := json.Marshal(n)
	return string(b)
}

// TestValidateAddsUp checks that every observation is in a row or among those
// skipped, and every row in one group.
func TestValidateAddsUp(t *testing.T) {
	c := readComparison(t)
	if len(c.Rows)+len(c.Skipped) != c.Observations {
		t.Errorf("%d rows and %d skipped of %d", len(c.Rows), len(c.Skipped), c.Observations)
	}
	n := 0
	for _, s := range c.Summary {
		n += s.N
		var rows, bias, mean float64
		for _, r := range c.Rows {
			name := r.Engine
			if r.Mode != nil {
				name += " " + *r.Mode
			}
			if r.Metric == s.Metric && name == s.Engine && r.GPU == s.GPU && r.TP == s.TP && r.Fitted == s.Fitted {
				rows++
				bias += r.Error
				mean += math.Abs(r.Error)
			}
		}
		if int(rows) != s.N || math.Abs(bias/rows-s.Bias) > 1e-9 || math.Abs(mean/rows-s.Mean) > 1e-9 {
			t.Errorf("%+v: %v rows, bias %v, mean %v", s, rows, bias/rows, mean/rows)
		}
	}
	if n != len(c.Rows) {
		t.Errorf("the groups have %d rows of %d", n, len(c.Rows))
	}
}

// TestReduceThenValidate checks that a folder of results and what it is reduced to
// are compared alike.
func TestReduceThenValidate(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, writeFixtures(dir))
	file := filepath.Join(t.TempDir(), "lab.csv")
	if got := try(t, "validate", "reduce", "--source", "lab", dir, "-o", file); got.code != 0 {
		t.Fatal(got.stderr)
	}
	a, b := readComparison(t, dir), readComparison(t, file)
	if d := cmp.Diff(a.Summary, b.Summary); d != "" || len(a.Rows) == 0 {
		t.Errorf("%d rows\n%s", len(a.Rows), d)
	}
}

// TestShippedFiles checks that result files which embedded observations were
// reduced from are scored as those are, what was fitted on apart.
func TestShippedFiles(t *testing.T) {
	testkit.Long(t, "all observations, scored twice; TestScript/validate scores result files")
	type row struct {
		Metric, Source string
		ID             *string
		Fitted         bool
	}
	rows := func(args ...string) map[string]bool {
		var c struct{ Rows []row }
		got := try(t, append([]string{"validate", "--format", "json"}, args...)...)
		if err := json.Unmarshal([]byte(got.stdout), &c); err != nil {
			t.Fatal(err, got.stderr)
		}
		fitted := map[string]bool{}
		for _, r := range c.Rows {
			if r.Source == "h200" {
				fitted[*r.ID+" "+r.Metric] = r.Fitted
			}
		}
		return fitted
	}
	folder := filepath.Join("..", "..", "experiments", "h200")
	want := rows()
	if d := cmp.Diff(want, rows(folder)); d != "" || len(want) != 258 {
		t.Errorf("%d rows\n%s", len(want), d)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.json"))
	testkit.Must(t, err)
	text, err := os.ReadFile(files[0])
	testkit.Must(t, err)
	other := filepath.Join(t.TempDir(), filepath.Base(files[0]))
	testkit.Must(t, os.WriteFile(other, append(text, '\n'), 0o644))
	if got := rows(other); len(got) != 0 {
		t.Errorf("another file of that name passes for the one that comes with the program: %v", got)
	}
}

// TestValidateTable holds the whole page to what was looked at.
func TestValidateTable(t *testing.T) {
	got := try(t, "validate")
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	path := filepath.Join("testdata", "validate.txt")
	if update {
		testkit.Must(t, os.WriteFile(path, []byte(got.stdout), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	testkit.Must(t, err)
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.stdout, "\n")); d != "" {
		t.Errorf("the page differs from the one that was looked at; if it is meant to, make golden and look again:\n%s", d)
	}
}
