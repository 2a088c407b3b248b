package process_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"llmprof/measure/native/internal/emulate"
	"llmprof/measure/worker"
)

// An operator is timed if there is a GPU. Otherwise the worker says what is missing, and keeps
// running.
func TestBench(t *testing.T) {
	w := start(t)
	good := worker.Bench{Kind: "read", Shape: map[string]int{"bytes": 1 << 20}, DType: "bf16", Rotate: 1 << 24, Samples: 3,
		Libraries: os.Getenv("LLMPROF_TEST_CUDA_LIBS")}
	for says, c := range map[string]struct {
		kind   string
		change func(*worker.Bench)
	}{
		"bf16 alone":               {worker.Unsupported, func(b *worker.Bench) { b.DType = "fp32" }},
		"not the CPU":              {worker.Unsupported, func(b *worker.Bench) { b.Device = "cpu" }},
		`no operator "all_gather"`: {worker.Unsupported, func(b *worker.Bench) { b.Kind = "all_gather" }},
		"all_reduce over 1 GPUs":   {worker.Invalid, func(b *worker.Bench) { b.Kind = "all_reduce" }},
		"bytes has to be 1":        {worker.Invalid, func(b *worker.Bench) { b.Shape = nil }},
	} {
		b := good
		c.change(&b)
		_, err := w.Bench(t.Context(), b)
		var f *worker.Failure
		if !errors.As(err, &f) || f.Kind != c.kind || f.Fatal || !strings.Contains(f.Message, says) {
			t.Errorf("%v, want %s with %q", err, c.kind, says)
		}
	}
	seen, err := w.Bench(t.Context(), good)
	var f *worker.Failure
	switch {
	case errors.As(err, &f) && f.Kind == worker.Missing:
		t.Skipf("no GPU here: %v", err)
	case err != nil:
		t.Fatal(err)
	case len(seen.Seconds) < 3 || !seen.Graph || !seen.Cold || seen.Device.UUID == "":
		t.Errorf("%+v", seen)
	}
}

// All-reduces are timed over as many GPUs as are asked for, between operators of one GPU. The
// message is too large to be summed within GEMMs, because a graph has too many of those for a
// processor that emulates them.
func TestGPUBenchOfRanks(t *testing.T) {
	emulate.Long(t)
	l := shared(t)
	w := start(t)
	b := worker.Bench{Kind: "all_reduce", Shape: map[string]int{"bytes": 256 << 10}, DType: "bf16", TP: 2, Samples: 3, Libraries: l.Libraries}
	one := worker.Bench{Kind: "read", Shape: map[string]int{"bytes": 1 << 20}, DType: "bf16", Samples: 3, Libraries: l.Libraries}
	for _, b := range []worker.Bench{one, b, one, b} {
		seen, err := w.Bench(t.Context(), b)
		if err != nil || len(seen.Seconds) < 3 || !seen.Graph {
			t.Fatalf("%s: %+v, %v", b.Kind, seen, err)
		}
	}
	b.Shape = map[string]int{"bytes": 100}
	var f *worker.Failure
	if _, err := w.Bench(t.Context(), b); !errors.As(err, &f) || f.Kind != worker.Unsupported || f.Fatal {
		t.Errorf("%v", err)
	}
}
