package main

import (
	"encoding/json"
	"strings"
	"testing"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/testkit"
	"llmprof/validate/reports"
)

// TestSimulateReport writes a simulated load as a Benchmark Report of llm-d, which reads back with the medians of the JSON.
func TestSimulateReport(t *testing.T) {
	args := []string{"simulate", "llama3.1-8b", "h200", "--concurrency", "4", "--requests", "40", "--format"}
	report, plain := try(t, append(args, "llm-d")...), try(t, append(args, "json")...)
	if report.code != 0 || plain.code != 0 {
		t.Fatal(report.stderr, plain.stderr)
	}
	runs, err := reports.Read("x.json", []byte(report.stdout))
	testkit.Must(t, err)
	all, err := runs[0].Observations("x.json", &reports.Overrides{})
	testkit.Must(t, err)
	var d view.SimulationDocument
	testkit.Must(t, json.Unmarshal([]byte(plain.stdout), &d))
	if len(all) != 3 || all[0].Model != "llama3.1-8b" || all[0].Engine != "vllm" || all[0].Batch != 4 || all[0].Prompt != 1024 ||
		all[0].Gen != 128 {
		t.Fatalf("%+v", all)
	}
	for i, want := range []float64{d.TTFT.P50, d.TPOT.P50, d.E2E.P50} {
		if !near(all[i].Value, want) {
			t.Errorf("%s is %v, want %v", all[i].Metric, all[i].Value, want)
		}
	}
	if got := try(t, "simulate", "llama3.1-8b", "h200", "--rate", "1,2", "--requests", "20", "--format", "llm-d"); got.code == 0 ||
		!strings.Contains(got.stderr, "one load") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}
