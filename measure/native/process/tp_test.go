package process_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/measure/native/cuda"
	"llmprof/measure/native/internal/emulate"
	"llmprof/measure/worker"
)

// shared loads the workload on two GPUs, if there are two.
func shared(t *testing.T) worker.Load {
	t.Helper()
	onGPU(t)
	l := tinyLoad()
	l.TP = 2
	if n, err := cuda.Count(l.Libraries); err != nil || n < l.TP {
		t.Skipf("TP 2 needs two GPUs: there are %d here, %v", n, err)
	}
	return l
}

// Two GPUs that share a model choose the tokens that one GPU chooses, in every phase, with a graph
// and without. Their weights and caches together are those of one GPU, except for the norms, which
// both have.
func TestGPUTensorParallel(t *testing.T) {
	emulate.Long(t)
	l := shared(t)
	w := start(t)
	one := l
	one.TP = 1
	alone := load(t, w, one)
	want := ids(repeat(t, w, one, worker.Request, 1)[0])
	single, err := w.Size(t.Context())
	testkit.Must(t, err)
	for _, graph := range []bool{true, false} {
		l.Graph = graph
		ready := load(t, w, l)
		if len(ready.Devices) != 2 || ready.Devices[0].UUID == ready.Devices[1].UUID || ready.Params != alone.Params ||
			ready.Options["all-reduce"] == "" {
			t.Errorf("ready %+v", ready)
		}
		request := repeat(t, w, l, worker.Request, 2)
		prefill, decode := repeat(t, w, l, worker.Prefill, 2), repeat(t, w, l, worker.Decode, 2)
		for what, got := range map[string][][]int{
			"first request": ids(request[0]), "second request": ids(request[1]),
			"parts": append(ids(prefill[1]), ids(decode[0])...), "second decode": append(ids(prefill[0]), ids(decode[1])...),
		} {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("graph %v, %s (-one GPU +two):\n%s", graph, what, diff)
			}
		}
	}
	both, err := w.Size(t.Context())
	testkit.Must(t, err)
	const norms = 2 * 5 * 256 // bytes of two layers' two norms and the last
	if both.ParamsBytes != single.ParamsBytes+norms || both.KVBytes != single.KVBytes || both.KVTokens != single.KVTokens ||
		len(both.Ranks) != 2 ||
		both.Ranks[0].KVBytes*2 != both.KVBytes || both.Ranks[0].ParamsBytes+both.Ranks[1].ParamsBytes != both.ParamsBytes ||
		*both.PeakBytes != *both.Ranks[0].PeakBytes+*both.Ranks[1].PeakBytes {
		t.Errorf("two hold %+v, one %+v", both, single)
	}
}

// Timing the operators of two GPUs, or tracing them, does not change the tokens.
func TestGPUOpsOfRanks(t *testing.T) {
	emulate.Long(t)
	l := shared(t)
	w := start(t)
	load(t, w, l)
	want := ids(repeat(t, w, l, worker.Request, 1)[0])
	for _, phase := range []worker.Phase{worker.Decode, worker.Prefill} {
		ops, err := w.Ops(t.Context(), worker.Ops{Phase: phase, Rounds: 3})
		if err != nil || !slices.ContainsFunc(ops, func(o worker.Op) bool {
			return o.Name == "all_reduce" || slices.Contains(o.Includes, "all_reduce")
		}) {
			t.Fatalf("%d operators, %v; want all_reduce among them, or what includes it", len(ops), err)
		}
		if _, err := w.Trace(t.Context(), worker.Trace{Phase: phase, Passes: 1, File: filepath.Join(t.TempDir(), "t.json")}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, ids(repeat(t, w, l, worker.Request, 1)[0])); diff != "" {
			t.Errorf("a request after %s (-before +after):\n%s", phase, diff)
		}
	}
}

// The test times the operators of two GPUs that compute nothing.
func TestOpsOfRanks(t *testing.T) {
	w := startAs(t, onStandIn)
	l := tinyLoad()
	l.TP = 2
	load(t, w, l)
	for phase, want := range map[worker.Phase]string{
		worker.Prefill: "embedding 1 1, input_layernorm 2 2, qkv_proj 2 2, rotary 2 2, attention 2 2, o_proj 2 2, all_reduce 2 4, " +
			"post_attention_layernorm 2 2, " +
			"gate_up_proj 2 2, activation 2 2, down_proj 2 2, norm 1 1, lm_head 1 1, sampling 1 2, step 1 27",
		worker.Decode: "embedding 1 1, qkv_proj 2 2, attention 2 2, o_proj 2 4, gate_up_proj 2 2, lm_head 1 1, sampling 1 1, step 1 13",
	} {
		ops, err := w.Ops(t.Context(), worker.Ops{Phase: phase, Rounds: 2})
		testkit.Must(t, err)
		var got []string
		for _, o := range ops {
			got = append(got, fmt.Sprintf("%s %d %d", o.Name, o.Layers, o.Kernels))
		}
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: name, layers and kernels (-want +got):\n%s", phase, diff)
		}
	}
}

// GPUs that cannot share a model are refused with the reason, and the worker keeps running.
func TestGPUsThatCannotShare(t *testing.T) {
	emulate.Long(t)
	for name, c := range map[string]struct{ env, value, want string }{
		"too few":    {"LLMPROF_EMULATED_GPUS", "1", "tp 2 needs the GPUs 0 to 1: the driver shows 1 of them"},
		"other kind": {"LLMPROF_EMULATED_OTHER", "1", "needs GPUs of one kind"},
		"no peer access": {"LLMPROF_EMULATED_NO_PEER", "1",
			"rank 0: cuda: emulated GPU (GPU-e0e0e0e0-e0e0-e0e0-e0e0-e0e0e0e0e0e0) cannot reach the memory of emulated GPU (GPU-e1"},
	} {
		t.Run(name, func(t *testing.T) {
			onGPU(t)
			if emulate.RealGPU() == nil {
				t.Skip("of GPUs that are emulated, and here is a real one")
			}
			t.Setenv(c.env, c.value)
			w := start(t)
			l := tinyLoad()
			l.TP = 2
			if f := loadFails(t, w, l); f.Kind != worker.Missing || f.Fatal || !strings.Contains(f.Message, c.want) {
				t.Errorf("%+v, want %s with %q", f, worker.Missing, c.want)
			}
			l.TP = 1
			load(t, w, l)
		})
	}
}
