package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/stats"
	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// writeSynthetic fills a folder with one result of operators that nobody
// measured: round times in their order of size, for tests of what is made of them.
func writeSynthetic(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	r, err := result.Read(fixturePath)
	if err != nil {
		return err
	}
	r.ID, r.Engine.Name, r.Workload.Batch = "synthetic-operators", "native", 1
	r.Warnings = []string{"synthetic: made up for tests, not measured"}
	delete(r.Reasons, "operators")
	r.Operators = &result.Operators{How: "synthetic: made up for tests, not measured"}
	if r.Operators.Prefill, err = syntheticPhase(0, 24e-3, map[string][]string{"rotary": {"kv_write"}}, []syntheticOp{
		{"embedding", 1, 8e-6}, {"input_layernorm", 32, 4e-4}, {"qkv_proj", 32, 2.4e-3}, {"rotary", 32, 4e-4}, {"attention", 32, 1.5e-3},
		{"o_proj", 32, 1.6e-3},
		{"post_attention_layernorm", 32, 4e-4}, {"gate_up_proj", 32, 10e-3}, {"activation", 32, 9e-4}, {"down_proj", 32, 5e-3}, {"norm", 1, 5e-6},
		{"lm_head", 1, 3e-4}, {"sampling", 1, 1e-5},
	}); err != nil {
		return err
	}
	if r.Operators.Decode, err = syntheticPhase(1087, 4.8e-3, map[string][]string{
		"qkv_proj": {"input_layernorm"}, "attention": {"rotary", "kv_write"}, "gate_up_proj": {"post_attention_layernorm", "activation"},
		"lm_head": {"norm"},
	}, []syntheticOp{
		{"embedding", 1, 4e-6}, {"qkv_proj", 32, 5e-4}, {"attention", 32, 3e-4}, {"o_proj", 32, 2e-4}, {"gate_up_proj", 32, 2e-3},
		{"down_proj", 32, 1e-3}, {"lm_head", 1, 2.5e-4}, {"sampling", 1, 6e-6},
	}); err != nil {
		return err
	}
	_, err = result.Write(dir, r)
	return err
}

type syntheticOp struct {
	name    string
	layers  int
	seconds float64
}

func syntheticPhase(context int, step float64, includes map[string][]string, ops []syntheticOp) (*result.OperatorPhase, error) {
	times := func(s float64) (result.OperatorTimes, error) {
		samples := []float64{0.98 * s, s, s, s, 1.01 * s, 1.03 * s}
		sum, err := stats.Summarize(samples)
		if err != nil {
			return result.OperatorTimes{}, err
		}
		return result.OperatorTimes{Summary: *sum, Samples: samples}, nil
	}
	p := &result.OperatorPhase{Context: context}
	var err error
	if p.Step, err = times(step); err != nil {
		return nil, err
	}
	for _, o := range ops {
		t, err := times(o.seconds)
		if err != nil {
			return nil, err
		}
		p.Sum += t.Median
		p.Ops = append(p.Ops, result.OperatorTime{Name: o.name, Includes: includes[o.name], Layers: o.layers, Kernels: o.layers, Time: t})
	}
	return p, nil
}

// TestOperatorPage holds the tables of operators to what was looked at.
func TestOperatorPage(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, writeSynthetic(dir))
	got := try(t, "results", "show", "synthetic-operators", "--raw", "--results", dir)
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	_, page, ok := strings.Cut(got.stdout, "Operators of a prefill")
	if !ok {
		t.Fatalf("the page has no operators:\n%s", got.stdout)
	}
	page = "Synthetic, nobody measured it. Operators of a prefill" + page
	path := filepath.Join("testdata", "operators.txt")
	if update {
		testkit.Must(t, os.WriteFile(path, []byte(page), 0o644))
		return
	}
	want, err := os.ReadFile(path)
	testkit.Must(t, err)
	if d := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(page, "\n")); d != "" {
		t.Errorf("the page differs from the one that was looked at; if it is meant to, make golden and look again:\n%s", d)
	}
}

// TestOperatorsJSON holds the JSON of a comparison with operators to its schema.
func TestOperatorsJSON(t *testing.T) {
	dir := t.TempDir()
	testkit.Must(t, writeSynthetic(dir))
	got := try(t, "validate", "--format", "json", dir)
	if got.code != 0 || strings.Count(got.stdout, `"phase": "`) != 2 {
		t.Fatalf("exit %d: %s%s", got.code, got.stderr, got.stdout)
	}
	checkSchema(t, schema(t, "validate"), got.stdout)
	got = try(t, "results", "show", "synthetic-operators", "--raw", "--format", "csv", "--results", dir)
	if n := strings.Count(got.stdout, ",operators."); n != 6*(13+8+2) {
		t.Errorf("%d samples of operators in the CSV, want %d", n, 6*(13+8+2))
	}
}

// The chart of operators says over how many GPUs they ran, where it is more than one.
func TestOperatorsChartTP(t *testing.T) {
	for file, says := range map[string]string{
		"testdata/operators-tp2.json": "H200 SXM 141GB · TP 2 · native graph · batch 1 ·",
		"../../experiments/h200-native/measure-20261122T123928-2136e0693642-c0.p0.json": "H200 SXM 141GB · native graph · batch 1 ·",
	} {
		chart := filepath.Join(t.TempDir(), "operators.svg")
		got := try(t, "validate", file, "--chart", "ops", "-o", chart)
		drawn, err := os.ReadFile(chart)
		if err != nil || got.code != 0 || !strings.Contains(string(drawn), says) {
			t.Errorf("%s: exit %d, %v: %s; the chart does not say %q", file, got.code, err, got.stderr, says)
		}
	}
}
