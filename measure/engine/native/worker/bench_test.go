package worker_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"llmprof/measure/engine"
	"llmprof/measure/engine/native/internal/emulate"
)

// An operator is timed if there is a GPU. Otherwise the worker says what is missing, and keeps
// running.
func TestBench(t *testing.T) {
	w := start(t)
	good := engine.Bench{Kind: "read", Shape: map[string]int{"bytes": 1 << 20}, DType: "bf16", Rotate: 1 << 24, Samples: 3, Libraries: os.Getenv("LLMPROF_TEST_CUDA_LIBS")}
	for says, c := range map[string]struct {
		kind   string
		change func(*engine.Bench)
	}{
		"bf16 alone":               {engine.Unsupported, func(b *engine.Bench) { b.DType = "fp32" }},
		"not the CPU":              {engine.Unsupported, func(b *engine.Bench) { b.Device = "cpu" }},
		`no operator "all_gather"`: {engine.Unsupported, func(b *engine.Bench) { b.Kind = "all_gather" }},
		"all_reduce over 1 GPUs":   {engine.Invalid, func(b *engine.Bench) { b.Kind = "all_reduce" }},
		"bytes has to be 1":        {engine.Invalid, func(b *engine.Bench) { b.Shape = nil }},
	} {
		b := good
		c.change(&b)
		_, err := w.Bench(t.Context(), b)
		var f *engine.Failure
		if !errors.As(err, &f) || f.Kind != c.kind || f.Fatal || !strings.Contains(f.Message, says) {
			t.Errorf("%v, want %s with %q", err, c.kind, says)
		}
	}
	seen, err := w.Bench(t.Context(), good)
	var f *engine.Failure
	switch {
	case errors.As(err, &f) && f.Kind == engine.Missing:
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
	b := engine.Bench{Kind: "all_reduce", Shape: map[string]int{"bytes": 256 << 10}, DType: "bf16", TP: 2, Samples: 3, Libraries: l.Libraries}
	one := engine.Bench{Kind: "read", Shape: map[string]int{"bytes": 1 << 20}, DType: "bf16", Samples: 3, Libraries: l.Libraries}
	for _, b := range []engine.Bench{one, b, one, b} {
		seen, err := w.Bench(t.Context(), b)
		if err != nil || len(seen.Seconds) < 3 || !seen.Graph {
			t.Fatalf("%s: %+v, %v", b.Kind, seen, err)
		}
	}
	b.Shape = map[string]int{"bytes": 100}
	var f *engine.Failure
	if _, err := w.Bench(t.Context(), b); !errors.As(err, &f) || f.Kind != engine.Unsupported || f.Fatal {
		t.Errorf("%v", err)
	}
}
