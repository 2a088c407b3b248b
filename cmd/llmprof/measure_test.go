package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/pythontest"
	"llmprof/measure/result"
)

// oneThread makes every Python run on one thread. With a tiny model the threads of a Python mostly wait
// for each other, which costs a busy machine six times the work.
var oneThread = sync.OnceValue(func() error { return os.Setenv("OMP_NUM_THREADS", "1") })

// python finds a Python with torch and transformers, and runs it on one thread.
func python(t *testing.T) string {
	t.Helper()
	testkit.Must(t, oneThread())
	return pythontest.Find(t)
}

// A dense model, a mixture and a Mamba2 are measured for real, on the processor.
func TestMeasure(t *testing.T) {
	py := python(t)
	for _, name := range []string{"llama", "qwen3moe", "mamba2"} {
		t.Run(name, func(t *testing.T) {
			config, err := filepath.Abs("../../measure/transformers/testdata/" + name + ".json")
			testkit.Must(t, err)
			dir := t.TempDir()
			text, err := os.ReadFile(config)
			testkit.Must(t, err)
			testkit.Must(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o644))
			results := filepath.Join(dir, "new", "results")
			var out, errs bytes.Buffer
			code := run([]string{"measure", "--model", dir, "--python", py, "--random-weights", "--device", "cpu", "--dtype", "fp32", "--eager",
				"--prompt-len", "12", "--gen-len", "4", "--warmup", "2", "--repeats", "3", "--ttft", "--tpot", "--ttlt", "--size",
				"--results", results, "--format", "json"}, nil, &out, &errs, os.Getenv)
			if code != 0 {
				t.Fatalf("exit %d: %s", code, errs.String())
			}
			checkSchema(t, schema(t, "measure.v1.json"), out.String())
			var r result.Result
			testkit.Must(t, json.Unmarshal(out.Bytes(), &r))
			if r.TTFT.N < 3 || r.TPOT.N < 3 || r.StepTime.N < 9 || r.TTFT.Warmups != 2 || r.Sizes.Params == nil {
				t.Errorf("TTFT %+v, TPOT %+v, sizes %+v", r.TTFT, r.TPOT, r.Sizes)
			}
			if a := r.Sizes.Analytic; a == nil || math.Abs(float64(*r.Sizes.Params)/a.Params-1) > 1e-9 {
				t.Errorf("the engine holds %v bytes of parameters, the theory %+v", *r.Sizes.Params, a)
			}
			if kv := *r.Sizes.KV; name != "mamba2" && math.Abs(float64(kv)/r.Sizes.Analytic.KV-1) > 1e-9 {
				t.Errorf("the cache has %d bytes, in theory %v", kv, r.Sizes.Analytic.KV)
			}
			if got := try(t, "results", "list", "--results", results); got.code != 0 || !strings.Contains(got.stdout, r.ID) {
				t.Errorf("the result is not listed: %s%s", got.stdout, got.stderr)
			}
			page := try(t, "results", "show", r.ID, "--raw", "--results", results)
			for _, want := range []string{"TTFT", "Memory", "Closure", "random weights"} {
				if !strings.Contains(page.stdout, want) {
					t.Errorf("no %q in the page: %s%s", want, page.stdout, page.stderr)
				}
			}
		})
	}
}

// Replicas run side by side and leave a result each. Prompts of a file are read by the model, and what it answers
// is kept: with the same weights, the same of each replica.
func TestMeasureReplicas(t *testing.T) {
	py := python(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"config.json": tinyLlama, "prompts.jsonl": "{\"prompt_token_ids\": [1, 2, 3, 4, 5, 6]}\n{\"prompt_token_ids\": [9, 8, 7, 6, 5, 4]}\n",
	} {
		testkit.Must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644))
	}
	var out, errs bytes.Buffer
	code := run([]string{"measure", "--model", dir, "--python", py, "--random-weights", "--device", "cpu", "--dtype", "fp32", "--eager",
		"--prompt-len", "6", "--gen-len", "3", "--batch", "2", "--replicas", "2", "--warmup", "1", "--repeats", "2", "--ttft", "--ttlt",
		"--save-outputs",
		"--prompts", filepath.Join(dir, "prompts.jsonl"), "--results", dir, "--format", "json"}, nil, &out, &errs, os.Getenv)
	if code != 0 {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	all, broken := result.ReadFolder(dir)
	if len(all) != 2 || all[0].ID != all[1].ID || all[1].Process != 1 || all[1].Processes != 2 {
		t.Fatalf("%d results, broken %v", len(all), broken)
	}
	if o := all[0].Outputs; len(o) != 2 || len(o[0]) != 3 {
		t.Errorf("outputs %v, want 3 tokens of 2 sequences", o)
	}
	if diff := cmp.Diff(all[0].Outputs, all[1].Outputs); diff != "" {
		t.Errorf("the same prompts and weights gave other tokens (-one +other):\n%s", diff)
	}
}
