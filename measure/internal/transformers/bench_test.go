package transformers_test

import (
	"testing"

	"llmprof/measure/worker"
)

// Operators are timed for real on the processor; what needs a GPU, or makes no
// sense, is refused, and the worker lives on.
func TestBench(t *testing.T) {
	w := common(t)
	bench := func(kind string, shape map[string]int) (*worker.Timed, error) {
		return w.Bench(t.Context(), worker.Bench{Kind: kind, Shape: shape, DType: "fp32", Device: "cpu", Rotate: 1 << 20, Samples: 4,
			Seconds: 0.001})
	}
	for kind, shape := range map[string]map[string]int{
		"gemm":              {"m": 2, "n": 64, "k": 32},
		"gemm_sustained":    {"m": 2, "n": 64, "k": 32},
		"attention_prefill": {"tokens": 16, "heads": 4, "kv_heads": 2, "head_dim": 16},
		"attention_decode":  {"batch": 2, "context": 16, "heads": 4, "kv_heads": 2, "head_dim": 16},
		"rms_norm":          {"tokens": 3, "width": 64},
		"activation":        {"tokens": 3, "width": 64},
		"read":              {"bytes": 4096},
		"copy":              {"bytes": 4096},
		"eager_launch":      {"launches": 5},
	} {
		seen, err := bench(kind, shape)
		if err != nil || len(seen.Seconds) < 3 || seen.Graph || seen.Device.Name != "cpu" {
			t.Errorf("%s: %+v, %v", kind, seen, err)
			continue
		}
		if rotated := kind != "attention_prefill" && kind != "eager_launch"; seen.Cold != rotated {
			t.Errorf("%s: cold is %v", kind, seen.Cold)
		}
	}
	_, err := bench("graph_node", map[string]int{"launches": 5})
	wantFailure(t, "a graph without a GPU", err, worker.Unsupported, "needs a GPU")
	_, err = bench("random", map[string]int{})
	wantFailure(t, "what is no operator", err, worker.Unsupported, "no operator 'random'")
	_, err = bench("gemm", map[string]int{"m": 2})
	wantFailure(t, "half a shape", err, worker.Invalid, "missing 2 required positional arguments")
	_, err = bench("all_reduce", map[string]int{"bytes": 8})
	wantFailure(t, "one rank", err, worker.Invalid, "two ranks or more")
	_, err = w.Bench(t.Context(), worker.Bench{Kind: "gemm", Shape: map[string]int{"m": 1, "n": 8, "k": 8}, DType: "int3", Device: "cpu",
		Samples: 1})
	wantFailure(t, "a dtype", err, worker.Unsupported, "no dtype 'int3'")
	_, err = w.Bench(t.Context(), worker.Bench{Kind: "gemm", Shape: map[string]int{"m": 1, "n": 8, "k": 8}, DType: "fp32", Device: "cuda",
		Samples: 1})
	wantFailure(t, "no GPU", err, worker.Missing, "torch sees no GPU here")
	load(t, w, tinyLoad(t, "llama"))
	repeat(t, w, worker.Request, 1)
}

// A graph holds at least as many calls as a model has layers, and goes through its
// buffers in whole rounds, so that none comes again before all others did.
func TestBenchLengthens(t *testing.T) {
	var seen [][4]any
	script(t, &seen, "lengthen.py", `{"kind": "gemm", "shape": {"m": 2, "n": 128, "k": 128}}`,
		`{"kind": "gemm", "shape": {"m": 2, "n": 256, "k": 256}}`,
		`{"kind": "activation", "shape": {"tokens": 8, "width": 256}}`, `{"kind": "read", "shape": {"bytes": 4096}}`)
	for i, want := range []struct{ copies, calls int }{{2, 32}, {2, 32}, {4, 32}, {17, 34}} {
		for j, calls := range []int{want.copies, want.calls} {
			reads, ok := seen[i][2*j].([]any)
			if !ok || len(reads) != calls || seen[i][2*j+1] != float64(calls) {
				t.Errorf("%d: %v calls, %d reads, want %d", i, seen[i][2*j+1], len(reads), calls)
			}
			for k, at := range reads {
				if at != float64(k%want.copies) {
					t.Errorf("%d: call %d reads buffer %v", i, k, at)
				}
			}
		}
	}
}
