package main

import (
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmprof/internal/testkit"
)

// serverProcesses lists the processes that run with a word in their environment,
// zombies left out.
func serverProcesses(t *testing.T, word string) (pids []int) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	testkit.Must(t, err)
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		environment, err := os.ReadFile(filepath.Join("/proc", e.Name(), "environ"))
		if err == nil && strings.Contains(string(environment), word) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// around is an experiment file of a server that is started around each run, by a
// shell whose child the server is, and the word by which its processes are known.
func around(t *testing.T, start string) (file, word string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	addr := l.Addr().String()
	_ = l.Close()
	word = "LLMPROF_TEST_WORD=" + addr
	command := fmt.Sprintf("%s %s=%s sh -c '%s %s & wait'", word, asServer, addr, start, os.Args[0])
	file = filepath.Join(t.TempDir(), "around.toml")
	text := fmt.Sprintf("model = \"llama3.2-1b\"\nengine = \"openai\"\nbase_url = \"http://%s\"\nengine_cmd = %s\nprompt_len = 12\ngen_len "+
		"= 4\n"+
		"requests = 1000000\nenergy = false\n", addr, quoted(t, command))
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o644))
	t.Cleanup(func() {
		for _, pid := range serverProcesses(t, word) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return file, word
}

// TestServerDiesWithUs ends llmprof in every way while a server that it started runs:
// neither the server nor the shell between is left.
func TestServerDiesWithUs(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGKILL} {
		if signal.Ignored(s) { // below nohup, which the program heeds
			continue
		}
		file, word := around(t, "")
		cmd, _, stderr := program(t, "run", file, "--offline", "--results", filepath.Join(filepath.Dir(file), "results"))
		testkit.Must(t, cmd.Start())
		testkit.Await(t, "the server", func() bool { return len(serverProcesses(t, word)) == 2 })
		time.Sleep(200 * time.Millisecond) // while it answers requests
		testkit.Must(t, cmd.Process.Signal(s))
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); s != syscall.SIGKILL && code != 128+int(s) {
			t.Errorf("%v: exit %d: %s", s, code, stderr)
		}
		for range 500 {
			if len(serverProcesses(t, word)) == 0 {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		if left := serverProcesses(t, word); len(left) > 0 {
			t.Errorf("%v: processes %v are left", s, left)
		}
	}
}

// TestLeftServerIsNamed checks that a server that got away, since it is in a session
// of its own, is found by the next run, which says how to end it.
func TestLeftServerIsNamed(t *testing.T) {
	file, word := around(t, "setsid")
	args := []string{"run", file, "--offline", "--results", filepath.Join(filepath.Dir(file), "results")}
	cmd, _, _ := program(t, args...)
	testkit.Must(t, cmd.Start())
	testkit.Await(t, "the server", func() bool { return len(serverProcesses(t, word)) >= 2 })
	time.Sleep(200 * time.Millisecond)
	testkit.Must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	var left []int
	testkit.Await(t, "the shell's end", func() bool { left = serverProcesses(t, word); return len(left) == 1 })
	again, _, stderr := program(t, args...)
	_ = again.Run()
	for _, want := range []string{
		fmt.Sprintf("process %d (%s) of an llmprof that has ended (process %d) still runs; end it with: kill -- -%d", left[0], os.Args[0],
			cmd.Process.Pid, left[0]),
		"ended in the middle of a run here", "a server answers there before this one is started",
	} {
		if !strings.Contains(stderr.String(), want) {
			t.Errorf("no %q in %s", want, stderr)
		}
	}
	if now := serverProcesses(t, word); !slices.Equal(now, left) {
		t.Errorf("processes %v, and %v after the second run: it is not ours to end", left, now)
	}
}
