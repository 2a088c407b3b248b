package result

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"llmprof/internal/testkit"
	"llmprof/internal/testkit/schematest"
)

// timed are samples of an operator.
func timed(t testing.TB, xs ...float64) OperatorTimes {
	s := sampled(t, xs...)
	return OperatorTimes{Summary: s.Summary, Samples: s.Samples}
}

// synthetic are operators that nobody measured.
func synthetic(t testing.TB) *Operators {
	return &Operators{How: "made up for tests", Decode: &OperatorPhase{
		Context: 1087, Step: timed(t, 0.0048, 0.0047, 0.0049), Sum: 0.0045,
		Ops: []OperatorTime{
			{Name: "qkv_proj", Includes: []string{"input_layernorm"}, Layers: 32, Kernels: 32, Time: timed(t, 0.0020, 0.0021, 0.0019)},
			{Name: "o_proj", Layers: 32, Kernels: 32, Time: timed(t, 0.0025, 0.0025, 0.0025)},
		},
	}}
}

func TestOperators(t *testing.T) {
	r := fixture(t)
	delete(r.Reasons, "operators")
	r.Operators = synthetic(t)
	data, err := Encode(r)
	testkit.Must(t, err)
	again, err := Decode("x.json", data)
	testkit.Must(t, err)
	if diff := cmp.Diff(r.Operators, again.Operators, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-written +read:\n%s", diff)
	}
	if err := schematest.Of(t, Schema, Result{}).Check(string(data)); err != nil {
		t.Errorf("%#v", err)
	}
	for want, change := range map[string]func(*Operators){
		"sum_s is 0.0046, but the medians' is 0.0045":         func(o *Operators) { o.Decode.Sum = 0.0046 },
		"input_layernorm stands twice":                        func(o *Operators) { o.Decode.Ops[1].Includes = []string{"input_layernorm"} },
		"has neither prefill nor decode":                      func(o *Operators) { o.Decode = nil },
		"decode.ops is empty":                                 func(o *Operators) { o.Decode.Ops = nil },
		"ops.o_proj.mean is 1, but the samples'":              func(o *Operators) { o.Decode.Ops[1].Time.Mean = 1 },
		"step_s.n is 2, but it has 3 samples":                 func(o *Operators) { o.Decode.Step.N = 2 },
		`operator 1 has the name "o_proj", 0 layers`:          func(o *Operators) { o.Decode.Ops[1].Layers = 0 },
		"ops.o_proj took 0 s":                                 func(o *Operators) { o.Decode.Ops[1].Time = timed(t, 0, 0.0025, 0.003) },
		"operators.decode.context is -1":                      func(o *Operators) { o.Decode.Context = -1 },
		"operators has a value and reasons says why it has n": func(*Operators) { r.Reasons["operators"] = "no" },
	} {
		r.Operators = synthetic(t)
		delete(r.Reasons, "operators")
		change(r.Operators)
		if err := Check(r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// A file that was written before operators were timed has no key for them. It is
// read, with the reason; any other key that lacks is missed.
func TestOlderFile(t *testing.T) {
	data, err := Encode(fixture(t))
	testkit.Must(t, err)
	var keys map[string]json.RawMessage
	testkit.Must(t, json.Unmarshal(data, &keys))
	var reasons map[string]string
	testkit.Must(t, json.Unmarshal(keys["reasons"], &reasons))
	delete(keys, "operators")
	delete(reasons, "operators")
	if keys["reasons"], err = json.Marshal(reasons); err != nil {
		t.Fatal(err)
	}
	old, err := json.Marshal(keys)
	testkit.Must(t, err)
	r, err := Decode("old.json", old)
	if err != nil || r.Operators != nil || !strings.Contains(r.Reasons["operators"], "a version of llmprof that did not") {
		t.Fatalf("%v, %v", r, err)
	}
	if _, err := Encode(r); err != nil {
		t.Errorf("read, but not written: %v", err)
	}
	keys["operators"] = json.RawMessage("null")
	late, err := json.Marshal(keys)
	testkit.Must(t, err)
	if _, err := Decode("late.json", late); err == nil || !strings.Contains(err.Error(), "operators is null and reasons does not say why") {
		t.Errorf("null without a reason: %v", err)
	}
}
