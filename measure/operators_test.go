package measure

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/analytic/operator"
	"llmprof/measure/result"
	"llmprof/measure/worker"
)

// A bellows is a worker whose operators take the times that it is told.
type bellows struct {
	asked []worker.Ops
	ops   map[worker.Phase][]worker.Op
	fail  error
}

func (b *bellows) Ops(_ context.Context, o worker.Ops) ([]worker.Op, error) {
	b.asked = append(b.asked, o)
	return b.ops[o.Phase], b.fail
}

// made are operators that nobody measured.
func made(p worker.Phase, step float64) []worker.Op {
	return []worker.Op{
		{Phase: p, Name: "qkv_proj", Includes: []string{"input_layernorm"}, Layers: 2, Kernels: 2, Context: 9,
			SamplesS: []float64{3e-3, 1e-3, 2e-3}},
		{Phase: p, Name: "o_proj", Layers: 2, Kernels: 2, Context: 9, SamplesS: []float64{5e-3, 5e-3, 5e-3}},
		{Phase: p, Name: "step", Whole: true, Layers: 1, Kernels: 4, Context: 9, SamplesS: []float64{step, step, step}},
	}
}

func blankResult() *result.Result {
	return &result.Result{Reasons: map[string]string{"operators": notWanted}}
}

// The operators of both phases come into the result, with their medians' sum and
// a closure that names the difference.
func TestOperators(t *testing.T) {
	w := &bellows{ops: map[worker.Phase][]worker.Op{worker.Prefill: made(worker.Prefill, 7.1e-3), worker.Decode: made(worker.Decode, 8e-3)}}
	set := &Settings{TTFT: true, TPOT: true, Repeats: 3, Load: worker.Load{Workload: operator.Workload{GenLen: 5}}}
	r := blankResult()
	if err := operators(t.Context(), w, set, r, func(string) {}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]worker.Ops{{Phase: worker.Prefill, Rounds: 3}, {Phase: worker.Decode, Rounds: 3}}, w.asked); diff != "" {
		t.Errorf("-want +asked:\n%s", diff)
	}
	d := r.Operators.Decode
	if d.Context != 9 || d.Step.Median != 8e-3 || len(d.Ops) != 2 || d.Ops[0].Time.Median != 2e-3 ||
		d.Ops[0].Includes[0] != "input_layernorm" || d.Sum != 7e-3 {
		t.Errorf("decode: %+v", d)
	}
	if len(r.Closure) != 2 || !r.Closure[0].Passed || r.Closure[1].Passed || r.Closure[1].Off > -0.124 {
		t.Errorf("closure: %+v", r.Closure)
	}
	if diff := cmp.Diff([]string{"operators of a decode step sum to the step is off by -12.5 %, more than 10 %"}, r.Warnings); diff != "" ||
		len(r.Marks) != 1 {
		t.Errorf("marks %v, warnings (-want +got):\n%s", r.Marks, diff)
	}
	if why, there := r.Reasons["operators"]; there {
		t.Errorf("there are operators, and a reason why there are none: %s", why)
	}
}

// Operators are timed of the steps that are measured.
func TestOperatorPhases(t *testing.T) {
	both, prefill, decode := []worker.Phase{worker.Prefill, worker.Decode}, []worker.Phase{worker.Prefill}, []worker.Phase{worker.Decode}
	for _, c := range []struct {
		set  Settings
		gen  int
		want []worker.Phase
	}{
		{Settings{TTFT: true}, 5, prefill}, {Settings{TPOT: true}, 5, decode}, {Settings{TTLT: true}, 5, both},
		{Settings{TTLT: true}, 1, prefill},
		{Settings{Size: true}, 5, both}, {Settings{Energy: true}, 5, both}, {Settings{}, 1, prefill},
	} {
		c.set.Load.GenLen = c.gen
		if diff := cmp.Diff(c.want, operatorPhases(&c.set)); diff != "" {
			t.Errorf("%+v: -want +got:\n%s", c.set, diff)
		}
	}
}

// A worker that cannot time its operators costs no result; one that ended is not
// used again.
func TestOperatorsFail(t *testing.T) {
	set := &Settings{TTFT: true, Repeats: 3}
	for fail, fit := range map[error]bool{
		&worker.Failure{Kind: worker.Unsupported, Message: "cannot be replayed"}:           true,
		&worker.Failure{Kind: worker.Internal, Message: "cannot be replayed", Fatal: true}: false,
		errors.New("the worker: it cannot be replayed"):                                    false,
	} {
		lab := &Lab{}
		results := []*result.Result{blankResult(), blankResult()}
		got, err := lab.timeOperators(t.Context(), set, &bellows{fail: fail}, results)
		if err != nil || got != fit {
			t.Errorf("%v: fit %v, %v", fail, got, err)
		}
		if r := results[0]; r.Operators != nil || !strings.Contains(r.Reasons["operators"], "operators of prefill: ") || len(r.Warnings) != 1 {
			t.Errorf("%v: reasons %v, warnings %v", fail, r.Reasons, r.Warnings)
		}
		if why := results[1].Reasons["operators"]; why != "those of replica 0 stand for all" {
			t.Errorf("replica 1: %q", why)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (&Lab{}).timeOperators(ctx, set, &bellows{fail: context.Canceled}, []*result.Result{blankResult()}); !errors.Is(err,
		context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}
