package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const h100Traces = "../../experiments/h100-vllm/traces/"

// A trace of vLLM is set beside the estimate, as a table, as CSV and as a chart; a calibration changes the prediction.
func TestValidateTrace(t *testing.T) {
	picture := filepath.Join(t.TempDir(), "ops.svg")
	got := try(t, "validate", "--trace", h100Traces+"llama3.1-8b-decode-b32.json.gz", "-o", picture)
	for _, want := range []string{
		"llama3.1-8b on h100-sxm-80gb, vllm, batch 32", "the mean of 5 steps", "gate_up_proj", "Not an operator of the estimate",
		"inputs of the next step", "idle", "CUDA graphs launched its",
	} {
		if !strings.Contains(got.stdout, want) {
			t.Errorf("no %q in\n%s%s", want, got.stdout, got.stderr)
		}
	}
	if drawn, err := os.ReadFile(picture); err != nil || !strings.Contains(string(drawn), "profiler") {
		t.Errorf("the chart: %v, %d bytes", err, len(drawn))
	}
	csv := try(t, "validate", "--trace", h100Traces+"llama3.1-8b-decode-b32.json.gz", "--format", "csv")
	if lines := strings.Split(csv.stdout, "\n"); len(lines) < 18 ||
		!strings.HasPrefix(lines[0], "phase,operator,kernels,observed_s,predicted_s") {
		t.Errorf("%s%s", csv.stdout, csv.stderr)
	}
	other := try(t, "validate", "--trace", h100Traces+"llama3.1-8b-decode-b32.json.gz", "--format", "csv", "--calibration", "default",
		"--batch", "16")
	if other.code != 0 || other.stdout == csv.stdout {
		t.Errorf("another batch and calibration: %d, %s", other.code, other.stderr)
	}
}

func TestValidateTraceRefuses(t *testing.T) {
	bare := filepath.Join(t.TempDir(), "bare.json")
	if err := os.WriteFile(bare, []byte(`{"traceEvents": [{"ph": "X", "cat": "kernel", "name": "nvjet", "ts": 1, "dur": 2}]}`),
		0o644); err != nil {
		t.Fatal(err)
	}
	for want, args := range map[string]string{
		"give --model":                      bare,
		"does not name its GPU: give --gpu": bare + " -m llama3.1-8b",
		"no step of 32 attentions":          bare + " -m llama3.1-8b -g h100",
		"want one number above 0":           bare + " -m llama3.1-8b -g h100 --batch 1,2",
		"--ablate has no meaning beside it": bare + " --ablate",
		"has no attention":                  bare + " -m mamba2-2.7b -g h100",
		"no such file":                      "nothing.json",
		"not a trace":                       "../../measure/aggregate/testdata/two.json",
	} {
		got := try(t, append([]string{"validate", "--trace"}, strings.Fields(args)...)...)
		if got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %d, %s: want %q", args, got.code, got.stderr, want)
		}
	}
	if got := try(t, "validate", "--context", "5"); got.code != 2 || !strings.Contains(got.stderr, "give --trace") {
		t.Errorf("%d, %s", got.code, got.stderr)
	}
}

// Measured operators of a trace and of a result are drawn under the roofs of what they were measured on.
func TestPlotMeasured(t *testing.T) {
	dir := t.TempDir()
	for name, args := range map[string]string{
		"trace.svg":  "--measured " + h100Traces + "qwen3-30b-a3b-decode-b32.json.gz",
		"named.svg":  "llama3.1-8b h100 --measured " + h100Traces + "llama3.1-8b-decode-b32.json.gz",
		"result.svg": "--measured testdata/operators-tp2.json",
	} {
		picture := filepath.Join(dir, name)
		got := try(t, append([]string{"plot", "roofline", "-o", picture}, strings.Fields(args)...)...)
		text, err := os.ReadFile(picture)
		if got.code != 0 || err != nil || !strings.Contains(string(text), "measured") {
			t.Errorf("%s: %d, %s", args, got.code, got.stderr)
		}
	}
	for want, args := range map[string]string{
		"has no operators": "--measured ../../measure/result/testdata/fixture-8b-b8.p0.json",
		"no such file":     "--measured nothing.json",
	} {
		got := try(t, append([]string{"plot", "roofline", "-o", filepath.Join(dir, "x.svg")}, strings.Fields(args)...)...)
		if got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: %d, %s: want %q", args, got.code, got.stderr, want)
		}
	}
}
