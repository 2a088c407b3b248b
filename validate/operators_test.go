package validate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/operator"
	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/roofline"
	"llmprof/unit"
)

// syntheticTimes are three samples around a time.
func syntheticTimes(t testing.TB, s float64) result.OperatorTimes {
	t.Helper()
	xs := []float64{0.99 * s, s, 1.02 * s}
	sum, err := stats.Summarize(xs)
	if err != nil {
		t.Fatal(err)
	}
	return result.OperatorTimes{Summary: *sum, Samples: xs}
}

// syntheticOperators is a result that nobody measured: two operators of a decode
// step and one of a prefill.
func syntheticOperators(t testing.TB) *result.Result {
	t.Helper()
	op := func(name string, s float64, includes ...string) result.OperatorTime {
		return result.OperatorTime{Name: name, Includes: includes, Layers: 32, Kernels: 32, Time: syntheticTimes(t, s)}
	}
	return &result.Result{
		Model: result.Model{Name: "llama3.1-8b"}, Engine: result.Engine{Name: "native", Options: map[string]string{"graph": "true"}},
		Parallelism: result.Parallelism{TP: 1}, Workload: result.Workload{Workload: operator.Workload{Batch: 1, PromptLen: 1024, GenLen: 128},
			Weights: "bf16", KV: "bf16", Act: "bf16"},
		Machine: result.Machine{GPUs: []result.GPU{{Key: "h200-sxm-141gb", Name: "NVIDIA H200"}}},
		Operators: &result.Operators{
			Prefill: &result.OperatorPhase{Step: syntheticTimes(t, 24e-3), Sum: 2.005e-3,
				Ops: []result.OperatorTime{op("qkv_proj", 2e-3), op("norm", 5e-6)}},
			Decode: &result.OperatorPhase{Context: 1087, Step: syntheticTimes(t, 5e-3), Sum: 4e-3, Ops: []result.OperatorTime{
				op("gate_up_proj", 2.5e-3, "post_attention_layernorm", "activation"), op("o_proj", 1e-4), op("magic", 1.4e-3),
			}},
		},
	}
}

// Each operator is set beside the lines of the estimate that it is named after,
// by an estimate of the very step that was timed.
func TestOperators(t *testing.T) {
	s, r := scorer(t), syntheticOperators(t)
	phases := s.Operators(r)
	if len(phases) != 2 || phases[0].Decode || !phases[1].Decode || phases[0].Why != nil || phases[1].Why != nil {
		t.Fatalf("%+v", phases)
	}
	d := &phases[1]
	lines := map[string]breakdown.Operator{}
	c, err := s.caseOf(&Config{Model: "llama3.1-8b", GPU: "h200", Engine: "native", Mode: "graph", TP: 1, Batch: 1, Prompt: 1087, Gen: 2,
		Weights: "bf16", Load: Static})
	if err != nil {
		t.Fatal(err)
	}
	report, err := breakdown.Explain(c)
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range report.DecodeOps {
		lines[l.Name] = l
	}
	if report.Context != 1088 {
		t.Fatalf("the estimate is of context %v", report.Context)
	}
	row := &d.Rows[0]
	want := lines["gate_up_proj"].Expected + lines["post_attention_layernorm"].Expected + lines["activation"].Expected
	if math.Abs(float64(row.Predicted.Expected/want-1)) > 1e-12 || row.Predicted.Bound != roofline.ByMemory {
		t.Errorf("expected %v, %v-bound, want %v", row.Predicted.Expected, row.Predicted.Bound, want)
	}
	gateUp := lines["gate_up_proj"]
	bytes := gateUp.Traffic() + lines["post_attention_layernorm"].Weights
	if got := row.Bandwidth(); math.Abs(float64(got)/(float64(bytes)/2.5e-3)-1) > 1e-12 ||
		float64(row.Rate()) != float64(lines["gate_up_proj"].FLOPs)/2.5e-3 {
		t.Errorf("%v and %v, want %v in 2.5 ms", got, row.Rate(), bytes)
	}
	floor := float64(lines["gate_up_proj"].Weights+lines["post_attention_layernorm"].Weights) / float64(c.Machine.GPU.Bandwidth)
	if got := float64(row.Predicted.Floor); math.Abs(got/floor-1) > 1e-12 || math.Abs(row.OverFloor()-2.5e-3/floor) > 1e-9 {
		t.Errorf("floor %v, want %v", got, floor)
	}
	if got := d.Impossible(); len(got) != 1 || !strings.HasPrefix(got[0], "o_proj: 100.0 µs, floor ") {
		t.Errorf("faster than their floors: %v", got)
	}
	if d.Rows[2].Predicted != nil {
		t.Errorf("magic is predicted: %+v", d.Rows[2].Predicted)
	}
	if diff := cmp.Diff([]string{"embedding", "input_layernorm", "qkv_proj", "rotary", "kv_write", "attention", "down_proj", "norm", "lm_head",
		"sampling", "host"}, d.Untimed); diff != "" {
		t.Errorf("not timed (-want +got):\n%s", diff)
	}
	if d.Sum.Observed != 4e-3 || math.Abs(d.Off()+0.2) > 1e-12 || d.Step.Predicted.Floor != report.Decode.Floor ||
		d.Config.GPU != "h200-sxm-141gb" {
		t.Errorf("sum %+v, step %+v, off by %v", d.Sum, d.Step.Predicted, d.Off())
	}
	norm, last := phases[0].Rows[1].Predicted, lines["norm"]
	k := &c.Machine.Cal.Constants
	alone := k[roofline.ElementwiseFixed] + float64(last.Traffic())/(k[roofline.ElementwiseMemory]*float64(c.Machine.GPU.Bandwidth))
	if math.Abs(float64(norm.Expected)/alone-1) > 1e-9 || norm.Bytes != last.Traffic() || last.In != "lm_head" {
		t.Errorf("the norm of a prefill's last token: %+v, want a kernel of its own, %v s and %v", norm, alone, last.Traffic())
	}
	if p := phases[0].Rows[0].Predicted; p.Bound != roofline.ByCompute || p.FLOPs < 1e12 {
		t.Errorf("prefill: %+v", p)
	}
}

// The operators of an engine that fuses as the estimate does add up to it.
func TestOperatorsAddUp(t *testing.T) {
	s, r := scorer(t), syntheticOperators(t)
	d := r.Operators.Decode
	d.Ops, d.Sum = nil, 0
	for _, names := range [][]string{
		{"embedding"}, {"qkv_proj", "input_layernorm"}, {"attention", "rotary", "kv_write"}, {"o_proj"},
		{"gate_up_proj", "post_attention_layernorm", "activation"}, {"down_proj"}, {"lm_head", "norm"}, {"sampling"},
	} {
		d.Ops = append(d.Ops, result.OperatorTime{Name: names[0], Includes: names[1:], Layers: 1, Kernels: 1, Time: syntheticTimes(t, 1e-3)})
		d.Sum += 1e-3
	}
	p := s.Operators(r)[1]
	if !slices.Equal(p.Untimed, []string{"host"}) {
		t.Errorf("not timed: %v", p.Untimed)
	}
	c, err := s.caseOf(&Config{Model: "llama3.1-8b", GPU: "h200", Engine: "native", TP: 1, Batch: 1, Prompt: 1087, Gen: 2, Weights: "bf16",
		Load: Static})
	if err != nil {
		t.Fatal(err)
	}
	e, err := analytic.Predict(c)
	if err != nil {
		t.Fatal(err)
	}
	whole := e.Decode.Expected - unit.Seconds(c.Machine.Cal.Constants[roofline.HostStep])
	if sum := p.Sum.Predicted.Expected; math.Abs(float64(sum/whole-1)) > 1e-9 {
		t.Errorf("the operators are expected to take %v, the step without its host %v", sum, whole)
	}
	if p.Sum.Predicted.Floor < e.Decode.Floor || p.Step.Predicted.Floor != e.Decode.Floor {
		t.Errorf("floors of the sum and of the step: %v, %v; the estimate's: %v", p.Sum.Predicted.Floor, p.Step.Predicted.Floor, e.Decode.Floor)
	}
}

// Where no estimate can be made, what was observed is there all the same.
func TestOperatorsUnpredicted(t *testing.T) {
	for want, change := range map[string]func(*result.Result){
		"unknown model":            func(r *result.Result) { r.Model.Name = "nobody" },
		"unknown GPU":              func(r *result.Result) { r.Machine.GPUs[0].Key = "abacus" },
		"not measured on a GPU":    func(r *result.Result) { r.Machine.GPUs = nil },
		"another model of that na": func(r *result.Result) { r.Model.ParamsTotal = 7 },
	} {
		r := syntheticOperators(t)
		change(r)
		for _, p := range scorer(t).Operators(r) {
			if p.Why == nil || !strings.Contains(p.Why.Error(), want) || p.Rows[0].Predicted != nil || p.Rows[0].Observed == 0 ||
				len(p.Impossible()) != 0 {
				t.Errorf("%s: %v, %+v", want, p.Why, p.Rows[0])
			}
		}
	}
	r := syntheticOperators(t)
	r.Operators = nil
	if phases := scorer(t).Operators(r); len(phases) != 0 {
		t.Errorf("no operators: %+v", phases)
	}
	if o := (&OperatorRow{Observed: 1, Predicted: &OperatorPrediction{Span: analytic.Span{Expected: unit.Seconds(1)}}}).OverFloor(); o != 0 {
		t.Errorf("over no floor: %v", o)
	}
}
