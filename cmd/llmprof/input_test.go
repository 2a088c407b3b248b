package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// TestHugeConfig checks that a file of 100 MB is refused without being read.
func TestHugeConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	f, err := os.Create(path)
	testkit.Must(t, err)
	testkit.Must(t, f.Truncate(100e6))
	testkit.Must(t, f.Close())
	got := try(t, "estimate", "--gpu", "h100", "--model", path)
	if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "is larger than") {
		t.Errorf("exit %d, %q, %q", got.code, got.stdout, got.stderr)
	}
	var out, errs bytes.Buffer
	endless := bytes.NewReader(bytes.Repeat([]byte(" "), 100e6))
	if code := run([]string{"models", "check", "-"}, endless, &out, &errs, os.Getenv); code != 1 {
		t.Errorf("standard input: exit %d: %s", code, out.String())
	}
}

// TestInterrupt checks that Ctrl-C ends a command that waits for the network, and
// that no file is left of it.
func TestInterrupt(t *testing.T) {
	hub := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		self, err := os.FindProcess(os.Getpid())
		if err != nil || self.Signal(os.Interrupt) != nil {
			return // no such signal here
		}
		<-r.Context().Done()
	}))
	defer hub.Close()
	dir := t.TempDir()
	env := func(name string) string { return map[string]string{"HOME": dir, "HF_ENDPOINT": hub.URL}[name] }
	var out, errs bytes.Buffer
	file := filepath.Join(dir, "out.txt")
	code := run([]string{"estimate", "--model", "tiny/slow", "--gpu", "h100", "-o", file}, nil, &out, &errs, env)
	if code != 130 || !strings.Contains(errs.String(), "interrupted") {
		t.Errorf("exit %d: %s", code, errs.String())
	}
	if _, err := os.Stat(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s: %v", file, err)
	}
}

// FuzzEstimate checks that no command line and no config.json panics, and that an estimate is printed only where there is one: it ends
// with 0 where it is possible, and else with its verdict.
func FuzzEstimate(f *testing.F) {
	f.Add(tinyLlama, "h100", "fp8", 1, 64, 8, 1)
	f.Add(`{"model_type": "mamba2"}`, "t4", "", 0, -1, 1<<40, 3)
	f.Fuzz(func(t *testing.T, config, gpu, weights string, batch, prompt, gen, tp int) {
		path := filepath.Join(t.TempDir(), "config.json")
		testkit.Must(t, os.WriteFile(path, []byte(config), 0o644))
		got := try(t, "estimate", "--format=json", "--model="+path, "--gpu="+gpu, "--weights="+weights,
			"--batch="+number(batch), "--prompt-len="+number(prompt), "--gen-len="+number(gen), "--tp="+number(tp))
		var printed struct {
			Verdict struct {
				Possible bool
				Text     string
			}
		}
		if got.stdout == "" {
			if got.code == 0 || got.stderr == "" {
				t.Errorf("exit %d without an estimate, and with %q", got.code, got.stderr)
			}
			return
		}
		testkit.Must(t, json.Unmarshal([]byte(got.stdout), &printed))
		v := &printed.Verdict
		if v.Possible != (got.code == 0) || !v.Possible && (v.Text == "" || !strings.Contains(got.stderr, v.Text)) {
			t.Errorf("exit %d with verdict %+v and %q", got.code, *v, got.stderr)
		}
	})
}

func number(n int) string {
	b, _ := json.Marshal(n) // of an int it cannot fail
	return string(b)
}

// TestWriteFile checks that a file is replaced whole, keeps its mode, and that a
// link stays one.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	path, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	testkit.Must(t, os.WriteFile(path, []byte("a longer old content"), 0o640))
	if err := os.Symlink(path, link); err != nil {
		t.Skip("no symbolic links:", err)
	}
	testkit.Must(t, writeFile(link, []byte("new")))
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "new" {
		t.Errorf("%q, %v", data, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if target, err := os.Readlink(link); err != nil || target != path {
		t.Errorf("the link is to %q, %v", target, err)
	}
}
