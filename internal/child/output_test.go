//go:build unix

package child

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmprof/internal/testkit"
)

// A program that hangs, never stops printing, or leaves a child that holds its pipes is not waited for.
func TestOutput(t *testing.T) {
	for script, test := range map[string]struct {
		out, err string
	}{
		"echo a; echo b >&2":                 {"a\n", ""},
		"echo a; sleep 60 &":                 {"a\n", ""},
		"echo a; sleep 60":                   {"a\n", "it did not end within 500ms"},
		"trap '' TERM INT; sleep 60; echo a": {"", "it did not end within 500ms"},
		"exec cat /dev/zero":                 {"", "it printed more than"},
		"exec cat /dev/zero >&2":             {"", "it printed more than"},
		"echo a; exit 3":                     {"a\n", "exit status 3"},
	} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			limit := 500 * time.Millisecond
			if !strings.Contains(script, "60") {
				limit = time.Minute
			}
			begun := time.Now()
			out, _, err := Output(t.Context(), limit, "sh", "-c", script)
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("%v, want %q", err, test.err)
			}
			if test.out != "" && string(out) != test.out || len(out) > mostOutput {
				t.Errorf("%d bytes: %.40q", len(out), out)
			}
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(100*time.Millisecond, cancel)
	begun := time.Now()
	if _, _, err := Output(ctx, time.Minute, "sh", "-c", "sleep 60 & wait"); !errors.Is(err, context.Canceled) ||
		time.Since(begun) > 10*time.Second {
		t.Errorf("cancelled: %v after %v", err, time.Since(begun))
	}
	file := filepath.Join(t.TempDir(), "pid")
	if _, _, err := Output(t.Context(), 500*time.Millisecond, "sh", "-c", "sleep 60 & echo $! > "+file+"; wait"); err == nil {
		t.Error("it ended within 500ms")
	}
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	testkit.Must(t, err)
	for end := time.Now().Add(10 * time.Second); syscall.Kill(pid, 0) == nil; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the child of a program that was ended runs on")
		}
	}
	if _, _, err := Output(t.Context(), time.Minute, "no-such-program-here"); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
}
