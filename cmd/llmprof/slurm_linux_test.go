package main

import (
	"fmt"
	"net/http/httptest"
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

// A slurm is a cluster on the loopback: a controller and two nodes of one processor each.
type slurm struct {
	t   *testing.T
	dir string
}

// slurmConf is the configuration of the cluster. A node that is killed is missed after ten seconds.
const slurmConf = `ClusterName=test
SlurmctldHost=%[1]s(127.0.0.1)
SlurmctldPort=26817
AuthType=auth/munge
AuthInfo=socket=%[2]s/munge.socket
CredType=cred/munge
SlurmUser=root
StateSaveLocation=%[2]s/state
SlurmdSpoolDir=%[2]s/spool-%%n
SlurmctldPidFile=%[2]s/ctld.pid
SlurmdPidFile=%[2]s/d-%%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
ReturnToService=2
SlurmdTimeout=10
KillWait=1
MpiDefault=none
SlurmctldLogFile=%[2]s/ctld.log
SlurmdLogFile=%[2]s/d-%%n.log
NodeName=n1 NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=27001 CPUs=1
NodeName=n2 NodeHostname=%[1]s NodeAddr=127.0.0.1 Port=27002 CPUs=1
PartitionName=p Nodes=n1,n2 Default=YES State=UP MaxTime=INFINITE
`

// startSlurm starts a real Slurm. LLMPROF_SLURM=required makes its absence a failure.
func startSlurm(t *testing.T) *slurm {
	t.Helper()
	skip := t.Skip
	if os.Getenv("LLMPROF_SLURM") == "required" {
		skip = t.Fatal
	}
	for _, program := range []string{"munged", "slurmctld", "slurmd", "sbatch", "squeue", "scontrol"} {
		if _, err := exec.LookPath(program); err != nil {
			skip("no real Slurm is tried: " + program + " is not here (Debian: apt-get install slurm-wlm munge)")
		}
	}
	if os.Getuid() != 0 {
		skip("no real Slurm is tried: its daemons need root")
	}
	dir, err := os.MkdirTemp("", "slurm") //nolint:usetesting // the path of a socket is short
	testkit.Must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	host, err := os.Hostname()
	testkit.Must(t, err)
	s := &slurm{t, dir}
	short, _, _ := strings.Cut(host, ".")
	s.write("slurm.conf", fmt.Sprintf(slurmConf, short, dir), 0o644)
	s.write("munge.key", strings.Repeat("llmprof test key", 8), 0o400)
	testkit.Must(t, os.MkdirAll(filepath.Join(dir, "state"), 0o755))
	t.Setenv("SLURM_CONF", filepath.Join(dir, "slurm.conf"))
	t.Cleanup(s.stop)
	s.must("munged", "--force", "--key-file", dir+"/munge.key", "--socket", dir+"/munge.socket", "--pid-file", dir+"/munged.pid", "--log-file",
		dir+"/munged.log", "--seed-file", dir+"/munge.seed")
	s.must("slurmctld")
	s.must("slurmd", "-N", "n1")
	s.must("slurmd", "-N", "n2")
	for range 100 {
		if out, _ := exec.Command("sinfo", "--noheader", "--states=idle", "--format=%D").Output(); strings.TrimSpace(string(out)) == "2" {
			return s
		}
		time.Sleep(200 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(dir, "ctld.log"))
	t.Fatalf("the nodes of Slurm did not come up:\n%s", log)
	return nil
}

func (s *slurm) write(name, text string, mode os.FileMode) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), mode); err != nil {
		s.t.Fatal(err)
	}
}

func (s *slurm) must(name string, args ...string) string {
	s.t.Helper()
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		s.t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
	return string(out)
}

// stop ends what runs and the daemons.
func (s *slurm) stop() {
	_ = exec.Command("scancel", "--state=PENDING", "--user=root").Run()
	_ = exec.Command("scancel", "--state=RUNNING", "--user=root").Run()
	for _, name := range []string{"ctld", "d-n1", "d-n2", "munged"} {
		s.kill(name, syscall.SIGTERM)
	}
	for _, node := range []string{"n1", "n2"} {
		s.killTasks(node)
	}
}

// kill sends a signal to a daemon.
func (s *slurm) kill(name string, signal syscall.Signal) {
	text, err := os.ReadFile(filepath.Join(s.dir, name+".pid"))
	if err != nil {
		return
	}
	if pid, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && pid > 1 {
		_ = syscall.Kill(pid, signal)
	}
}

// killTasks kills what runs on a node: tasks, and the daemons that start them.
func (s *slurm) killTasks(node string) {
	for _, pid := range serverProcesses(s.t, "SLURM_CONF="+filepath.Join(s.dir, "slurm.conf")) {
		environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if !strings.Contains(string(environment), "SLURMD_NODENAME="+node+"\x00") {
			continue
		}
		stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_ = syscall.Kill(pid, syscall.SIGKILL)
		for line := range strings.Lines(string(stat)) {
			if text, ok := strings.CutPrefix(line, "PPid:"); ok {
				parent, _ := strconv.Atoi(strings.TrimSpace(text))
				comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", parent))
				if strings.HasPrefix(string(comm), "slurmstepd") {
					_ = syscall.Kill(parent, syscall.SIGKILL)
				}
			}
		}
	}
}

// suspendTask suspends a task of a node, so that it cannot end before its node is killed.
func (s *slurm) suspendTask(node string) bool {
	for _, pid := range serverProcesses(s.t, "SLURMD_NODENAME="+node+"\x00") {
		environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if !strings.Contains(string(environment), "SLURM_ARRAY_TASK_ID=") || syscall.Kill(pid, syscall.SIGSTOP) != nil {
			continue
		}
		for range 200 { // a signal takes effect a little later
			stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			_, after, _ := strings.Cut(string(stat), ") ")
			switch {
			case strings.HasPrefix(after, "T"):
				return true
			case after == "" || strings.HasPrefix(after, "Z"):
				return false // it ended before
			}
			time.Sleep(time.Millisecond)
		}
	}
	return false
}

// killNode kills a node as a power cut does.
func (s *slurm) killNode(node string) {
	s.kill("d-"+node, syscall.SIGKILL)
	s.killTasks(node)
}

// program runs the command, and returns what it wrote.
func (s *slurm) program(while func(), args ...string) (stdout, stderr string) {
	s.t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var out, errs strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	if while != nil {
		while()
	}
	if err := cmd.Wait(); err != nil {
		s.t.Fatalf("%v: %v\n%s\n%s", args, err, errs.String(), s.must("squeue"))
	}
	return out.String(), errs.String()
}

// On a real Slurm the shards of a sweep, a simulation and an experiment are the whole, though
// a node is killed while it has one of them.
func TestSlurm(t *testing.T) {
	if os.Getenv("LLMPROF_SLURM") == "" {
		testkit.Long(t, "a Slurm of two nodes, one of which is killed")
	}
	s := startSlurm(t)
	t.Chdir(t.TempDir())
	t.Run("simulate", s.simulates)
	t.Run("run", s.runs)
	t.Run("sweep", s.sweeps) // the last one: it kills a node
}

func (s *slurm) simulates(t *testing.T) {
	s.t = t
	args := []string{"simulate", "--model", "llama3.1-8b", "--gpu", "h200", "--rate", "1,4,16", "--requests", "100", "--format", "json"}
	s.program(nil, append(args, "-o", "whole.json", "--records", "whole.jsonl")...)
	s.program(nil, append(args, "-o", "shards.json", "--records", "shards.jsonl", "--submit", "slurm")...)
	same(t, "whole.json", "shards.json")
	same(t, "whole.jsonl", "shards.jsonl")
}

func same(t *testing.T, a, b string) {
	t.Helper()
	x, err := os.ReadFile(a)
	testkit.Must(t, err)
	y, err := os.ReadFile(b)
	testkit.Must(t, err)
	if string(x) != string(y) || len(x) == 0 {
		t.Errorf("%s has %d bytes, %s has %d, and they differ", a, len(x), b, len(y))
	}
}

func (s *slurm) runs(t *testing.T) {
	s.t = t
	server := httptest.NewServer(&standIn{})
	defer server.Close()
	text := fmt.Sprintf("model = \"llama3.2-1b\"\nengine = \"openai\"\nbase_url = %q\nprompt_len = 12\nrequests = 4\nenergy = false\ngrid "+
		"= {gen_len = [3, 4, 5]}\n", server.URL)
	testkit.Must(t, os.WriteFile("loads.toml", []byte(text), 0o644))
	out, errs := s.program(nil, "run", "loads.toml", "--results", "here", "--submit", "slurm", "--format", "csv")
	if n := strings.Count(out, "\n"); n != 4 {
		t.Errorf("%d lines of a header and 3 results:\n%s\n%s", n, out, errs)
	}
	again, errs := s.program(nil, "run", "loads.toml", "--results", "here", "--submit", "slurm", "--format", "csv")
	if again != out || strings.Contains(errs, "job ") {
		t.Errorf("what has its results is submitted again: %s\n%s", errs, again)
	}
}

func (s *slurm) sweeps(t *testing.T) {
	s.t = t
	args := []string{"sweep", "--model", "deepseek-v3", "--gpu", "h200", "--tp", "8", "--batch", "1..512", "--prompt-len", "1024..1100"}
	s.program(nil, append(args, "-o", "whole.csv")...)
	_, errs := s.program(func() {
		for range 12000 { // until the other node has a shard as well
			time.Sleep(5 * time.Millisecond)
			if s.suspendTask("n2") {
				s.killNode("n2")
				return
			}
		}
		t.Error("no shard ran on the second node")
	}, append(args, "-o", "shards.csv", "--submit", "slurm", "--shards", "6")...)
	same(t, "whole.csv", "shards.csv")
	if !strings.Contains(errs, "was lost") || !strings.Contains(errs, "is submitted again") {
		t.Errorf("no shard was lost with its node:\n%s", errs)
	}
	t.Log(errs)
}
