//go:build unix

package worker_test

import (
	"context"
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmprof/analytic/operator"
	"llmprof/internal/testkit"
	"llmprof/measure/worker"
)

// start runs this binary as a worker.
func start(t *testing.T, mode string, limits worker.Limits) (*worker.Worker, error) {
	t.Helper()
	self, err := os.Executable()
	testkit.Must(t, err)
	w, err := worker.Start(t.Context(), worker.Spec{
		Command: []string{self}, Env: []string{modeKey + "=" + mode}, Limits: limits,
	})
	if err == nil {
		t.Cleanup(func() { w.Close() })
	}
	return w, err
}

func started(t *testing.T, mode string, limits worker.Limits) *worker.Worker {
	t.Helper()
	w, err := start(t, mode, limits)
	testkit.Must(t, err)
	return w
}

// run makes passes of decode and counts those that were handed on.
func run(t *testing.T, w *worker.Worker, passes int) (handed int, err error) {
	t.Helper()
	_, err = w.Run(t.Context(), worker.Run{Phase: worker.Decode, Passes: passes}, func(p worker.Pass) {
		if p.Index != handed || len(p.Steps) != 2 || len(p.Tokens) != 2 {
			t.Errorf("pass %d of %d steps and %d tokens was handed on in place %d", p.Index, len(p.Steps), len(p.Tokens), handed)
		}
		handed++
	})
	return handed, err
}

func TestWorker(t *testing.T) {
	for _, mode := range []string{"good", "terse"} {
		w := started(t, mode, worker.Limits{})
		ready, err := w.Load(t.Context(), worker.Load{Model: "m"})
		if err != nil || ready.PromptLen != 4 {
			t.Fatalf("load: %+v, %v", ready, err)
		}
		if n, err := run(t, w, 5); n != 5 || err != nil {
			t.Errorf("%s: %d of 5 passes, %v", mode, n, err)
		}
		if err := w.Prepare(t.Context(), worker.Decode); err != nil {
			t.Error(err)
		}
		if size, err := w.Size(t.Context()); err != nil || size.KVBytes != 8 || size.PeakBytes != nil {
			t.Errorf("size: %+v, %v", size, err)
		}
		if traced, err := w.Trace(t.Context(), worker.Trace{File: "f"}); err != nil || traced.File != "f" {
			t.Errorf("trace: %+v, %v", traced, err)
		}
		if seen, err := w.Bench(t.Context(), worker.Bench{Kind: "gemm"}); err != nil || len(seen.Seconds) != 2 || !seen.Cold {
			t.Errorf("bench: %+v, %v", seen, err)
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
		if _, err := w.Size(t.Context()); err == nil {
			t.Error("a closed worker answers")
		}
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestStop(t *testing.T) {
	w := started(t, "good", worker.Limits{})
	seen := 0
	done, err := w.Run(t.Context(), worker.Run{Phase: worker.Request, Seconds: 600}, func(worker.Pass) {
		if seen++; seen == 3 {
			if err := w.Stop(); err != nil {
				t.Error(err)
			}
		}
	})
	if err != nil || done.Passes != seen || seen < 3 {
		t.Fatalf("%d passes seen, done %+v, %v", seen, done, err)
	}
}

// The two passes that were finished before the worker went wrong are never lost.
func TestGoesWrongInARun(t *testing.T) {
	tests := map[string]struct {
		kind any
		says string
	}{
		"crash":     {new(*worker.Crash), "about to crash"},
		"killed":    {new(*worker.Crash), "signal: killed; where nobody killed it, the system had no memory left"},
		"torn":      {new(*worker.Crash), "exit status 7"},
		"hang":      {new(*worker.Hang), "said nothing for 300ms during run decode"},
		"garbage":   {new(*worker.Violation), "Loading checkpoint shards"},
		"huge":      {new(*worker.Violation), "longer than"},
		"nan":       {new(*worker.Violation), "not an event"},
		"backwards": {new(*worker.Violation), "time goes backwards"},
		"shuffled":  {new(*worker.Violation), "step 2 of pass 2 came when 1 was due"},
		"fails":     {new(*worker.Failure), "a kernel failed"},
		"dies":      {new(*worker.Failure), "CUDA error"},
		"lost":      {new(*worker.Failure), "CUDA_ERROR_ECC_UNCORRECTABLE (214); the driver report"},
		"aborts":    {new(*worker.Crash), "what(): CUDA error: unspecified launch failure\n"},
	}
	for mode, test := range tests {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			limits := worker.Limits{Grace: 200 * time.Millisecond}
			if mode == "hang" {
				limits.Silence = 300 * time.Millisecond
			}
			w := started(t, mode, limits)
			n, err := run(t, w, 5)
			if n != 2 {
				t.Errorf("%d passes were handed on, want the 2 that were finished", n)
			}
			if err == nil || !errors.As(err, test.kind) || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("got %v (%T), want a %T that says %q", err, err, test.kind, test.says)
			}
			if mode == "fails" {
				return
			}
			if lost := mode == "lost" || mode == "aborts"; lost != strings.Contains(err.Error(), "Xid") ||
				lost != strings.Contains(err.Error(), "nvidia-smi -q") {
				t.Errorf("%v, want the driver's Xid and what to look at: %v", err, lost)
			}
			if _, again := w.Size(t.Context()); !errors.Is(again, err) {
				t.Errorf("a second command gives %v, want the first error", again)
			}
		})
	}
}

func TestGoesWrongAtTheStart(t *testing.T) {
	tests := map[string]struct {
		kind any
		says string
	}{
		"early": {new(*worker.Crash), "no such library"},
		"mute":  {new(*worker.Hang), "during its start"},
		"old":   {new(*worker.Violation), "the worker speaks protocol 99, this program 1"},
		"rude":  {new(*worker.Violation), "its first word was not hello"},
	}
	for mode, test := range tests {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			limits := worker.Limits{}
			if mode == "mute" {
				limits.Hello = 300 * time.Millisecond
			}
			_, err := start(t, mode, limits)
			if err == nil || !errors.As(err, test.kind) || !strings.Contains(err.Error(), test.says) {
				t.Fatalf("got %v (%T), want a %T that says %q", err, err, test.kind, test.says)
			}
		})
	}
	if _, err := worker.Start(t.Context(), worker.Spec{Command: []string{"/no/such/program"}}); err == nil {
		t.Error("a program that does not exist was started")
	}
}

func TestOutOfMemorySaysWhatWasAsked(t *testing.T) {
	w := started(t, "small", worker.Limits{})
	_, err := w.Load(t.Context(), worker.Load{Model: "llama2-70b", DType: "bf16", Workload: operator.Workload{
		Batch: 32, PromptLen: 4096, GenLen: 128}})
	var failure *worker.Failure
	if !errors.As(err, &failure) || failure.Kind != worker.OutOfMemory {
		t.Fatalf("got %v", err)
	}
	want := "out-of-memory: llama2-70b in bf16, batch 32, prompt 4096, 128 generated: tried to allocate 20 GiB, 3 GiB free"
	if err.Error() != want {
		t.Errorf("got  %s\nwant %s", err, want)
	}
}

func TestCancel(t *testing.T) {
	w := started(t, "hang", worker.Limits{Grace: 200 * time.Millisecond})
	ctx, cancel := context.WithCancelCause(t.Context())
	n := 0
	_, err := w.Run(ctx, worker.Run{Phase: worker.Decode, Passes: 5}, func(worker.Pass) {
		if n++; n == 2 {
			cancel(errors.New("the user has had enough"))
		}
	})
	if n != 2 || err == nil || !strings.Contains(err.Error(), "the user has had enough") {
		t.Fatalf("%d passes, %v", n, err)
	}
	gone(t, w.Hello().PID)
}

func TestStubbornWorkerIsKilled(t *testing.T) {
	w := started(t, "stubborn", worker.Limits{Grace: 100 * time.Millisecond})
	w.Close()
	gone(t, w.Hello().PID)
}

func TestGrandchildDies(t *testing.T) {
	w := started(t, "family", worker.Limits{Grace: 200 * time.Millisecond})
	var found []string
	for range 100 { // the log is another pipe than the one that hello came through
		if found = regexp.MustCompile(`child (\d+)`).FindStringSubmatch(strings.Join(w.Log(), "\n")); found != nil {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if found == nil {
		t.Fatalf("no child in the log %q", w.Log())
	}
	child, _ := strconv.Atoi(found[1])
	w.Close()
	gone(t, w.Hello().PID)
	gone(t, child)
}

// gone waits for a process to be no more, or to be a zombie that its new parent
// has not waited for yet.
func gone(t *testing.T, pid int) {
	t.Helper()
	for range 100 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}

func TestCleanup(t *testing.T) {
	self, err := os.Executable()
	testkit.Must(t, err)
	cleaned := false
	w, err := worker.Start(t.Context(), worker.Spec{
		Command: []string{self}, Env: []string{modeKey + "=good"}, Cleanup: func() { cleaned = true },
	})
	testkit.Must(t, err)
	w.Close()
	if !cleaned {
		t.Error("nothing was cleaned up")
	}
}

func TestRunRefuses(t *testing.T) {
	w := started(t, "good", worker.Limits{})
	for _, r := range []worker.Run{
		{Phase: "training", Passes: 1}, {Phase: worker.Decode}, {Phase: worker.Decode, Passes: -1},
		{Phase: "idle", Passes: 3}, {Phase: worker.Prefill, Seconds: -1},
	} {
		var failure *worker.Failure
		if _, err := w.Run(t.Context(), r, nil); !errors.As(err, &failure) || failure.Kind != worker.Invalid {
			t.Errorf("%+v: %v", r, err)
		}
	}
}
