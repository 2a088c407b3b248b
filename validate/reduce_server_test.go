package validate

import (
	"math"
	"strings"
	"testing"

	"llmprof/internal/stats"
	"llmprof/measure/result"
)

// served is a result as a vLLM server's on an H200 would be.
func served(t *testing.T) *result.Result {
	t.Helper()
	_, r := readResult(t, "../experiments/h200/h200-73cfdef37d59-c0.p0.json")
	r.Engine = result.Engine{Name: "openai"}
	r.Workload.Batch, r.Workload.KV, r.Workload.Act = 0, "", ""
	r.Serving = &result.Serving{
		API: "completions", Concurrency: 1, Requests: 20, Completed: 20, Metrics: &result.ServerMetrics{Source: "vllm"},
		PromptTokens: &stats.Summary{Mean: 165.2}, GeneratedTokens: &stats.Summary{Mean: 32},
	}
	return r
}

// TestReduceServer checks that one request at a time is a batch of one of the engine
// that serves it, and that the reason is said of everything else.
func TestReduceServer(t *testing.T) {
	r := served(t)
	got, err := Reduce("mine", r)
	if err != nil || len(got) == 0 {
		t.Fatal(err)
	}
	want := Config{Model: r.Model.Name, GPU: "h200-sxm-141gb", Engine: "vllm", TP: 1, Batch: 1, Prompt: 165, Gen: 32, Weights: "bf16",
		Load: Static, Params: r.Model.ParamsTotal}
	if got[0].Config != want {
		t.Errorf("%+v, want %+v", got[0].Config, want)
	}
	for i := range got {
		if err := got[i].Check(); err != nil {
			t.Error(err)
		}
	}
	rate, hit := 2.5, 0.4
	for want, change := range map[string]func(*result.Result){
		"8 requests were under way at a time": func(r *result.Result) { r.Serving.Concurrency = 8 },
		"requests came at 2.5 a second": func(r *result.Result) {
			r.Serving.RateHz, r.Serving.Concurrency = &rate,
				0
		},
		"did not finish: it is marked interrupted":  func(r *result.Result) { r.Marks = []string{"interrupted"} },
		"on which GPU the server runs is not known": func(r *result.Result) { r.Machine.GPUs = nil },
		"weights is not known: nobody said; --weights": func(r *result.Result) {
			r.Workload.Weights,
				r.Reasons["workload.weights"] = "", "nobody said"
		},
		"over how many GPUs the server splits the model is not known": func(r *result.Result) { r.Parallelism.TP = 0 },
		"which engine the server runs is not known":                   func(r *result.Result) { r.Serving.Metrics = nil },
		"took 40 % of the prompts from its cache": func(r *result.Result) {
			r.Serving.PrefixCache = &result.PrefixCache{Share: &hit}
		},
	} {
		r := served(t)
		change(r)
		if got, err := Reduce("mine", r); err == nil || len(got) > 0 || !strings.Contains(err.Error(), want) {
			t.Errorf("%d observations, %v; want %q", len(got), err, want)
		}
	}
}

// TestInteropMeasure reads a result of a server beside those of other tools, once it is said on what the server ran.
func TestInteropMeasure(t *testing.T) {
	r, err := result.Read("../experiments/interop/measure-0.1.0.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Reduce("mine", r); err == nil || !strings.Contains(err.Error(), "--gpu names it") {
		t.Errorf("%v", err)
	}
	r.Machine.GPUs = []result.GPU{{Key: "h100", Name: "h100"}}
	all, err := Reduce("mine", r)
	if err != nil || len(all) != 3 {
		t.Fatalf("%+v, %v", all, err)
	}
	for i, want := range []float64{4.233, 1.536, 51.77} { // ms, as experiments/interop/README.md has them
		if got := 1e3 * all[i].Value; math.Abs(got/want-1) > 1e-3 {
			t.Errorf("%s is %.4g ms, want %v", all[i].Metric, got, want)
		}
	}
}
