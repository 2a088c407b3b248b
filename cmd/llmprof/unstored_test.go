package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
)

// TestUnstored breaks the folder of results under a run: the result is listed and kept elsewhere, and nothing more is measured.
func TestUnstored(t *testing.T) {
	fixture, err := result.Read(fixturePath)
	testkit.Must(t, err)
	for _, spare := range []string{t.TempDir(), os.DevNull} {
		t.Chdir(t.TempDir())
		t.Setenv("TMPDIR", spare)
		testkit.Must(t, os.WriteFile("three.toml", []byte("model = \"llama3.1-8b\"\ngrid = {batch = [1, 2, 8]}\n"), 0o644))
		var out, errs bytes.Buffer
		a, measured := &app{stdout: &out, styled: &out, stderr: &errs, env: func(string) string { return "" }}, 0
		cmd := a.runCommand(func(bool) (experiment.Measure, func() error, error) {
			return func(context.Context, experiment.Point) ([]*result.Result, error) {
				measured++
				testkit.Must(t, os.RemoveAll("results"))
				testkit.Must(t, os.WriteFile("results", nil, 0o644))
				return []*result.Result{fixture}, nil
			}, func() error { return nil }, nil
		})
		cmd.SetArgs([]string{"three.toml"})
		cmd.SilenceErrors, cmd.SilenceUsage = true, true
		err = cmd.ExecuteContext(t.Context())
		a.rescue(err)
		if err == nil || measured != 1 || !strings.Contains(out.String(), "llama3.1-8b") {
			t.Errorf("%v, %d measured:\n%s", err, measured, out.String())
		}
		kept := errs.Bytes()
		if at := regexp.MustCompile(`could not be stored; it is in (\S+)`).FindSubmatch(kept); spare != os.DevNull {
			if at == nil {
				t.Fatalf("no file is named:\n%s", kept)
			}
			kept, err = os.ReadFile(string(at[1]))
			testkit.Must(t, err)
		}
		if !bytes.Contains(kept, []byte(`"schema": "`+result.Schema)) {
			t.Errorf("the result is not kept:\n%s", kept)
		}
	}
}

// TestPutKeeps writes elsewhere what goes to a file, or to standard output, that takes nothing although it is open.
func TestPutKeeps(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	a := &app{stdout: &bytes.Buffer{}, styled: &bytes.Buffer{}, stderr: &bytes.Buffer{}}
	err := a.put("calibration", "/dev/full", []byte("x"))
	files, _ := filepath.Glob(filepath.Join(dir, "*", "full"))
	if err == nil || len(files) != 1 || !strings.Contains(err.Error(), files[0]) {
		t.Errorf("%v, %v", err, files)
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	testkit.Must(t, err)
	defer full.Close()
	a.stdout = full
	err = a.put("result", "", []byte("what was measured"))
	kept, _ := filepath.Glob(filepath.Join(dir, "*", "result"))
	if err == nil || len(kept) != 1 || !strings.Contains(err.Error(), kept[0]) {
		t.Fatalf("%v, %v", err, kept)
	}
	if text, err := os.ReadFile(kept[0]); err != nil || string(text) != "what was measured" {
		t.Errorf("%s, %v", text, err)
	}
}

// TestOutputIsTriedFirst has commands fail by the file that they would write before they do their work.
func TestOutputIsTriedFirst(t *testing.T) {
	t.Chdir(t.TempDir())
	testkit.Must(t, os.WriteFile("file", nil, 0o644))
	for _, args := range []string{
		"measure no-such-model --engine openai --base-url http://127.0.0.1:1/v1 -o file/x.json",
		"measure no-such-model --engine openai --base-url http://127.0.0.1:1/v1 --results file/x",
		"simulate no-such-model h100 --rate 1 -o file/x.json", "calibrate -o file/x.toml", "report no-such-model h100 -o file/x.html",
		"validate --live -o file/x.json", "run no.toml -o file/x.json",
	} {
		if got := try(t, strings.Fields(args)...); got.code != 1 || !strings.Contains(got.stderr, "file/x") ||
			strings.Contains(got.stderr, "no-such-model") {
			t.Errorf("%s: exit %d: %s", args, got.code, got.stderr)
		}
	}
}
