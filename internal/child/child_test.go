//go:build linux

package child_test

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmprof/internal/child"
)

// sh starts a shell with a script.
func sh(t *testing.T, script string, spec child.Spec) *child.Child {
	t.Helper()
	spec.Command = []string{"/bin/sh", "-c", script}
	if spec.Grace == 0 {
		spec.Grace = 5 * time.Second
	}
	c, err := child.Start(spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.End(t.Context()) })
	return c
}

// Both outputs are the log, in order.
func TestLog(t *testing.T) {
	cleaned := false
	c := sh(t, `i=0; while [ $i -lt 100 ]; do echo line $i; i=$((i+1)); done; echo "$WORD" >&2; echo end; echo; exit 3`, child.Spec{
		Env: []string{"WORD=err"}, Cleanup: func() { cleaned = true },
	})
	<-c.Ended()
	log := c.Log()
	if c.How() != "exit status 3" || !cleaned || len(log) != 60 ||
		!slices.Equal(log[18:23], []string{"line 18", "line 19", "[... 43 lines ...]", "line 63", "line 64"}) ||
		!slices.Equal(log[56:], []string{"line 98", "line 99", "err", "end"}) {
		t.Errorf("%s, cleaned %v, log %q", c.How(), cleaned, log)
	}
	if c.PIDs() != nil {
		t.Errorf("processes %v of a program that has ended", c.PIDs())
	}
	if got := child.Quote(log[58:]); got != "; the end of its log:\n  err\n  end" || child.Quote(nil) != "; its log is empty" {
		t.Errorf("quoted %q", got)
	}
}

// Of a dump its first lines are kept as well as its last: there the reason stands, behind
// whatever the program said before, and the end is registers or stacks of no interest.
func TestDump(t *testing.T) {
	many := func(prefix string, n int) string {
		return fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo '%s' $i; i=$((i+1)); done; ", n, prefix)
	}
	for name, c := range map[string]struct {
		script string
		want   []string // in this order
		never  string
	}{
		"Go": {many("chatter", 70) + "echo 'SIGSEGV: segmentation violation'; echo PC=0x1; " + many("register", 300),
			[]string{"SIGSEGV: ", "PC=0x1", "register 0", "[... 242 lines ...]", "register 299"}, "chatter"},
		"short": {many("chatter", 70) + "echo 'panic: no'; " + many("frame", 5), []string{"chatter 69", "panic: no", "frame 0", "frame 4"},
			"[..."},
		"in parts": {"printf 'pan'; sleep 0.1; echo 'ic: broken'; " + many("frame", 100), []string{"panic: broken", "frame 0", "frame 99"}, ""},
		"two": {"echo 'Traceback (most recent call last):'; " + many("first", 50) + "echo 'Fatal Python error: Aborted'; " + many(
			"second", 90), []string{"Fatal Python error: Aborted", "second 0", "[...", "second 89"}, "first"},
		"no end": {many("chatter", 70) + "printf 'Killed'", []string{"chatter 0", "chatter 69", "Killed"}, ""},
		"long":   {"head -c 3000000 /dev/zero | tr '\\0' x; echo; echo done", []string{"xxx...", "done"}, strings.Repeat("x", 401)},
	} {
		t.Run(name, func(t *testing.T) {
			p := sh(t, c.script, child.Spec{})
			<-p.Ended()
			text := strings.Join(p.Log(), "\n")
			at := 0
			for _, want := range c.want {
				i := strings.Index(text[at:], want)
				if i < 0 {
					t.Fatalf("no %q in its place in\n%s", want, text)
				}
				at += i
			}
			if c.never != "" && strings.Contains(text, c.never) {
				t.Errorf("%q in\n%s", c.never, text)
			}
		})
	}
}

// An output that is read by itself is not in the log, and an input is a pipe.
func TestPipes(t *testing.T) {
	var got string
	c := sh(t, `read x; echo "out $x"; echo log >&2`, child.Spec{Input: true, Output: func(r io.Reader) {
		text, _ := io.ReadAll(r)
		got = string(text)
	}})
	fmt.Fprintln(c.Input, "hello")
	<-c.Ended()
	if got != "out hello\n" || !slices.Equal(c.Log(), []string{"log"}) || c.How() != "exit status 0" {
		t.Errorf("%q, log %q, %s", got, c.Log(), c.How())
	}
	c = sh(t, `read x || echo empty`, child.Spec{})
	<-c.Ended()
	if !slices.Equal(c.Log(), []string{"empty"}) {
		t.Errorf("without an input: %q", c.Log())
	}
}

// All of a family is found and ended, and killed where it does not want to end.
func TestFamily(t *testing.T) {
	c := sh(t, `trap '' TERM; sleep 1000 & sh -c 'sleep 1001; true' & echo ready; wait`, child.Spec{Grace: 50 * time.Millisecond})
	for range 200 {
		if len(c.Log()) > 0 && len(c.PIDs()) == 4 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	pids := c.PIDs()
	if len(pids) != 4 || !slices.Contains(pids, c.PID()) {
		t.Fatalf("processes %v, want the shell %d and its three", pids, c.PID())
	}
	c.End(t.Context())
	if c.How() != "signal: killed" {
		t.Errorf("it ignores SIGTERM, and ended with %s", c.How())
	}
	for _, pid := range pids {
		for tries := 0; alive(pid); tries++ {
			if tries == 200 {
				t.Fatalf("process %d still runs", pid)
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	c.End(t.Context())
}

// alive reports whether a process runs, and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && strings.Contains(string(stat), ") Z ") {
		return false
	}
	return syscall.Kill(pid, 0) == nil
}

func TestCannotStart(t *testing.T) {
	for want, spec := range map[string]child.Spec{
		"no command":                       {},
		"/no/such/thing cannot be started": {Command: []string{"/no/such/thing"}},
	} {
		if _, err := child.Start(spec); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", spec, err, want)
		}
	}
}
