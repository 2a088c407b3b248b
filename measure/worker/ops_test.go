//go:build unix

package worker_test

import (
	"errors"
	"strings"
	"testing"

	"llmprof/measure/worker"
)

func TestOps(t *testing.T) {
	w := started(t, "good", worker.Limits{})
	ops, err := w.Ops(t.Context(), worker.Ops{Phase: worker.Decode, Rounds: 3})
	if err != nil {
		t.Fatal(err)
	}
	if len(ops) != 3 || ops[0].Name != "first" || ops[0].Whole || !ops[2].Whole || len(ops[1].SamplesS) != 3 || ops[1].SamplesS[0] != 1e-3 ||
		ops[0].Context != 4 {
		t.Errorf("%+v", ops)
	}
	for _, o := range []worker.Ops{
		{Phase: worker.Request, Rounds: 1}, {Phase: "idle", Seconds: 1}, {Phase: worker.Decode}, {Phase: worker.Decode, Rounds: -1},
		{Phase: worker.Prefill, Seconds: -1},
	} {
		var failure *worker.Failure
		if _, err := w.Ops(t.Context(), o); !errors.As(err, &failure) || failure.Kind != worker.Invalid {
			t.Errorf("%+v: %v", o, err)
		}
	}
	if _, err := w.Size(t.Context()); err != nil {
		t.Errorf("after ops: %v", err)
	}
}

// A worker that cannot time its operators says so, and lives on; one that says
// what cannot be is ended.
func TestOpsGoWrong(t *testing.T) {
	for mode, says := range map[string]string{
		"twice": `the operator "first" came twice`, "phase": `an operator of "request" among those of "decode"`,
		"elsewhere": `"second" is at context 5, "first" at 4`, "uneven": `"second" has 1 samples, "first" has 2`,
		"zero": `"second" took 0 s`, "hasty": "done came before an operator and the whole", "no whole": "done came before",
		"other": "size is no answer to ops", "none": "operators cannot be replayed here",
	} {
		w := started(t, mode, worker.Limits{})
		_, err := w.Ops(t.Context(), worker.Ops{Phase: worker.Decode, Rounds: 2})
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", mode, err, says)
		}
		var failure *worker.Failure
		var violation *worker.Violation
		if unsupported := errors.As(err, &failure) && failure.Kind == worker.Unsupported; unsupported != (mode == "none") ||
			!unsupported && !errors.As(err, &violation) {
			t.Errorf("%s: a %T", mode, err)
		}
		if _, err := w.Size(t.Context()); (err == nil) != (mode == "none") {
			t.Errorf("%s: after it: %v", mode, err)
		}
	}
}

// What a line says of an operator has to be possible.
func TestOpEvent(t *testing.T) {
	good := `{"event":"op","op":{"phase":"decode","name":"o_proj","layers":32,"kernels":32,"context":4,"samples_s":[0.001]}}`
	if _, err := worker.ParseEvent([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for old, changed := range map[string]string{
		`"name":"o_proj"`: `"name":""`, `"layers":32`: `"layers":0`, `"kernels":32`: `"kernels":0`, `"context":4`: `"context":-1`,
		`[0.001]`: `[]`, `0.001`: `-1`,
	} {
		if _, err := worker.ParseEvent([]byte(strings.Replace(good, old, changed, 1))); err == nil {
			t.Errorf("%s was taken", changed)
		}
	}
}
