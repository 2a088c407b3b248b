package plots

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/internal/testkit"
	"llmprof/unit"
)

// syntheticSteps are steps that nobody measured: the operators of an estimate,
// each observed to take a made-up multiple of what was expected.
func syntheticSteps(t testing.TB) []OperatorStep {
	t.Helper()
	c := testCase(t, "qwen3-8b", "h200", 1, 1)
	r := explain(t, c)
	op := func(lines []breakdown.Operator, factor float64, name string, includes ...string) TimedOperator {
		o := TimedOperator{Name: name, Includes: includes}
		for i := range lines {
			for _, n := range append([]string{name}, includes...) {
				if lines[i].Name == n {
					o.Floor += lines[i].Floor
					o.Expected += lines[i].Expected
				}
			}
		}
		if o.Expected == 0 {
			t.Fatalf("the estimate has no %s", name)
		}
		o.Low, o.High = max(o.Expected.Times(0.8), o.Floor), o.Expected.Times(1.2)
		o.Observed = float64(o.Expected) * factor
		return o
	}
	d, p := r.DecodeOps, r.PrefillOps
	decode := OperatorStep{Title: "A decode step at context 1087: synthetic", Ops: []TimedOperator{
		op(d, 1.3, "embedding"), op(d, 0.85, "qkv_proj", "input_layernorm"), op(d, 0.7, "attention", "qk_norm_rotary", "kv_write"),
		op(d, 1.02, "o_proj"),
		op(d, 0.9, "gate_up_proj", "post_attention_layernorm", "activation"), op(d, 1.1, "down_proj"), op(d, 0.6, "lm_head", "norm"),
		op(d, 3, "sampling"),
	}}
	prefill := OperatorStep{Title: "A prefill of 1024 tokens: synthetic", Ops: []TimedOperator{
		op(p, 1.1, "embedding"), op(p, 1.2, "input_layernorm"), op(p, 1.05, "qkv_proj"), op(p, 0.95, "qk_norm_rotary", "kv_write"),
		op(p, 1.6, "attention"), op(p, 1, "o_proj"),
		op(p, 1.2, "post_attention_layernorm"), op(p, 0.97, "gate_up_proj"), op(p, 1.1, "activation"), op(p, 1.03, "down_proj"), op(p, 2, "norm"),
		op(p, 1, "lm_head"), op(p, 4, "sampling"),
		{Name: "an operator that the estimate has not", Observed: 1.4e-5},
	}}
	steps := []OperatorStep{prefill, decode}
	for i := range steps {
		s := &steps[i]
		sum := TimedOperator{Name: "sum of operators"}
		for _, o := range s.Ops {
			sum.Observed += o.Observed
			sum.Floor += o.Floor
			sum.Expected += o.Expected
			sum.Low += o.Low
			sum.High += o.High
		}
		step := sum
		step.Name, step.Observed = "the whole", 1.06*sum.Observed
		s.Total = []TimedOperator{sum, step}
	}
	return steps
}

// TestOperatorsGolden compares the picture with the reviewed one in testdata.
func TestOperatorsGolden(t *testing.T) {
	steps := syntheticSteps(t)
	for name, some := range map[string][]OperatorStep{"operators": steps, "operators-decode": steps[1:]} {
		f, err := Operators("synthetic, nobody measured it · qwen3-8b · H200 SXM 141GB · native graph · batch 1 · llmprof", some)
		testkit.Must(t, err)
		got, err := f.SVG()
		testkit.Must(t, err)
		if again, _ := f.SVG(); again != got {
			t.Errorf("%s: a second drawing differs from the first", name)
		}
		if dir := os.Getenv("LOOK_AT"); dir != "" {
			look(t, f, filepath.Join(dir, name+".png"))
		}
		golden(t, name+".svg", []byte(got))
		for _, s := range some {
			for _, o := range s.Ops {
				if !strings.Contains(got, o.Name+"<") && len(o.Name) < 30 {
					t.Errorf("%s: %s is not named", name, o.Name)
				}
			}
		}
	}
}

// What a row says: its time, its share, how far it is over its floor, and the error.
func TestOperatorFigures(t *testing.T) {
	span := analytic.Span{Floor: 1e-3, Expected: 1.8e-3, Low: 1.5e-3, High: 2.1e-3}
	for _, c := range []struct {
		o    TimedOperator
		want string
	}{
		{TimedOperator{Observed: 2e-3, Span: span}, "2.00 ms|50 %|2.00×|−10 %"},
		{TimedOperator{Observed: 1.2e-3, Span: span}, "1.20 ms|30 %|1.20×|+50 %"},
		{TimedOperator{Observed: 6e-6}, "6.00 µs|<1 %||"},
		{TimedOperator{Observed: 6e-6, Span: analytic.Span{Expected: 2e-6, Low: 1e-6, High: 3e-6}}, "6.00 µs|<1 %||−67 %"},
		{TimedOperator{Observed: 6e-6, Span: analytic.Span{Floor: 1e-9, Expected: 2e-6, Low: 1e-6, High: 3e-6}}, "6.00 µs|<1 %||−67 %"},
	} {
		f := c.o.figures(4e-3)
		if got := strings.Join(f[:], "|"); got != c.want {
			t.Errorf("%+v: %q, want %q", c.o, got, c.want)
		}
	}
}

// What cannot be drawn is an error, what is odd a picture.
func TestOperatorsOdd(t *testing.T) {
	good := analytic.Span{Floor: 1e-3, Expected: 2e-3, Low: 1e-3, High: 3e-3}
	for name, ops := range map[string][]TimedOperator{
		"nothing": {}, "0": {{Name: "a", Span: good}}, "NaN": {{Name: "a", Observed: math.NaN(), Span: good}},
		"-1":       {{Name: "a", Observed: -1, Span: good}},
		"inf":      {{Name: "a", Observed: 1, Span: analytic.Span{Expected: unit.Seconds(math.Inf(1)), High: 1}}},
		"no order": {{Name: "a", Observed: 1, Span: analytic.Span{Expected: 2, Low: 3, High: 4}}},
	} {
		if _, err := Operators("", []OperatorStep{{Title: "t", Ops: ops}}); err == nil {
			t.Errorf("%s is drawn", name)
		}
	}
	if _, err := Operators("", nil); err == nil {
		t.Error("nothing is drawn")
	}
	long := strings.Repeat("a very long name ", 20)
	for name, ops := range map[string][]TimedOperator{
		"faster than its floor": {{Name: "a", Observed: 1e-4, Span: good}},
		"far apart":             {{Name: "a", Observed: 1e9, Span: good}, {Name: "b", Observed: 1e-9}},
		"long names":            {{Name: long, Includes: []string{long, long}, Observed: 1, Span: good}},
	} {
		f, err := Operators(long, []OperatorStep{{Title: long, Ops: ops}})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for _, format := range Formats() {
			var b strings.Builder
			if err := f.Write(&b, format); err != nil || b.Len() == 0 || strings.Contains(b.String(), "NaN") {
				t.Errorf("%s as %s: %d bytes, %v", name, format, b.Len(), err)
			}
		}
	}
}
