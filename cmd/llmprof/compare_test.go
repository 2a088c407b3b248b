package main

import (
	"bytes"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/testkit"
	"llmprof/validate"
)

// A comparison has the figures of the estimates that it is of, and a ratio of 1 to itself;
// an estimate that was written as JSON is the same side as the estimate.
func TestCompare(t *testing.T) {
	file := filepath.Join(t.TempDir(), "estimate.json")
	got := try(t, "estimate", "--model", "llama3.1-8b", "--gpu", "h200", "--tp", "2", "--batch", "8", "--weights", "fp8", "--engine", "vllm",
		"--format", "json")
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	testkit.Must(t, os.WriteFile(file, []byte(got.stdout), 0o600))
	got = try(t, "compare", "--format", "json", "--model", "llama3.1-8b", "h200 tp2 b8 fp8 vllm", file, "l40s vllm batch=8 weights=fp8 --tp=1")
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	checkSchema(t, schema(t, "compare"), got.stdout)
	var c view.CompareDocument
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &c))
	same := 0
	for _, d := range c.Differences {
		if d.Side == 1 && d.Ratio != nil {
			if math.Abs(*d.Ratio-1) > 1e-12 || d.Overlap != nil && !*d.Overlap {
				t.Errorf("%+v", d)
			}
			same++
		}
	}
	if same < 8 || len(c.Operators) == 0 {
		t.Errorf("%d figures, %d operators", same, len(c.Operators))
	}
	sum := 0.0
	for _, o := range c.Sides[0].Ops {
		if o.Phase == "decode" {
			sum += o.Time
		}
	}
	if tpot := *c.Sides[0].Figures[1].Value; math.Abs(sum/tpot-1) > 0.01 {
		t.Errorf("the operators of a decode step come to %v, TPOT is %v", sum, tpot)
	}
	if !strings.Contains(strings.Join(c.Warnings, "\n"), `the constants of "h200 tp2 b8 fp8 vllm" were measured, those of "l40s`) {
		t.Errorf("%q", c.Warnings)
	}
}

// Sides have figures under a load of their own, from a file as from their description.
func TestCompareUnderLoad(t *testing.T) {
	file := filepath.Join(t.TempDir(), "estimate.json")
	got := try(t, "estimate", "llama3.1-8b", "h200", "--rate", "8", "--format", "json")
	testkit.Must(t, os.WriteFile(file, []byte(got.stdout), 0o600))
	got = try(t, "compare", "--format", "json", "-m", "llama3.1-8b", "--rate", "8", file, "h200", "h200 rate=16")
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	checkSchema(t, schema(t, "compare"), got.stdout)
	var c view.CompareDocument
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &c))
	seen := 0
	for _, d := range c.Differences {
		if d.Metric != "load_ttft_s" {
			continue
		}
		if seen++; d.Ratio == nil || (*d.Ratio == 1) != (d.Side != 2) {
			t.Errorf("%+v", d)
		}
	}
	if seen != 2 {
		t.Errorf("%d differences of TTFT under load", seen)
	}
}

// A deployment that cannot run has its times and no throughput, from a file as from its description.
func TestCompareImpossible(t *testing.T) {
	file := filepath.Join(t.TempDir(), "estimate.json")
	got := try(t, "estimate", "llama3.1-70b", "rtx-4090", "--format", "json")
	testkit.Must(t, os.WriteFile(file, []byte(got.stdout), 0o600))
	got = try(t, "compare", "--format", "json", "--model", "llama3.1-70b", file, "rtx-4090")
	if got.code != 0 {
		t.Fatal(got.stderr)
	}
	checkSchema(t, schema(t, "compare"), got.stdout)
	var c view.CompareDocument
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &c))
	for i := range c.Sides {
		for _, f := range c.Sides[i].Figures {
			if none := f.Metric == "tok_s" || f.Metric == "tok_s_gpu" || f.Metric == "usd_h" || f.Metric == "usd_mtok"; none != (f.Value == nil) {
				t.Errorf("side %d: %+v", i, f)
			}
		}
	}
}

// What is no deployment is said, and no figure is made of it.
func TestCompareRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"h100":                           "want two deployments",
		"h100 h200,tp3q":                 "tp3q",
		"h100 h101":                      "did you mean",
		"h100 a100,l4":                   "second GPU",
		"h100 h200,nonsense=3":           "no flag --nonsense",
		"h100 h200,rate=3,concurrency=2": "Give one of --rate and --concurrency",
		"h100 h200,b2,b3":                "\"b3\" gives --batch again",
		"h100 h200,fp8,bf16":             "\"bf16\" gives --weights again",
		"h100 ../../go.mod":              "no estimate and no result",
		"h100 ../../measure/aggregate/testdata/two.json": "want llmprof.measure/v1 or llmprof.estimate/v1",
	} {
		words := []string{"compare", "--model", "llama3.1-8b"}
		for w := range strings.FieldsSeq(args) {
			words = append(words, strings.ReplaceAll(w, ",", " "))
		}
		if got := try(t, words...); got.code == 0 || got.stdout != "" || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d, %q, want %q", args, got.code, got.stderr, want)
		}
	}
}

// Files of long names have letters above their columns, so that all columns are shown.
func TestCompareLongNames(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a-folder-with-a-long-name")
	testkit.Must(t, os.Mkdir(folder, 0o755))
	var files []string
	for _, gpu := range []string{"h100", "h200"} {
		file := filepath.Join(folder, gpu+".json")
		if got := try(t, "estimate", "llama3.1-8b", gpu, "--format", "json", "-o", file); got.code != 0 {
			t.Fatal(got.stderr)
		}
		files = append(files, file)
	}
	page := try(t, "compare", files[0], files[1]).stdout
	for _, want := range []string{"A: ", "B: ", "ratio", "% of it"} {
		if !strings.Contains(page, want) {
			t.Errorf("%q is missing in\n%s", want, page)
		}
	}
}

// A quantization of llama.cpp is a word of a deployment, as schemes are.
func TestCompareMixes(t *testing.T) {
	got := try(t, "compare", "-m", "llama3.1-8b", "rtx-4090 q4_k_m", "rtx-4090 weights=q4_k_m", "--format", "json")
	var c view.CompareDocument
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &c))
	if len(c.Sides) != 2 || *c.Sides[0].Figures[1].Value != *c.Sides[1].Figures[1].Value {
		t.Errorf("exit %d: %+v %s", got.code, c.Sides, got.stderr)
	}
}

// TestCompareRepeated holds results of processes of one release against themselves, and against those that are slower at one prompt.
func TestCompareRepeated(t *testing.T) {
	file := filepath.Join("..", "..", "experiments", "h200-vllm-processes", "observations.csv")
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	all, err := validate.Parse(file, text)
	testkit.Must(t, err)
	for i := range all {
		all[i].Low, all[i].High, all[i].Release = nil, nil, "0.26.0"
		if all[i].Prompt == 4096 {
			all[i].Value *= 2
		}
	}
	var b bytes.Buffer
	testkit.Must(t, validate.WriteCSV(&b, all))
	slower := filepath.Join(t.TempDir(), "after.csv")
	testkit.Must(t, os.WriteFile(slower, b.Bytes(), 0o600))
	if got := try(t, "compare", "--fail-over", "5%", file, file); got.code != 0 || strings.Contains(got.stdout, "slower\n") {
		t.Errorf("against itself: exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
	got := try(t, "compare", "--fail-over", "5", "--format", "json", file, "--", slower)
	checkSchema(t, schema(t, "compare-repeated"), got.stdout)
	var d view.RegressionDocument
	testkit.Must(t, json.Unmarshal([]byte(got.stdout), &d))
	if got.code != 1 || !strings.Contains(got.stderr, "figures rose by more than 5 %") || len(d.Alone) == 0 {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
	for _, c := range d.Changes {
		if c.Slower != (c.Prompt == 4096) || c.Phase != "prefill" {
			t.Errorf("%+v", c)
		}
	}
	for args, want := range map[string]string{file: "results before and after", file + " nowhere": "no such file",
		file + " " + file + " --batch 2": "leave one"} {
		got := try(t, append([]string{"compare", "--fail-over", "5%"}, strings.Fields(args)...)...)
		if got.code == 0 || !strings.Contains(got.stderr, want) {
			t.Errorf("%s: exit %d: %s, want %q", args, got.code, got.stderr, want)
		}
	}
	if got := try(t, "compare", "--fail-over", "much", file, file); got.code != 2 {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}
