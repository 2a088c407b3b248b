package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/validate"
)

// liveGrid is two points of a tiny model that a processor measures in seconds, the
// second for longer than it takes to interrupt it.
const liveGrid = `name = "tiny"
random_weights = true
dtype = "fp32"
graph = false
energy = false
warmup = 1
repeats = 3
prompt_len = 8
gen_len = 4
points = [{batch = 1}, {batch = 2, repeats = 50}]
`

// onProcessor makes a folder with a grid of a tiny model, and gives it with the
// command line that measures the grid on the processor, described as
// testdata/cpu.toml does.
func onProcessor(t *testing.T) (results string, args []string) {
	t.Helper()
	py := python(t)
	t.Setenv("OMP_NUM_THREADS", "1") // the model is too small for more, which would wait for each other
	table, err := filepath.Abs(filepath.Join("testdata", "cpu.toml"))
	testkit.Must(t, err)
	dir := t.TempDir()
	model, grid := filepath.Join(dir, "model"), filepath.Join(dir, "grid.toml")
	testkit.Must(t, os.Mkdir(model, 0o755))
	for name, text := range map[string]string{
		filepath.Join(model, "config.json"): tinyLlama,
		grid:                                liveGrid + "python = " + quoted(t, py) + "\nmodel = " + quoted(t, model) + "\n",
	} {
		testkit.Must(t, os.WriteFile(name, []byte(text), 0o644))
	}
	results = filepath.Join(dir, "out")
	return results, []string{
		"validate", "--live", "--grid", grid, "--device", "cpu", "--gpu", "my-cpu", "--hardware", table, "--results", results, "--format", "json",
	}
}

// quoted is a text as TOML has it.
func quoted(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	testkit.Must(t, err)
	return string(b)
}

// heldTo fails the test unless the rows of a comparison are those that were predicted, and the results alone give the same rows.
func heldTo(t *testing.T, j *comparedLive, results string, args []string) {
	t.Helper()
	p, err := validate.ReadPredictions(j.Live.File)
	testkit.Must(t, err)
	for _, r := range j.Rows {
		var predicted float64
		for _, point := range p.Points {
			for _, f := range point.Figures {
				if point.Batch == r.Batch && string(f.Metric) == r.Metric {
					predicted = f.Expected
				}
			}
		}
		if r.Predicted != predicted || r.Model != "model" || r.GPU != "my-cpu" || *r.Mode != "eager" {
			t.Errorf("%+v: written was %v", r, predicted)
		}
	}
	stored := []string{"validate", "--format", "json", results, "--device", "cpu", "--gpu", "my-cpu", "--hardware", args[9]}
	if got := try(t, append(stored, "--model", filepath.Join(filepath.Dir(results), "model"))...); got.code != 0 ||
		len(liveOf(t, got).Rows) != 6 {
		t.Errorf("the same results from their files: exit %d: %s", got.code, got.stderr)
	}
	if got := try(t, stored...); got.code != 1 || !strings.Contains(got.stdout, "unknown model \\\"model\\\"") {
		t.Errorf("a model that no table has: exit %d: %s", got.code, got.stdout)
	}
}

// TestLiveOnProcessor predicts, measures and compares for real: the engine is transformers, on the processor. It interrupts
// the program in the middle of the second of two points, as Ctrl-C does: the first is kept, and the next call measures the
// second alone, held to the predictions that were written at first.
func TestLiveOnProcessor(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("a process cannot be sent an interrupt there")
	}
	results, args := onProcessor(t)
	program, err := exec.LookPath("llmprof") // this test's own binary, by testscript.Main
	testkit.Must(t, err)
	cmd := exec.CommandContext(t.Context(), program, args...)
	pipe, err := cmd.StderrPipe()
	testkit.Must(t, err)
	var out bytes.Buffer
	cmd.Stdout = &out
	testkit.Must(t, cmd.Start())
	var said strings.Builder
	lines := bufio.NewScanner(pipe)
	for lines.Scan() {
		said.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "[2/2]") && strings.HasSuffix(lines.Text(), "started") {
			testkit.Must(t, cmd.Process.Signal(os.Interrupt))
		}
	}
	err = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); err == nil || code != 130 || out.Len() > 0 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out.String(), said.String())
	}
	for _, want := range []string{"[1/2]", ": done", "the same command goes on from there", "llmprof: interrupted"} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("no %q in %s", want, said.String())
		}
	}
	kept, _ := filepath.Glob(filepath.Join(results, "tiny-*.json"))
	predictions, _ := filepath.Glob(filepath.Join(results, "predictions-*.json"))
	if len(kept) != 1 || len(predictions) != 1 {
		t.Fatalf("kept are %v and %v: want one result and the predictions", kept, predictions)
	}
	before, err := os.ReadFile(kept[0])
	testkit.Must(t, err)
	again := exec.CommandContext(t.Context(), program, args...)
	var errs bytes.Buffer
	again.Stderr = &errs
	text, err := again.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, errs.String())
	}
	j := liveOf(t, ran{stdout: string(text)})
	if l := j.Live; l.Points != 2 || l.Done != 1 || l.Measured != 1 || !l.Earlier || l.File != predictions[0] || l.Older != 0 ||
		l.GPU != "my-cpu" || len(j.Rows) != 6 {
		t.Errorf("%+v, %d rows", l, len(j.Rows))
	}
	heldTo(t, &j, results, args)
	if after, err := os.ReadFile(kept[0]); err != nil || !bytes.Equal(before, after) {
		t.Errorf("the first result was measured again: %v", err)
	}
}
