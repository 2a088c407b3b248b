//go:build linux

package openai

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The test binary is its own server: LLMPROF_TEST_SERVER says how it behaves.
const modeKey, addrKey = "LLMPROF_TEST_SERVER", "LLMPROF_TEST_ADDR"

func TestMain(m *testing.M) {
	if mode := os.Getenv(modeKey); mode != "" {
		os.Exit(behave(mode))
	}
	os.Exit(m.Run())
}

func behave(mode string) int {
	fmt.Fprintln(os.Stderr, "server in mode", mode)
	switch mode {
	case "dies":
		fmt.Println("Loading weights")
		fmt.Fprintln(os.Stderr, "torch.OutOfMemoryError: CUDA out of memory")
		return 3
	case "hangs":
		time.Sleep(time.Hour)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	case "family":
		child := exec.Command("sleep", "1000")
		if child.Start() != nil {
			return 4
		}
	}
	l, err := net.Listen("tcp", os.Getenv(addrKey))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 5
	}
	ready := time.Now().Add(300 * time.Millisecond)
	http.HandleFunc("/v1/models", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[]}`) })
	http.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) {
		if time.Now().Before(ready) {
			http.Error(w, "loading", http.StatusServiceUnavailable)
		}
	})
	http.HandleFunc("/v1/chat/completions", func(w http.ResponseWriter, _ *http.Request) {
		stream(w, role)
		for range 3 {
			time.Sleep(time.Millisecond)
			stream(w, content("x"))
		}
		stream(w, stop+counts+done)
	})
	fmt.Fprintln(os.Stderr, http.Serve(l, nil))
	return 6
}

// spec starts this binary as a server, on a port that was free a moment ago.
func spec(t *testing.T, mode string) (ServerSpec, Options) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	addr := free(t)
	o := options("http://" + addr)
	ready, err := Answers(o)
	if err != nil {
		t.Fatal(err)
	}
	return ServerSpec{
		Command: fmt.Sprintf("%s=%s '%s'", modeKey, mode, self), Env: []string{addrKey + "=" + addr},
		Ready: ready, Timeout: 20 * time.Second, Grace: 5 * time.Second,
	}, o
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

func TestServer(t *testing.T) {
	spec, o := spec(t, "family")
	s, err := StartServer(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	pids := s.PIDs()
	if len(pids) != 2 || !slices.Contains(pids, s.process.PID()) {
		t.Errorf("processes %v, want the server and its child", pids)
	}
	if _, err := StartServer(t.Context(), spec); !says(err, "a server answers there before") {
		t.Errorf("a second server on the port: %v", err)
	}
	got, err := Run(t.Context(), o, nil)
	if err != nil || got.Completed != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := s.Died(); err != nil {
		t.Error(err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	for _, pid := range pids {
		gone(t, pid)
	}
	if err := errors.Join(s.Died(), s.Stop()); err != nil {
		t.Errorf("a server that was stopped: %v", err)
	}
	if left := s.PIDs(); left != nil {
		t.Errorf("processes %v of a server that was stopped", left)
	}
}

// gone waits for a process to be no more, or a zombie.
func gone(t *testing.T, pid int) {
	t.Helper()
	for range 200 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if syscall.Kill(pid, 0) != nil || err == nil && strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Errorf("process %d still runs", pid)
}

func TestServerThatDoesNotStart(t *testing.T) {
	tests := map[string][]string{
		"dies":  {"ended before it was ready: exit status 3", "the end of its log:", "Loading weights", "CUDA out of memory"},
		"hangs": {"was not ready within 1s", "connection refused", "server in mode hangs"},
	}
	for mode, want := range tests {
		spec, _ := spec(t, mode)
		if mode == "hangs" {
			spec.Timeout = time.Second
		}
		if s, err := StartServer(t.Context(), spec); s != nil || !says(err, want...) {
			t.Errorf("%s: got %v, want %q", mode, err, want)
		}
	}
	spec, _ := spec(t, "hangs")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(200*time.Millisecond, func() { cancel(errors.New("enough")) })
	if _, err := StartServer(ctx, spec); !says(err, "before it was ready: enough") {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := StartServer(t.Context(), ServerSpec{Command: "x"}); !says(err, "nothing says when the server is ready") {
		t.Error(err)
	}
}

func TestStubbornServerIsKilled(t *testing.T) {
	spec, _ := spec(t, "stubborn")
	spec.Grace = 100 * time.Millisecond
	s, err := StartServer(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	pid := s.process.PID()
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
	gone(t, pid)
}

// A server that is killed in the middle of a run fails what was under way and
// what comes after. What was finished stays.
func TestServerIsKilled(t *testing.T) {
	spec, o := spec(t, "good")
	s, err := StartServer(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	o.Requests = 40
	got, err := Run(t.Context(), o, func(done, _ int) {
		if done == 10 {
			syscall.Kill(s.process.PID(), syscall.SIGKILL)
			<-s.process.Ended()
		}
	})
	if err != nil || got.Requests != 40 || got.Completed < 10 || got.Completed > 12 {
		t.Errorf("%d completed, %v, %v", got.Completed, got.Failures, err)
	}
	if got.Failures[Refused] < 26 {
		t.Errorf("failures %v", got.Failures)
	}
	if err := s.Stop(); !says(err, "ended by itself: signal: killed", "no memory left", "server in mode good") {
		t.Error(err)
	}
}

func TestSplit(t *testing.T) {
	env, command, err := split(`CUDA_VISIBLE_DEVICES=0 A_B="c d" vllm serve 'my model' --flag=x=y --port\ 8000 ""`)
	if err != nil || !slices.Equal(env, []string{"CUDA_VISIBLE_DEVICES=0", "A_B=c d"}) ||
		!slices.Equal(command, []string{"vllm", "serve", "my model", "--flag=x=y", "--port 8000", ""}) {
		t.Errorf("%q, %q, %v", env, command, err)
	}
	for line, want := range map[string]string{
		"": "names no program", "  # all comment": "names no program", "A=b": "names no program",
		`vllm "serve`: "EOF found when expecting closing quote", "vllm serve m > log": `the word ">"`, "a && b": "write sh -c",
	} {
		if _, _, err := split(line); !says(err, want) {
			t.Errorf("%q: %v, want %q", line, err, want)
		}
	}
	if _, err := StartServer(t.Context(), ServerSpec{
		Command: "/no/such/program", Ready: func(context.Context) error { return errors.New("no") },
	}); !says(err, "/no/such/program cannot be started") {
		t.Error(err)
	}
}

// Whatever is written for a command, it is a program with its words, or an error.
func FuzzSplit(f *testing.F) {
	for _, seed := range []string{`A=b vllm serve 'my model' "--x"`, `a\ b # c`, `"`, "A==b=", "x |", "\x00"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, line string) {
		env, command, err := split(line)
		if err == nil && (len(command) == 0 || assignment().MatchString(command[0])) {
			t.Errorf("%q: %q, %q", line, env, command)
		}
	})
}
