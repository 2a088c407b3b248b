package process_test

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/internal/testkit"
	"llmprof/measure/native/internal/emulate"
	"llmprof/measure/tracefile"
	"llmprof/measure/worker"
)

// On a GPU that computes nothing each kernel takes a microsecond. The operators are timed in their
// order and add up to the whole.
func TestOps(t *testing.T) {
	w := startAs(t, onStandIn)
	l := tinyLoad()
	l.GenLen = 9
	load(t, w, l)
	for phase, want := range map[worker.Phase]string{
		worker.Prefill: "embedding 1 1, input_layernorm 2 2, qkv_proj 2 2, rotary 2 2, attention 2 2, o_proj 2 2, " +
			"post_attention_layernorm 2 2, " +
			"gate_up_proj 2 2, activation 2 2, down_proj 2 2, norm 1 1, lm_head 1 1, sampling 1 2, step 1 23",
		worker.Decode: "embedding 1 1, qkv_proj 2 2, attention 2 2, o_proj 2 2, gate_up_proj 2 2, down_proj 2 2, lm_head 1 1, sampling 1 1, " +
			"step 1 13",
	} {
		ops, err := w.Ops(t.Context(), worker.Ops{Phase: phase, Rounds: 4})
		testkit.Must(t, err)
		context := map[worker.Phase]int{worker.Prefill: 0, worker.Decode: 12 + 3}[phase]
		var got []string
		sum := 0.0
		for _, o := range ops {
			got = append(got, fmt.Sprintf("%s %d %d", o.Name, o.Layers, o.Kernels))
			if len(o.SamplesS) != 4 || o.Context != context || o.Whole != (o.Name == "step") {
				t.Errorf("%s: %+v, want 4 samples at context %d", phase, o, context)
			}
			if !o.Whole {
				sum += o.SamplesS[0]
			} else if math.Abs(sum-o.SamplesS[0]) > 1e-9 {
				t.Errorf("%s: the operators take %v s, the whole %v s", phase, sum, o.SamplesS[0])
			}
		}
		if diff := cmp.Diff(want, strings.Join(got, ", ")); diff != "" {
			t.Errorf("%s: name, layers and kernels (-want +got):\n%s", phase, diff)
		}
	}
	if ops, err := w.Ops(t.Context(), worker.Ops{Phase: worker.Decode, Seconds: 0.05}); err != nil || len(ops[0].SamplesS) < 2 {
		t.Errorf("%v in 50 ms: %v", ops, err)
	}
	if _, err := w.Run(t.Context(), worker.Run{Phase: worker.Decode, Passes: 1}, nil); err != nil {
		t.Errorf("decode after it: %v", err)
	}
	l.GenLen = 1
	load(t, w, l)
	var failure *worker.Failure
	if _, err := w.Ops(t.Context(), worker.Ops{Phase: worker.Decode, Rounds: 1}); !errors.As(err, &failure) ||
		!strings.Contains(failure.Message, "no decode step") {
		t.Errorf("one token: %v", err)
	}
	if _, err := w.Ops(t.Context(), worker.Ops{Phase: worker.Prefill, Rounds: 1}); err != nil {
		t.Error(err)
	}
}

// A trace has the phase, its steps, their layers and operators, and its anchor.
func TestTrace(t *testing.T) {
	w := startAs(t, onStandIn)
	l := tinyLoad()
	load(t, w, l)
	for phase, want := range map[worker.Phase]map[string]int{
		worker.Prefill: {"embedding": 1, "input_layernorm": 2, "qkv_proj": 2, "norm": 1, "sampling": 1},
		worker.Decode:  {"embedding": 5, "qkv_proj": 10, "lm_head": 5, "sampling": 5},
		worker.Request: {"embedding": 6, "qkv_proj": 12, "rotary": 2, "sampling": 6},
	} {
		path := filepath.Join(t.TempDir(), string(phase)+".json")
		done, err := w.Trace(t.Context(), worker.Trace{Phase: phase, Passes: 1, File: path})
		testkit.Must(t, err)
		trace, err := tracefile.ReadFile(path)
		testkit.Must(t, err)
		if err := trace.Anchor(done.Anchor, done.AnchorNS); err != nil {
			t.Error(err)
		}
		us, err := trace.Micros(done.BeginNS)
		testkit.Must(t, err)
		testkit.Must(t, trace.Anchor(string(phase), 0))
		if begin, err := trace.Micros(0); err != nil || begin < us-1 || begin > us+1e6 {
			t.Errorf("%s begins at %v us, the trace at %v us: %v", phase, begin, us, err)
		}
		got := map[string]int{}
		for _, k := range trace.Kernels() {
			if _, asked := want[k.Name]; asked {
				got[k.Name] = k.Count
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: operators (-want +got):\n%s", phase, diff)
		}
	}
	for name, bad := range map[string]worker.Trace{
		"no file": {Phase: worker.Decode, Passes: 1}, "no pass": {Phase: worker.Decode, File: "t"},
		"no phase":  {Phase: "idle", Passes: 1, File: "t"},
		"no folder": {Phase: worker.Decode, Passes: 1, File: filepath.Join(t.TempDir(), "none", "t.json")},
	} {
		var failure *worker.Failure
		if _, err := w.Trace(t.Context(), bad); !errors.As(err, &failure) || failure.Kind != worker.Invalid || failure.Fatal {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := w.Run(t.Context(), worker.Run{Phase: worker.Request, Passes: 1}, nil); err != nil {
		t.Errorf("a request after it: %v", err)
	}
}

// On a GPU, timing operators or writing a trace does not change the tokens.
func TestGPUOpsLeaveTokens(t *testing.T) {
	emulate.Long(t)
	onGPU(t)
	w := start(t)
	for _, graph := range []bool{true, false} {
		l := tinyLoad()
		l.Graph = graph
		load(t, w, l)
		want := ids(repeat(t, w, l, worker.Request, 1)[0])
		for _, phase := range []worker.Phase{worker.Decode, worker.Prefill} {
			ops, err := w.Ops(t.Context(), worker.Ops{Phase: phase, Rounds: 3})
			if err != nil || len(ops) < 9 {
				t.Fatalf("%d operators, %v", len(ops), err)
			}
			if _, err := w.Trace(t.Context(), worker.Trace{Phase: phase, Passes: 1, File: filepath.Join(t.TempDir(), "t.json")}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want[1:], ids(repeat(t, w, l, worker.Decode, 1)[0])); diff != "" {
				t.Errorf("graph %v: decode after %s (-before +after):\n%s", graph, phase, diff)
			}
			if diff := cmp.Diff(want, ids(repeat(t, w, l, worker.Request, 1)[0])); diff != "" {
				t.Errorf("graph %v: a request after %s (-before +after):\n%s", graph, phase, diff)
			}
		}
	}
}
