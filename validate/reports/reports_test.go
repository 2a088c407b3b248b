package reports

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"llmprof/analytic/engine"
	"llmprof/internal/testkit"
	"llmprof/measure/result"
	"llmprof/validate"
)

// TestReportsAreReadAsTheirToolsPrintThem reads a file of each tool: what it is, the load, and the medians that the tool prints.
func TestReportsAreReadAsTheirToolsPrintThem(t *testing.T) {
	asked := &Overrides{GPU: "h200", Engine: "vllm", Model: "llama3.1-8b"}
	for _, x := range []struct {
		file, tool        string
		run, runs         int
		config            string
		ttft, tpot, whole float64 // ms, 0 for none
		why               string  // why it has no observations
	}{
		{"vllm.json", "vllm bench serve", 0, 2, "batch 1, 1024+128", 26, 5.5, 0, ""},
		{"vllm.json", "vllm bench serve", 1, 2, "batch 2, 1024+4, closed loop", 40, 7, 61, ""},
		{"sglang.jsonl", "sglang.bench_serving", 0, 1, "TP 2, batch 4, 512+64, closed loop", 40, 7.5, 515, ""},
		{"aiperf.json", "profile_export_aiperf.json", 0, 1, "batch 1, 1024+128", 26, 5.45, 715, ""},
		{"aiperf.jsonl", "profile_export.jsonl", 0, 1, "closed loop", 55, 10.2, 700, ""},
		{"guidellm.json", "GuideLLM", 0, 3, "batch 1, 256+128", 20, 5.5, 710, ""},
		{"guidellm.json", "GuideLLM", 1, 3, "batch 2, 253+128, closed loop", 20.5, 8.1, 1050, ""},
		{"guidellm.json", "GuideLLM", 2, 3, "", 20, 0, 1000, "requests came at 3 a second"},
		{"genai-bench.json", "genai-bench", 0, 1, "batch 1, 100+100", 20, 5.5, 565, ""},
		{"llm-d.yaml", "Benchmark Report of llm-d", 0, 1, "TP 2, batch 8, 1003+200, closed loop", 36.2, 6.8, 1390, ""},
		{"llmperf.json", "summary of LLMPerf", 0, 1, "batch 1, 552+149", 21, 0, 840, ""},
		{"llmperf-responses.json", "individual responses of LLMPerf", 0, 1, "", 200, 10, 1470, "how many requests were under way"},
		{"inference-perf-requests.json", "requests of inference-perf", 0, 1, "batch 1, 256+33", 20, 8, 277, ""},
		{"inference-perf-0.2-requests.json", "requests of inference-perf", 0, 1, "batch 1, 256+33", 20, 8, 277, ""},
		{"inference-perf.json", "summary of inference-perf", 0, 1, "batch 8, 1003+200, closed loop", 36.2, 6.8, 1390, ""},
		{"trtllm-bench.json", "report of trtllm-bench", 0, 1, "batch 8, 1024+128, fp8, closed loop, release 1.2.0", 40, 6.75, 900, ""},
		{"llama-bench.json", "llama-bench", 0, 2, "batch 1, 512+1", 40, 0, 0, ""},
		{"llama-bench.json", "llama-bench", 1, 2, "batch 1, 1+129", 0, 7, 0, ""},
	} {
		what := fmt.Sprintf("%s, run %d", x.file, x.run)
		text, err := os.ReadFile(filepath.Join("testdata", x.file))
		testkit.Must(t, err)
		runs, err := Read(x.file, text)
		if err != nil || len(runs) != x.runs || !strings.Contains(runs[x.run].Tool, x.tool) {
			t.Errorf("%s: %d runs, %v", what, len(runs), err)
			continue
		}
		r := runs[x.run]
		for m, want := range map[validate.Metric]float64{validate.TTFT: x.ttft, validate.TPOT: x.tpot, validate.TTLT: x.whole} {
			if got := 1e3 * r.figures[m].p50; math.Abs(got-want) > 1e-6*want {
				t.Errorf("%s: %s is %v ms, want %v", what, m, got, want)
			}
		}
		all, err := r.Observations(x.file, asked)
		switch {
		case x.why != "":
			if err == nil || !strings.Contains(err.Error(), x.why) {
				t.Errorf("%s: %v, want %q", what, err, x.why)
			}
		case err != nil || len(all) == 0 || !strings.Contains(all[0].String(), x.config) || all[0].Samples == 0:
			t.Errorf("%s: %v: %+v, want %s", what, err, all, x.config)
		}
	}
}

// TestLlamaBenchSaysWhatLiesOnTheHost reads a file of llama-bench of two models, some of whose layers and experts lay on the host. It
// prints the mean of three passes, of which the median differs by 4 % at most.
func TestLlamaBenchSaysWhatLiesOnTheHost(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "experiments", "interop", "llama-bench-0.5.0.jsonl.gz"))
	testkit.Must(t, err)
	runs, err := Read("llama-bench.jsonl", text)
	if err != nil || len(runs) != 54 {
		t.Fatalf("%d runs, %v", len(runs), err)
	}
	for _, x := range []struct {
		run       int
		model     string
		placement string
		rate      float64 // tokens/s, as printed
	}{
		{0, "olmoe-1b-7b", "--ngl 999 --n-cpu-moe 16 --ubatch 512 --threads 8 --mmap", 1032.7},
		{6, "qwen3-14b", "--ngl 31 --ubatch 2048 --threads 8", 16.5},
		{53, "olmoe-1b-7b", "--ngl 999 --n-cpu-moe 16 --ubatch 512 --threads 8 --no-op-offload", 444.1},
	} {
		r := runs[x.run]
		all, err := r.Observations("a.jsonl", &Overrides{GPU: "h200", Host: "h200-vm"})
		if err != nil || len(all) != 1 || all[0].Model != x.model || all[0].Placement != x.placement || all[0].Host != "h200-vm" {
			t.Errorf("run %d: %+v, %v", x.run, all, err)
			continue
		}
		tokens := 1.0
		if all[0].Metric == validate.TTFT {
			tokens = r.Prompt
		}
		if got := tokens / all[0].Value; math.Abs(got/x.rate-1) > 0.04 {
			t.Errorf("run %d: %v tokens/s, want %v", x.run, got, x.rate)
		}
		if _, _, err := engine.ParsePlacement(all[0].Placement); err != nil {
			t.Error(err)
		}
	}
}

// TestInteropFilesHaveTheirToolsMedians reads files that tools wrote of one server, whose medians experiments/interop/README.md has. The
// digits that a tool prints are good to half of the last one; GuideLLM's median of 40 requests is the 20th. SGLang's time of an answer
// ends with the stream, after its last token.
func TestInteropFilesHaveTheirToolsMedians(t *testing.T) {
	for file, want := range map[string][4]float64{ // ms, and how many requests ran at a time
		"vllm-bench-0.32.0.json.gz": {6.01, 1.62, 56.37, 1}, "aiperf-0.13.0.json": {16.18, 5.31, 182.74, 1},
		"aiperf-0.13.0.jsonl.gz": {16.18, 5.31, 182.74, 1}, "guidellm-0.8.1.json.gz": {9.751, 2.032, 72.50, 1},
		"sglang-0.5.23.jsonl.gz": {136.18, 0.5127, 146.55, 1}, "inference-perf-0.7.0.json.gz": {921.2, 29.17, 1826, 6},
		"genai-bench-0.0.5.json.gz": {115.34, 1.5588, 165.29, 1}, "llm-d-0.2.1.yaml": {6.01, 1.62, 56.37, 1},
		"llmperf-0.1.0.json": {22.29, 0, 29.05, 1}, // which has no TPOT
	} {
		text, err := os.ReadFile(filepath.Join("..", "..", "experiments", "interop", file))
		testkit.Must(t, err)
		runs, err := Read(file, text)
		if err != nil || len(runs) != 1 || float64(runs[0].Clients) != want[3] {
			t.Errorf("%s: %+v, %v", file, runs, err)
			continue
		}
		all, err := runs[0].Observations(file, &Overrides{Model: "m", GPU: "h100", Engine: "vllm"})
		medians := slices.DeleteFunc(want[:3], func(ms float64) bool { return ms == 0 })
		if err != nil || len(all) != len(medians) {
			t.Errorf("%s: %+v, %v", file, all, err)
			continue
		}
		for i, o := range all { // in the order of TTFT, TPOT and TTLT
			near := 6e-3
			if strings.HasPrefix(file, "sglang") {
				near = 15e-3
			}
			if got := 1e3 * o.Value; math.Abs(got/medians[i]-1) > near {
				t.Errorf("%s: %s is %.4g ms, want %v", file, o.Metric, got, medians[i])
			}
		}
	}
}

// TestReportsSayWhatTheyAreOf reads the model, the GPU, the engine and the format that files name, and what a user says before them.
func TestReportsSayWhatTheyAreOf(t *testing.T) {
	for file, want := range map[string]validate.Config{
		"vllm.json":         {Model: "meta-llama/Llama-3.1-8B", Engine: "vllm", GPU: "mine", TP: 1, Weights: "bf16"},
		"sglang.jsonl":      {Model: "Qwen/Qwen3-8B", Engine: "sglang", GPU: "mine", TP: 2, Weights: "bf16"},
		"llm-d.yaml":        {Model: "Qwen/Qwen3-8B", Engine: "vllm", GPU: "mine", TP: 2, Weights: "bf16"},
		"trtllm-bench.json": {Model: "meta-llama/Llama-3.1-8B", Engine: "tensorrt-llm", GPU: "mine", TP: 1, Weights: "fp8"},
		"llama-bench.json":  {Model: "llama3.1-8b", Engine: "llama.cpp", GPU: "mine", TP: 1, Weights: "q4_k_m"},
	} {
		text, err := os.ReadFile(filepath.Join("testdata", file))
		testkit.Must(t, err)
		runs, err := Read(file, text)
		testkit.Must(t, err)
		all, err := runs[0].Observations(file, &Overrides{GPU: "mine"})
		testkit.Must(t, err)
		c := all[0].Config
		if got := (validate.Config{Model: c.Model, Engine: c.Engine, GPU: c.GPU, TP: c.TP, Weights: c.Weights}); got != want {
			t.Errorf("%s: %+v, want %+v", file, got, want)
		}
	}
}

// TestReportsThatLackSomethingSayWhat refuses what no prediction can be made of, by name.
func TestReportsThatLackSomethingSayWhat(t *testing.T) {
	const vllm = `{"request_throughput": 1, "total_input_tokens": 5, "completed": 1, "model_id": `
	for text, want := range map[string]string{
		`{"a": 1}`: "no report of a benchmark that is known", ``: "no report of a benchmark", `[1, 2]`: "no report", `{"a"`: "not JSON",
		`{"version": "0.3", "scenario": {"x": 1}, "results": {"request_performance": {"aggregate": {}}}}`: "want 0.2",
		`{"input_config": {}, "request_latency": {"unit": "weeks", "p50": 1}}`:                            "unit weeks",
		`{"metadata": {"request_start_ns": 1}, "metrics": {}, "error": "x"}`:                              "no run with an answer",
		vllm + `"", "median_ttft_ms": 3}`:                                                                 "which model",
		vllm + `"m", "median_ttft_ms": 3}`:                                                                "which engine",
		vllm + `"m", "backend": "vllm", "request_rate": 4.5}`:                                             "requests came at 4.5",
		vllm + `"m", "backend": "vllm", "total_output_tokens": 5}`:                                        "under way",
		vllm + `"m", "backend": "vllm", "max_concurrency": 1}`:                                            "how many tokens",
		vllm + `"m", "backend": "vllm", "max_concurrency": 1, "total_output_tokens": 5}`:                  "lacks TTFT",
	} {
		runs, err := Read("x.json", []byte(text))
		if err == nil {
			_, err = runs[0].Observations("x.json", &Overrides{GPU: "h200"})
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

// TestOtherFilesSayWhatTheyAre refuses traces, which have no times of answers, and files of nothing that is known.
func TestOtherFilesSayWhatTheyAre(t *testing.T) {
	unknown := filepath.Join(t.TempDir(), "x.json")
	testkit.Must(t, os.WriteFile(unknown, []byte(`[{"a": 1}]`), 0o600))
	const traces = "../../serving/replay/testdata/"
	for path, want := range map[string]string{
		traces + "weka.json": "a trace of agents by Weka, which lacks measured times", unknown: "no report of a benchmark that is known",
		traces + "plain.jsonl": "a list of requests, which lacks measured times", traces + "plain.csv": "a list of requests, which lacks",
	} {
		c, err := Collect([]string{path}, &Overrides{GPU: "h200"})
		testkit.Must(t, err)
		if len(c.Refused) != 1 || !strings.Contains(c.Refused[0].Err.Error(), want) {
			t.Errorf("%s: %+v, want %q", path, c.Refused, want)
		}
	}
}

// Whatever a file has, it gives observations that can be, or an error.
func FuzzReport(f *testing.F) {
	files, err := filepath.Glob("testdata/*.*")
	testkit.Must(f, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		testkit.Must(f, err)
		f.Add(string(text), filepath.Ext(file) == ".yaml")
	}
	f.Fuzz(func(t *testing.T, text string, yaml bool) {
		name := map[bool]string{true: "x.yaml", false: "x.json"}[yaml]
		runs, err := Read(name, []byte(text))
		if err != nil {
			return
		}
		for _, r := range runs {
			_ = r.String()
			all, err := r.Observations(name, &Overrides{GPU: "h200", Model: "m", Engine: "vllm"})
			for i := range all {
				if err == nil && all[i].Check() != nil {
					t.Errorf("%+v: %v", all[i], all[i].Check())
				}
			}
		}
	})
}

// TestLLMDReportReadsBack writes results of servers that are kept as Benchmark Reports of llm-d, which read back with their medians.
func TestLLMDReportReadsBack(t *testing.T) {
	files, err := filepath.Glob("../../experiments/h200-vllm/server/*.json.gz")
	testkit.Must(t, err)
	if len(files) == 0 {
		t.Fatal("no results of a server")
	}
	for _, file := range files[:2] {
		r, err := result.Read(file)
		testkit.Must(t, err)
		report, err := LLMD(r)
		testkit.Must(t, err)
		text, err := json.Marshal(report)
		testkit.Must(t, err)
		runs, err := Read("x.json", text)
		testkit.Must(t, err)
		got := runs[0]
		if got.Model != r.Model.Name || got.Clients != r.Serving.Concurrency || got.TP != max(r.Parallelism.TP, 1) ||
			got.figures[validate.TTFT].p50 != r.TTFT.Median || got.figures[validate.TPOT].p50 != r.TPOT.Median ||
			got.figures[validate.TTLT].p99 != r.TTLT.P99 {
			t.Errorf("%s: read back as %+v", file, got)
		}
	}
	if _, err := LLMD(&result.Result{}); err == nil {
		t.Error("a result of no server is reported")
	}
}
