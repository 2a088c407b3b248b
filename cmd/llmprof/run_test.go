package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
)

// fixturePath is a result made up for tests.
var fixturePath = filepath.Join("..", "..", "measure", "result", "testdata", "fixture-8b-b8.p0.json")

// tryRun runs "run" with a measurement that gives the fixture, and fails for a
// batch of 2.
func tryRun(t *testing.T, fixture *result.Result, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	a := &app{stdout: &out, styled: &out, stderr: &errs, env: func(string) string { return "" }}
	cmd := a.runCommand(func(bool) (experiment.Measure, func() error, error) {
		return func(_ context.Context, p experiment.Point) ([]*result.Result, error) {
			if p.Batch == 2 {
				return nil, errors.New("CUDA out of memory")
			}
			r := *fixture
			r.Workload.Batch = p.Batch
			return []*result.Result{&r}, nil
		}, func() error { return nil }, nil
	})
	cmd.SetArgs(args)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	code := 0
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		code = 1
		errs.WriteString(err.Error())
	}
	return ran{code, out.String(), errs.String()}
}

// TestRun runs an experiment of which one point fails, twice.
func TestRun(t *testing.T) {
	fixture, err := result.Read(fixturePath)
	testkit.Must(t, err)
	t.Chdir(t.TempDir())
	testkit.Must(t, os.WriteFile("batches.toml", []byte("model = \"llama3.1-8b\"\ngrid = {batch = [1, 2, 8]}\ngen_len = 4096\n"), 0o644))
	for _, step := range []struct {
		args string
		want []string
	}{
		{"batches.toml", []string{"warning: batches.toml:3:", "[1/3]", "failed: CUDA out of memory", "2 measured, 0 kept from before, 1 failed",
			"1 of 3 runs have no result"}},
		{"batches.toml", []string{"0 measured, 2 kept from before, 1 failed"}},
		{"batches.toml --no-retry", []string{"skipped", "2 kept from before, 0 failed, 1 left alone"}},
	} {
		got := tryRun(t, fixture, strings.Fields(step.args)...)
		if got.code != 1 {
			t.Errorf("%s: exit %d", step.args, got.code)
		}
		for _, want := range step.want {
			if !strings.Contains(got.stderr, want) {
				t.Errorf("%s: no %q in %s", step.args, want, got.stderr)
			}
		}
		if !strings.Contains(got.stdout, "llama3.1-8b") || !strings.Contains(got.stdout, "CUDA out of memory") {
			t.Errorf("%s: %s", step.args, got.stdout)
		}
	}
	if got := tryRun(t, fixture, "batches.toml", "--results", "batches.toml"); got.code != 1 ||
		!strings.Contains(got.stderr, "results folder") || got.stdout != "" {
		t.Errorf("%+v", got)
	}
	testkit.Must(t, os.WriteFile("bad.toml", []byte("bacth = 1\n"), 0o644))
	if got := tryRun(t, fixture, "bad.toml"); got.code != 1 || !strings.Contains(got.stderr, "did you mean \"batch\"?") {
		t.Errorf("%+v", got)
	}
}

// TestRunSaysItsEffects: before anything is measured.
func TestRunSaysItsEffects(t *testing.T) {
	fixture, err := result.Read(fixturePath)
	testkit.Must(t, err)
	t.Chdir(t.TempDir())
	text := "model = \"llama3.1-8b\"\nengine = \"openai\"\nbase_url = \"http://localhost:8000/v1\"\nengine_cmd = \"vllm serve m\"\n"
	testkit.Must(t, os.WriteFile("server.toml", []byte(text), 0o600))
	got := tryRun(t, fixture, "server.toml").stderr
	before, _, found := strings.Cut(got, "[1/1]")
	for _, want := range []string{`server: it will execute "vllm serve m"`, `server: it will send requests to "http://localhost:8000", with ` +
		`no key of OPENAI_API_KEY`} {
		if !found || !strings.Contains(before, want) {
			t.Errorf("no %q before the first run:\n%s", want, got)
		}
	}
}

// TestRunAfterAChange holds that results of before a file of the experiment changed are not taken for those of now.
func TestRunAfterAChange(t *testing.T) {
	fixture, err := result.Read(fixturePath)
	testkit.Must(t, err)
	t.Chdir(t.TempDir())
	testkit.Must(t, os.WriteFile("e.toml", []byte("model = \"llama3.1-8b\"\nprompts = \"p.txt\"\n"), 0o644))
	for _, step := range []struct{ prompts, want string }{
		{"one", "1 measured, 0 kept"}, {"one", "0 measured, 1 kept"}, {"two", "1 measured, 0 kept"}, {"one", "0 measured, 1 kept"},
	} {
		testkit.Must(t, os.WriteFile("p.txt", []byte(step.prompts), 0o644))
		if got := tryRun(t, fixture, "e.toml"); !strings.Contains(got.stderr, step.want) {
			t.Errorf("%s: want %q in\n%s", step.prompts, step.want, got.stderr)
		}
	}
	all, err := result.ReadFolder("results")
	if err != nil || len(all) != 2 || !strings.Contains(string(all[0].Provenance.Settings), `"contents":`) {
		t.Errorf("%d results, %v", len(all), err)
	}
}
