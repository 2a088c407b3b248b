package transformers_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/internal/testkit/pythontest"
	"llmprof/measure/internal/transformers"
	"llmprof/measure/worker"
)

// tiny gives the config of a small model of the tests' own.
func tiny(t *testing.T, name string) json.RawMessage {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	testkit.Must(t, err)
	return text
}

// load is a load of a tiny model in fp32, in which the greedy choice between
// tokens does not hang on rounding.
func tinyLoad(t *testing.T, name string) worker.Load {
	return worker.Load{
		Model: name, Config: tiny(t, name), RandomWeights: true, DType: "fp32", Device: "cpu",
		Workload: operator.Workload{Batch: 2, PromptLen: 24, GenLen: 6}, Seed: 7, SaveOutputs: true,
	}
}

// start starts a worker that the test ends.
func start(t *testing.T) *worker.Worker {
	t.Helper()
	w := begin(t)
	t.Cleanup(func() { w.Close() })
	return w
}

// begin starts a worker. Threads that wait for each other over a tiny model cost a busy machine six times
// what the work does.
func begin(t *testing.T) *worker.Worker {
	t.Helper()
	w, err := transformers.Start(context.Background(), transformers.Options{
		Python: pythontest.Find(t),
		Env:    []string{"HF_HUB_OFFLINE=1", "OMP_NUM_THREADS=1"},
	})
	testkit.Must(t, err)
	return w
}

var kept *worker.Worker // shared by tests

func TestMain(m *testing.M) {
	code := m.Run()
	if kept != nil {
		kept.Close()
	}
	os.Exit(code)
}

// common gives a worker that tests use one after the other, for to import torch and transformers takes seconds.
// A test that fails ends it.
func common(t *testing.T) *worker.Worker {
	t.Helper()
	if kept == nil {
		kept = begin(t)
	}
	t.Cleanup(func() {
		if t.Failed() {
			kept.Close()
			kept = nil
		}
	})
	return kept
}

// repeat runs passes of a phase.
func repeat(t *testing.T, w *worker.Worker, phase worker.Phase, passes int) []worker.Pass {
	t.Helper()
	var all []worker.Pass
	done, err := w.Run(t.Context(), worker.Run{Phase: phase, Passes: passes}, func(p worker.Pass) { all = append(all, p) })
	testkit.Must(t, err)
	if done.Passes != passes || len(all) != passes {
		t.Fatalf("%d passes done, %d handed on, want %d", done.Passes, len(all), passes)
	}
	return all
}

func ids(p worker.Pass) [][]int {
	var all [][]int
	for _, token := range p.Tokens {
		all = append(all, token.IDs)
	}
	return all
}
