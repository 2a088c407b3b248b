package live_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit/casetest"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/models"
	"llmprof/validate"
	"llmprof/validate/live"
)

// A log keeps what a comparison reports.
type log struct {
	lines  []string
	events []experiment.Event
}

func (l *log) Logf(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf(format, args...))
}
func (l *log) Notify(e experiment.Event) { l.events = append(l.events, e) }

// options measure llama3.2-1b on an H200 with an engine that is never asked.
func options(t *testing.T) live.Options {
	t.Helper()
	table, gpus := casetest.Tables(t)
	gpu, err := gpus.GPU("h200")
	if err != nil {
		t.Fatal(err)
	}
	return live.Options{
		Grid: live.Grid{
			Models: []string{"llama3.2-1b"}, Engines: []string{"transformers eager"}, Batches: []int{1, 4}, PromptLens: []int{128}, GenLen: 8,
		},
		Target: live.Target{GPU: gpu},
		Engine: live.Engine{Measure: func(context.Context, experiment.Point) ([]*result.Result, error) {
			t.Error("a point was measured")
			return nil, errors.New("not wanted")
		}},
		Results: filepath.Join(t.TempDir(), "results"), Version: "test", Models: models.Resolver{Table: table}, GPUs: gpus,
	}
}

// TestRunWritesPredictionsFirst checks that the file of predictions is whole when the
// first point is measured, and that points that fail are listed with their reasons.
func TestRunWritesPredictionsFirst(t *testing.T) {
	o, seen := options(t), &log{}
	o.Engine.Measure = func(_ context.Context, p experiment.Point) ([]*result.Result, error) {
		files, err := filepath.Glob(filepath.Join(o.Results, "predictions-*.json"))
		if err != nil || len(files) != 1 {
			t.Fatalf("%d files of predictions, %v", len(files), err)
		}
		if kept, err := validate.ReadPredictions(files[0]); err != nil || len(kept.Points) != 2 || kept.Version != "test" {
			t.Errorf("%+v, %v", kept, err)
		}
		if p.Device != "cuda" || p.Graph {
			t.Errorf("device %q, graph %t: want the GPU, eager", p.Device, p.Graph)
		}
		return nil, errors.New("the engine is missing")
	}
	made, err := live.Run(t.Context(), o, seen)
	if err != nil {
		t.Fatal(err)
	}
	if made.Runs.Failed != 2 || made.Planned != 2 || len(made.Missing) != 2 || made.Observations != 0 {
		t.Fatalf("%+v", made)
	}
	for i, batch := range []string{"batch 1", "batch 4"} {
		if m := made.Missing[i]; m.Reason != "the engine is missing" || !strings.Contains(m.Name, batch) {
			t.Errorf("%+v: want %s", m, batch)
		}
	}
	if text := strings.Join(seen.lines, "\n"); !strings.Contains(text, "SHA-256 "+made.Kept.SHA256) || len(seen.events) == 0 {
		t.Errorf("%d events, %s", len(seen.events), text)
	}
}

// TestRunRefuses holds which options are requests that cannot be measured, and that
// such a request leaves no file behind.
func TestRunRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		change func(t *testing.T, o *live.Options)
		want   string
	}{
		"engine":    {func(_ *testing.T, o *live.Options) { o.Grid.Engines = []string{"vllm"} }, `engine "vllm": want native`},
		"batch":     {func(_ *testing.T, o *live.Options) { o.Grid.Batches = []int{0} }, "batch: 0: want at least 1"},
		"no points": {func(_ *testing.T, o *live.Options) { o.Grid.PromptLens = nil }, "no point is left to measure"},
		"processor": {func(t *testing.T, o *live.Options) { o.Grid.File = grid(t, "cpu") }, `the points have device = "cpu"`},
		"GPU": {func(t *testing.T, o *live.Options) {
			o.Grid.File, o.Target.CPU = grid(t, "cuda"), true
		}, `the points have device = "cuda"`},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t)
			c.change(t, &o)
			made, err := live.Run(t.Context(), o, &log{})
			var wrong live.RequestError
			if made != nil || !errors.As(err, &wrong) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%+v, %v: want a request error with %q", made, err, c.want)
			}
			if _, err := os.Stat(o.Results); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the results folder is there: %v", err)
			}
		})
	}
}

// grid writes an experiment file of one point on a device.
func grid(t *testing.T, device string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "grid.toml")
	text := fmt.Sprintf("model = \"llama3.2-1b\"\ngraph = false\ndevice = %q\n", device)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}
