package main

import (
	"bytes"
	"fmt"
	"html"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// golden compares a page with a file, pictures, style and script apart (they
// have tests of their own), numbers to six digits.
func golden(t *testing.T, file, text string) {
	t.Helper()
	for _, drop := range []string{`(?s)<svg.*?</svg>`, `(?s)<style>.*?</style>`, `(?s)<script>.*?</script>`,
		`llmprof \d+\.\d+\.\d+ [^<"\n]*?/\w+`, `sha256-[A-Za-z0-9/=&#;]*?&#39;`} {
		text = regexp.MustCompile(drop).ReplaceAllString(text, "…")
	}
	testkit.Golden(t, filepath.Join("testdata", file), sixDigits(text))
}

// reported writes the report of a command line and returns its file.
func reported(t *testing.T, args ...string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.html")
	if got := try(t, append(append([]string{"report"}, args...), "-o", file)...); got.code != 0 || got.stdout != "" {
		t.Fatalf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
	return file
}

var mixture = []string{"--model", "qwen3-30b-a3b", "--gpu", "h100", "--tp", "2", "--batch", "16"}

func TestReportGolden(t *testing.T) {
	page, err := os.ReadFile(reported(t, mixture...))
	testkit.Must(t, err)
	golden(t, "report.html", string(page))
	dir := t.TempDir()
	file := filepath.Join(dir, "my report.md")
	if got := try(t, append([]string{"report", "-o", file}, mixture...)...); got.code != 0 {
		t.Fatal(got.stderr)
	}
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	golden(t, "report.md", string(text))
	links := regexp.MustCompile(`\]\(my%20report_files/([^)]*)\)`).FindAllStringSubmatch(string(text), -1)
	if len(links) != 9 {
		t.Errorf("%d links to pictures, want 9: %v", len(links), links)
	}
	for _, l := range links {
		if info, err := os.Stat(filepath.Join(dir, "my report_files", l[1])); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", l[1], err)
		}
	}
}

// Every pipe of a row of Markdown ends a cell, whatever the texts hold.
func TestReportHostileName(t *testing.T) { hostileReport(t) }

// hostileReport is the report of a model whose name is markup.
func hostileReport(t *testing.T) (file, name string) {
	t.Helper()
	name = `x<img src=q onerror=alert(1)>|"'&{{.}}]]>`
	dir := filepath.Join(t.TempDir(), name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(tinyLlama), 0o644))
	file = reported(t, "--model", dir, "--gpu", "h100")
	page, err := os.ReadFile(file)
	testkit.Must(t, err)
	if strings.Contains(string(page), "<img") || !strings.Contains(string(page), "<title>"+html.EscapeString(name)[:5]) {
		t.Error("the name is not escaped, or not there")
	}
	return file, name
}

func TestReportHostileMarkdown(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a|b`c*d")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Skip(err)
	}
	testkit.Must(t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(tinyLlama), 0o644))
	file := filepath.Join(t.TempDir(), "r.md")
	if got := try(t, "report", "--model", dir, "--gpu", "h100", "-o", file); got.code != 0 {
		t.Fatal(got.stderr)
	}
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	unescaped := regexp.MustCompile(`(^|[^\\])\|`)
	cells := 0
	for i, line := range strings.Split(string(text), "\n") {
		if !strings.HasPrefix(line, "|") {
			cells = 0
			continue
		}
		n := len(unescaped.FindAllString(line, -1))
		if cells != 0 && n != cells {
			t.Errorf("line %d has %d cells, those above it %d: %s", i+1, n-1, cells-1, line)
		}
		cells = n
	}
}

// Stored results become sections, set against the estimate if both are of the
// same.
func TestReportResults(t *testing.T) {
	dir := t.TempDir()
	estimate := filepath.Join(dir, "estimate.json")
	if got := try(t, append([]string{"estimate", "--format", "json", "-o", estimate}, mixture...)...); got.code != 0 {
		t.Fatal(got.stderr)
	}
	r, err := result.Read(fixturePath)
	testkit.Must(t, err)
	r.Model.Name = "llama3.1-8b"
	r.Engine.Notes = []string{`<b>note</b>`}
	measured, err := result.Write(dir, r)
	testkit.Must(t, err)
	matching := []string{"--model", r.Model.Name, "--gpu", r.Machine.GPUs[0].Key, "--batch", fmt.Sprint(r.Workload.Batch),
		"--prompt-len", fmt.Sprint(r.Workload.PromptLen), "--gen-len", fmt.Sprint(r.Workload.GenLen), "--weights", r.Workload.Weights}
	for _, test := range []struct {
		args []string
		want string
	}{
		{append(matching, "--engine", "transformers-graph"), ""},
		{matching, "engine: measured with transformers graph, estimated with vllm"},
		{mixture, "batch: measured with 8, estimated with 16"},
	} {
		page, err := os.ReadFile(reported(t, append([]string{"--results", estimate + "," + measured}, test.args...)...))
		testkit.Must(t, err)
		text := string(page)
		const another = "Measured on another case than this page"
		if strings.Contains(text, another) != (test.want != "") {
			t.Errorf("%v: %q is said: %v", test.args, another, test.want == "")
		}
		for _, want := range []string{test.want, "Predicted and observed</h2>", "6 of 6 figures of 1 measured results are compared",
			"Beside: qwen3-30b-a3b on", "Measured: llama3.1-8b, transformers", "&lt;b&gt;note"} {
			if !strings.Contains(text, want) {
				t.Errorf("%v: no %q in the page", test.args, want)
			}
		}
	}
}

// withResults is a report with measured results: seven of one model in a graph, one
// of another, eagerly, and one that holds nothing to compare.
func withResults(t *testing.T) []string {
	t.Helper()
	dir := t.TempDir()
	testkit.Must(t, writeFixtures(dir))
	files := []string{filepath.Join(dir, "bare.p0.json")}
	all, err := result.ReadFolder(filepath.Join("..", "..", "experiments", "h200"))
	testkit.Must(t, err)
	for _, r := range all {
		w := &r.Workload
		llama := r.Model.Name == "llama3.1-8b" && r.Engine.Options["graph"] == "true" && r.Parallelism.TP == 1 && w.Batch < 32 && r.Cycle == 0
		qwen := r.Model.Name == "qwen2.5-7b" && r.Engine.Options["graph"] == "false" && w.Batch == 8 && w.PromptLen == 1024
		if llama || qwen {
			files = append(files, filepath.Join("..", "..", "experiments", "h200", result.FileName(r.ID, r.Process)))
		}
	}
	return []string{"--model", "llama3.1-8b", "--gpu", "h200", "--engine", "transformers-graph", "--gen-len", "32", "--results",
		strings.Join(files, ",")}
}

// TestReportObserved holds the section of measured results to what was looked at.
func TestReportObserved(t *testing.T) {
	args := withResults(t)
	page, err := os.ReadFile(reported(t, args...))
	testkit.Must(t, err)
	_, rest, ok := strings.Cut(string(page), `<section id="observed"`)
	section, _, also := strings.Cut(rest, "</section>")
	if !ok || !also {
		t.Fatal("no section on what was observed")
	}
	golden(t, "report_observed.html", section)
	file := filepath.Join(t.TempDir(), "r.md")
	if got := try(t, append([]string{"report", "-o", file}, args...)...); got.code != 0 {
		t.Fatal(got.stderr)
	}
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	_, rest, ok = strings.Cut(string(text), "\n## Predicted and observed\n")
	section, _, also = strings.Cut(rest, "\n## ")
	if !ok || !also {
		t.Fatal("no section on what was observed")
	}
	golden(t, "report_observed.md", section)
	for _, name := range []string{"accuracy.png", "follow.png"} {
		if info, err := os.Stat(filepath.Join(filepath.Dir(file), "r_files", name)); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(section, "](r_files/"+name+")") {
			t.Errorf("no link to %s", name)
		}
	}
}

func BenchmarkReport(b *testing.B) {
	for b.Loop() {
		file := filepath.Join(b.TempDir(), "r.html")
		var errs bytes.Buffer
		args := []string{"report", "--model", "deepseek-v3", "--gpu", "h200", "--tp", "8", "--batch", "32", "-o", file}
		if code := run(args, bytes.NewReader(nil), io.Discard, &errs, func(string) string { return "" }); code != 0 {
			b.Fatal(errs.String())
		}
	}
}
