package submit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"llmprof/internal/child"
	"llmprof/internal/input"
	"llmprof/internal/printable"
)

// A Slurm is a cluster that sbatch submits to.
type Slurm struct {
	Name    string   // name of the job arrays, by which those of earlier runs are found: no other command's have it
	Folder  *Folder  // seen by all nodes under this path
	Command []string // command of a task, which finds its shard in SLURM_ARRAY_TASK_ID
	Options []string // further options of sbatch
}

// callLimit is how long one of Slurm's commands may take: a busy controller lets them wait for minutes.
const callLimit = 5 * time.Minute

func call(ctx context.Context, name string, args ...string) (string, error) {
	out, failed, err := child.Output(ctx, callLimit, name, args...)
	if errors.Is(err, exec.ErrNotFound) {
		return "", fmt.Errorf("%s is not here: submit from a machine that has Slurm's commands", name)
	}
	if err != nil {
		return "", fmt.Errorf("%s: %s", name, strings.TrimSpace(string(failed)+" ("+err.Error()+")"))
	}
	return strings.TrimSpace(string(out)), nil
}

// submit submits an array with a task for each shard, and returns its number.
func (s *Slurm) submit(ctx context.Context, shards []int) (job string, err error) {
	script := filepath.Join(s.Folder.Dir, "job.sh")
	if err := os.WriteFile(script, []byte(s.script()), 0o777); err != nil {
		return "", fmt.Errorf("writing the batch script: %w", err)
	}
	logs := filepath.Join(strings.ReplaceAll(s.Folder.Dir, "%", "%%"), "slurm-%A_%a.log") // sbatch takes %j of a name for the job
	args := append([]string{
		"--parsable", "--job-name=" + s.Name, "--array=" + ranges(shards), "--output=" + logs,
		"--no-requeue", // who watches submits again what is missing
	}, s.Options...)
	job, err = call(ctx, "sbatch", append(args, script)...)
	job, _, _ = strings.Cut(job, ";") // without the cluster's name
	return job, err
}

// script runs one task, on as many processors as Slurm gives it.
func (s *Slurm) script() string {
	words := make([]string, len(s.Command))
	for i, w := range s.Command {
		words[i] = printable.ShellWord(w)
	}
	return "#!/bin/sh\n# Written by llmprof: the array has a task for each shard.\n" +
		"export GOMAXPROCS=\"${SLURM_CPUS_PER_TASK:-${SLURM_CPUS_ON_NODE:-1}}\"\n" +
		"exec " + strings.Join(words, " ") + "\n"
}

// ranges writes numbers as an array of sbatch: 1-4,7.
func ranges(all []int) string {
	var b strings.Builder
	for i := 0; i < len(all); {
		j := i
		for j+1 < len(all) && all[j+1] == all[j]+1 {
			j++
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.Itoa(all[i]))
		if j > i {
			fmt.Fprintf(&b, "-%d", all[j])
		}
		i = j + 1
	}
	return b.String()
}

// queued are the tasks that wait or run, by their shards. A task that is ending is no longer one of them.
func (s *Slurm) queued(ctx context.Context) (running map[int]bool, err error) {
	out, err := call(ctx, "squeue", "--noheader", "--array", "--me", "--name="+s.Name,
		"--states=PENDING,RUNNING,SUSPENDED,CONFIGURING,REQUEUED", "--format=%K %T")
	running = map[int]bool{}
	for line := range strings.Lines(out) {
		task, state, _ := strings.Cut(strings.TrimSpace(line), " ")
		if i, err := strconv.Atoi(task); err == nil {
			running[i] = running[i] || state == "RUNNING"
		}
	}
	return running, err
}

// why is what Slurm says of a task that ended, "" where it says nothing: its accounting, or
// its controller, which forgets a job some minutes after its end.
func (s *Slurm) why(ctx context.Context, job string, shard int) string {
	task := fmt.Sprintf("%s_%d", job, shard)
	if out, err := call(ctx, "sacct", "--noheader", "--parsable2", "--allocations", "--jobs="+task,
		"--format=State,ExitCode,NodeList"); err == nil {
		if state, rest, ok := strings.Cut(out, "|"); ok {
			code, node, _ := strings.Cut(rest, "|")
			return fmt.Sprintf("%s, exit code %s, on %s", state, code, node)
		}
	}
	out, err := call(ctx, "scontrol", "show", "job", task, "--oneliner")
	if err != nil {
		return ""
	}
	fields := map[string]string{}
	for word := range strings.FieldsSeq(out) {
		key, value, _ := strings.Cut(word, "=")
		fields[key] = value
	}
	return fmt.Sprintf("%s, exit code %s, on %s", fields["JobState"], fields["ExitCode"], fields["NodeList"])
}

// log is the last lines that a task wrote.
func (s *Slurm) log(job string, shard int) string {
	file, size, err := input.Open(filepath.Join(s.Folder.Dir, fmt.Sprintf("slurm-%s_%d.log", job, shard)))
	if err != nil {
		return ""
	}
	defer file.Close()
	tail := make([]byte, min(size, 4096))
	n, _ := file.ReadAt(tail, max(size-4096, 0))
	lines := strings.Split(strings.TrimSpace(string(tail[:n])), "\n")
	return strings.Join(lines[max(len(lines)-3, 0):], "\n")
}
