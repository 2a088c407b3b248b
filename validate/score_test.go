package validate

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"llmprof/analytic"
	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/models"
)

// TestScoreOdd holds that whatever cannot be scored is among those skipped, with
// the reason, and never lost.
func TestScoreOdd(t *testing.T) {
	for _, c := range []struct {
		change func(*Observation)
		want   Reason
		detail string
	}{
		{func(o *Observation) { o.Model = "llama3.1-8c" }, UnknownModel, "llama3.1-8b"},
		{func(o *Observation) { o.GPU = "h2000" }, UnknownGPU, "h200"},
		{func(o *Observation) { o.Engine = "mlc-llm" }, UnknownEngine, "mlc-llm"},
		{func(o *Observation) { o.Params = 7 }, OtherModel, "8030261248"},
		{func(o *Observation) { o.Weights = "w3" }, Impossible, "w3"},
		{func(o *Observation) { o.KV = "q4" }, Impossible, "q4"},
		{func(o *Observation) { o.TP = 3 }, Impossible, "3"},
		{func(o *Observation) { o.GPU, o.Batch = "orin-nano", 64 }, DoesNotFit, "needed"},
		{func(o *Observation) { o.Load, o.Batch = Closed, 4096 }, DoesNotFit, "at once"},
		{func(o *Observation) { o.Load, o.Metric = Closed, TTFT }, Queueing, "closed loop"},
		{func(o *Observation) { o.Load, o.Metric = Closed, EnergyPerToken }, Queueing, "closed loop"},
		{func(o *Observation) { o.Value = 0 }, Unreadable, "value is 0"},
		{func(o *Observation) { o.Metric = "" }, Unreadable, "unknown metric"},
	} {
		good, bad := observation(), observation()
		c.change(&bad)
		s := scorer(t).Score([]Observation{bad, good})
		if len(s.Rows) != 1 || len(s.Skipped) != 1 {
			t.Errorf("%s: %d rows and %d skipped, want 1 and 1", c.want, len(s.Rows), len(s.Skipped))
			continue
		}
		if k := s.Skipped[0]; k.Reason != c.want || !strings.Contains(k.Detail, c.detail) || k.Observation == nil {
			t.Errorf("%s: %s", k.Reason, k.Detail)
		}
	}
}

// TestScoreFindings holds that duplicates, contradictions and the impossible are
// named.
func TestScoreFindings(t *testing.T) {
	a, twice, repeat, contrary, impossible := observation(), observation(), observation(), observation(), observation()
	repeat.ID, repeat.Value = "b", 0.0052
	contrary.ID, contrary.Value = "c", 0.0099
	impossible.ID, impossible.Prompt, impossible.Value = "d", 512, 0.0001
	s := scorer(t).Score([]Observation{a, twice, repeat, contrary, impossible})
	if len(s.Rows) != 4 || len(s.Skipped) != 1 || s.Skipped[0].Reason != Repeated {
		t.Fatalf("%d rows, skipped %+v", len(s.Rows), s.Skipped)
	}
	var kinds []string
	for _, f := range s.Findings {
		kinds = append(kinds, f.Kind)
		if f.Kind == Contradictory && (!strings.Contains(f.Detail, "test: a") || !strings.Contains(f.Detail, "test: c")) {
			t.Errorf("the contradiction is not of a and c: %s", f.Detail)
		}
	}
	if got := strings.Join(kinds, ", "); got != BelowFloor+", "+Contradictory {
		t.Errorf("found %s", got)
	}
	if w := s.Worst(1)[0]; w.ID != "d" {
		t.Errorf("the worst is %s", w.name())
	}
}

// TestContradictionsFarthest holds that of an engine's contradictory configurations on a GPU the farthest is named, and the
// others are counted.
func TestContradictionsFarthest(t *testing.T) {
	var all []Observation
	for i, times := range [][2]float64{{1, 1.1}, {1, 1.3}, {1, 1.9}, {1, 1.5}} {
		for k, s := range times {
			o := observation()
			o.Prompt, o.ID, o.Value = 1024+i, fmt.Sprint(i, "-", k), s
			all = append(all, o)
		}
	}
	s := scorer(t).Score(all)
	if len(s.Findings) != 1 {
		t.Fatalf("found %+v", s.Findings)
	}
	for _, want := range []string{"1026+128: 1 (test: 2-0) and 1.9 (test: 2-1)",
		"of native on h200-sxm-141gb 3 configurations differ by more than 20 %"} {
		if !strings.Contains(s.Findings[0].Detail, want) {
			t.Errorf("%q lacks %q", s.Findings[0].Detail, want)
		}
	}
}

// TestClosedLoop holds that clients in a closed loop wait for each other's prompts as their lengths
// have it: answers of one length end together, and their prompts share a step; prompts of answers
// of several lengths come one by one, and each of them lengthens a step of all.
func TestClosedLoop(t *testing.T) {
	s := scorer(t)
	times := map[Load]Row{}
	o := observation()
	o.Engine, o.Batch, o.Prompt, o.Gen = "vllm", 16, 128, 128
	for _, o.Load = range loads() {
		row, err := s.row(&o)
		if err != nil {
			t.Fatal(err)
		}
		times[o.Load] = row
	}
	static, closed, varied := times[Static], times[Closed], times[Varied]
	if math.Abs(closed.Predicted/static.Predicted-1) > 0.02 {
		t.Errorf("answers of one length take %v s a token, want those of a batch that starts together, %v s", closed.Predicted, static.Predicted)
	}
	o.Load = Static
	q, err := s.caseOf(&o.Config)
	if err != nil {
		t.Fatal(err)
	}
	p, err := analytic.NewPredictor(q)
	if err != nil {
		t.Fatal(err)
	}
	decode := operator.Group{Batch: 16, New: 1, Past: 128 + 64, Logits: 1}
	mixed, _ := p.MixedStep([]operator.Group{decode, {Batch: 1, New: 128, Logits: 1}})
	alone, _ := p.MixedStep([]operator.Group{decode})
	if want := static.Predicted + 15*float64(mixed-alone)/128; math.Abs(varied.Predicted/want-1) > 0.05 {
		t.Errorf("answers of several lengths take %v s a token, want %v s", varied.Predicted, want)
	}
	if *closed.Floor != *static.Floor || *varied.Floor != *static.Floor {
		t.Errorf("the floors are %v and %v s, want that of a step, %v s", *closed.Floor, *varied.Floor, *static.Floor)
	}
}

// TestWholePromptsShareSteps holds that a step of TensorRT-LLM has whole prompts alone: a budget of one and a half has as many as one of
// one.
func TestWholePromptsShareSteps(t *testing.T) {
	s, times := scorer(t), map[string][]float64{}
	for _, name := range []string{"vllm", "tensorrt-llm"} {
		for _, budget := range []int{8 + 1024, 8 + 1536, 8 + 2048} {
			o := observation()
			o.Engine, o.Batch, o.Prompt, o.Gen, o.Budget, o.Load = name, 8, 1024, 128, budget, Closed
			row, err := s.row(&o)
			if err != nil {
				t.Fatal(err)
			}
			times[name] = append(times[name], row.Predicted)
		}
	}
	if v, w := times["vllm"], times["tensorrt-llm"]; v[1] == v[0] || w[1] != w[0] || w[2] == w[0] {
		t.Errorf("steps of 1, 1.5 and 2 prompts: vllm %v, tensorrt-llm %v s a token", v, w)
	}
}

// TestClosedLoopOfPromptsApart holds that sequences of SGLang, whose prompts have steps of their own, begin
// and end a wave together if their answers have one length: where a step has one prompt, half as
// many of them come after one's own as where they come at any time.
func TestClosedLoopOfPromptsApart(t *testing.T) {
	s := scorer(t)
	times := map[Load]float64{}
	o := observation()
	o.Engine, o.Batch, o.Prompt, o.Gen, o.Budget = "sglang", 8, 1024, 128, 1024
	for _, o.Load = range loads() {
		row, err := s.row(&o)
		if err != nil {
			t.Fatal(err)
		}
		times[o.Load] = row.Predicted
	}
	closed, varied := times[Closed]-times[Static], times[Varied]-times[Static]
	if varied < 7*20e-3/128 || math.Abs(closed/varied-0.5) > 1e-9 {
		t.Errorf("prompts add %v s a token to answers of one length and %v s to others, want half", closed, varied)
	}
}

// TestIntervalsHoldTheirTimes holds that every interval is around its prediction.
func TestIntervalsHoldTheirTimes(t *testing.T) {
	for _, r := range scorer(t).Score(embedded(t)).Rows {
		if r.PredictedLow != nil && !(*r.PredictedLow <= r.Predicted && r.Predicted <= *r.PredictedHigh) {
			t.Errorf("%v: %v s is not between %v and %v", r.Config, r.Predicted, *r.PredictedLow, *r.PredictedHigh)
		}
	}
}

// TestScoreIsTheEstimate works some rows out by the theory alone.
func TestScoreIsTheEstimate(t *testing.T) {
	s := scorer(t)
	for i, r := range s.Score(embedded(t)).Rows {
		if i%10 != 0 || r.Load != Static || r.Metric != TTLT || r.Engine == "elana" {
			continue
		}
		m, _ := s.Model(r.Model)
		g, _ := s.GPU(r.GPU)
		name := map[string]string{"transformers graph": "transformers-graph", "transformers eager": "transformers",
			"tensorrt-edge-llm": "native"}[r.Runs()]
		if name == "" {
			name = r.Engine
		}
		e, err := engine.Parse(name)
		if err != nil {
			t.Fatal(err)
		}
		machines, err := analytic.Calibrated(g, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		scheme, err := models.ParseScheme(r.Weights)
		if err != nil {
			t.Fatal(err)
		}
		if r.KV != "" {
			if err := scheme.KV.UnmarshalText([]byte(r.KV)); err != nil {
				t.Fatal(err)
			}
		}
		question := &analytic.Case{
			Model: m, Scheme: scheme.For(g), Parallel: analytic.Parallelism{TP: r.TP, GPUsPerNode: g.GPUsPerNode},
			Workload: analytic.Workload{Batch: r.Batch, PromptLen: r.Prompt, GenLen: r.Gen, AllLogits: r.Logits},
		}
		question.Machine = machines
		want, err := analytic.Predict(question)
		if err != nil {
			t.Fatal(err)
		}
		if float64(want.TTLT.Expected) != r.Predicted || float64(want.TTLT.Floor) != *r.Floor || float64(want.TTLT.High) != *r.PredictedHigh {
			t.Errorf("%s: %v s, want %v", r.name(), r.Predicted, want.TTLT)
		}
	}
}

// BenchmarkEmbedded reads and scores all that comes with the program.
func BenchmarkEmbedded(b *testing.B) {
	for b.Loop() {
		Summarize(scorer(b).Score(embedded(b)).Rows, ByEngine, ByGPU, ByTP)
	}
}

// TestRecvInterval holds that prompts share a step which come before the engine receives new requests again. Nothing changes where
// no two of them do.
func TestRecvInterval(t *testing.T) {
	s, times := scorer(t), map[int]float64{}
	o := observation()
	o.Engine, o.Batch, o.Prompt, o.Gen, o.Load = "sglang", 64, 128, 512, Varied
	for _, o.RecvInterval = range []int{0, 1, 8, 32} { // 8 steps have one of 64 requests for 512 steps, 32 have four
		row, err := s.row(&o)
		if err != nil {
			t.Fatal(err)
		}
		times[o.RecvInterval] = row.Predicted
	}
	if times[1] != times[0] || times[8] != times[0] || times[32] > 0.95*times[0] {
		t.Errorf("%v s a token by the steps between looks: want the first three equal and the last less", times)
	}
}
