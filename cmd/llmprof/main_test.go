package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"llmprof/internal/testkit"
)

// update reports whether golden files are written anew.
var update = testkit.Update()

// TestScript runs testdata/script/*.txtar: command lines with what they print.
func TestScript(t *testing.T) {
	hub := httptest.NewServer(http.HandlerFunc(serveHub))
	t.Cleanup(hub.Close)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "script"),
		UpdateScripts:       update,
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Cmds:                map[string]func(*testscript.TestScript, bool, []string){"round": round},
		Condition:           condition,
		Setup: func(env *testscript.Env) error {
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Setenv("XDG_CONFIG_HOME", filepath.Join(env.WorkDir, "home", "config"))
			env.Setenv("HF_HUB_CACHE", filepath.Join(env.WorkDir, "home", "hub"))
			env.Setenv("HF_ENDPOINT", hub.URL)
			experiments, err := filepath.Abs("../../experiments")
			env.Setenv("EXPERIMENTS", experiments)
			return errors.Join(err, writeFixtures(filepath.Join(env.WorkDir, "results")), writeSynthetic(filepath.Join(env.WorkDir, "synthetic")))
		},
	})
}

// condition knows [driver]: there is an NVIDIA driver on this machine, and [long]: all cases run.
func condition(name string) (bool, error) {
	switch name {
	case "driver":
		_, err := os.Stat("/proc/driver/nvidia/version")
		return err == nil, nil
	case "long":
		return testkit.Cases(0, 1) > 0, nil
	}
	return false, fmt.Errorf("no condition %q", name)
}

// round rewrites the numbers of a file to six digits, which all machines agree
// on: some fuse multiplication and addition, others do not.
func round(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: round file")
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(sixDigits(ts.ReadFile(args[0]))), 0o644))
}

// sixDigits rounds the numbers of a text.
func sixDigits(text string) string {
	numbers := regexp.MustCompile(`-?\b\d+\.\d+(e[-+]\d+)?\b`)
	return numbers.ReplaceAllStringFunc(text, func(s string) string {
		v, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return s
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	})
}

// serveHub is a hub with one repository.
func serveHub(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/tiny/llama/resolve/main/config.json" {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("X-Repo-Commit", "0123456789abcdef0123456789abcdef01234567")
	w.Header().Set("ETag", `"89abcdef"`)
	_, _ = w.Write([]byte(tinyLlama))
}

const tinyLlama = `{"model_type": "llama", "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 256, "max_position_embeddings": 128}`

// A ran is what a command line did.
type ran struct {
	code           int
	stdout, stderr string
}

// try runs a command line in an environment without a home.
func try(t *testing.T, args ...string) ran {
	t.Helper()
	var out, errs bytes.Buffer
	home := t.TempDir()
	env := func(name string) string {
		return map[string]string{"HOME": home, "HF_HUB_OFFLINE": "1"}[name]
	}
	code := run(args, bytes.NewReader(nil), &out, &errs, env)
	return ran{code, out.String(), errs.String()}
}
