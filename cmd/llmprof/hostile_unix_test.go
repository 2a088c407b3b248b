//go:build unix

package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// hostile are texts that take parsers gigabytes, or forever, by the ends of the
// names of their files.
func hostile(t *testing.T) map[string]string {
	t.Helper()
	many := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	twice := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	whole := wholeResult(t)
	return map[string]string{
		"list.toml": "a = " + twice(100_000, "[", "", "]"), "open.toml": "a = " + strings.Repeat("[", 200_000),
		"table.toml":  "a = " + twice(50_000, "{a=", "1", "}"),
		"dotted.toml": "a" + strings.Repeat(".a", 100_000) + " = 1", "header.toml": "[a" + strings.Repeat(".a", 100_000) + "]",
		"string.toml": `a = ["""x"""", ` + strings.Repeat("[", 100_000),
		"keys.toml":   many(4000, "unknown%d = 1\n"), "tables.toml": strings.Repeat("[[points]]\nbatch = 1\n", 40_000),
		"dots.toml": many(1500, "k%d"+strings.Repeat(".a", 60)+" = 1\n"),
		"long.toml": "a = {" + many(4000, "k%d = 1, ") + "}", "gpus.toml": many(100_000, "[gpu.g%d]\n"),
		"list.yaml": "a: " + strings.Repeat("[", 200_000), "both.yaml": "a: " + twice(100_000, "[", "", "]"),
		"table.yaml":  twice(40_000, "{a: ", "1", "}"),
		"dashes.yaml": strings.Repeat("- ", 100_000) + "a", "keys.yaml": many(4000, "unknown%d: 1\n"),
		"tags.yaml": "a: " + strings.Repeat("!a ", 60_000) + "1",
		"flat.yaml": "a: [" + strings.Repeat("1,", 500_000) + "]",
		"aliases.yaml": "a0: &a0 [x]\n" + many(11, "b%d: 1\n") + "a1: &a1 [" + strings.Repeat("*a0,", 5000) + "]\na2: [" + strings.Repeat("*a1,",
			5000) + "]\n",
		"list.json": `{"a":` + twice(100_000, "[", "", "]") + "}", "open.json": `{"a":` + strings.Repeat("[", 200_000),
		"table.json": twice(40_000, `{"a":`, "1", "}"),
		"keys.json":  "{" + many(4000, `"unknown%d":1,`) + `"a":1}`, "numbers.json": `{"a":[` + strings.Repeat("1,", 5_000_000) + "1]}",
		"reasons.json":  strings.Replace(whole, `"reasons": {`, `"reasons": {`+many(200_000, `"r%d":"x",`)+`"r0":"x",`, 1),
		"samples.json":  strings.Replace(whole, `"samples": [`, `"samples": [`+strings.Repeat("-1,", 4_900_000), 1),
		"warnings.json": strings.Replace(whole, `"warnings": [`, `"warnings": [`+strings.Repeat(`"x",`, 4_900_000)+`1,`, 1),
		"text.json":     strings.Replace(whole, `"warnings": [`, `"warnings": ["`+strings.Repeat("x", 62<<20)+`",1,`, 1),
	}
}

// wholeResult is a result of the project's own.
func wholeResult(t *testing.T) string {
	t.Helper()
	files, err := filepath.Glob("../../experiments/h200-native/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(len(files), err)
	}
	text, err := os.ReadFile(files[0])
	testkit.Must(t, err)
	return string(text)
}

// mostMemory and mostOutput are what it may take to refuse an input.
const (
	mostMemory = 500 << 20
	mostOutput = 30 << 10
)

// forgetPeak frees what the tests before took: on Linux a process that is started begins with the most memory
// that the one that starts it ever had.
func forgetPeak(t *testing.T) {
	t.Helper()
	debug.FreeOSMemory()
	if runtime.GOOS == "linux" {
		if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
			t.Log(err)
		}
	}
}

// TestHostileInput checks that each is refused in bounded memory, with a message of
// bounded length. How long it takes is no test: machines differ.
func TestHostileInput(t *testing.T) {
	dir := t.TempDir()
	texts := hostile(t)
	forgetPeak(t)
	for i, name := range slices.Sorted(maps.Keys(texts)) {
		if i%testkit.Cases(6, 1) > 0 {
			continue
		}
		text := texts[name]
		path := filepath.Join(dir, name)
		testkit.Must(t, os.WriteFile(path, []byte(text), 0o644))
		refused(t, "config", "validate", path)
		switch filepath.Ext(name) {
		case ".toml":
			refused(t, "gpus", "check", path)
			refused(t, "estimate", "--model", "llama2-7b", "--gpu", "h200-sxm-141gb", "--calibration", path)
		case ".json":
			refused(t, "models", "check", path)
			refused(t, "validate", path)
			for range testkit.Cases(0, 1) { // report reads results by the same function
				refused(t, "report", "--model", "llama2-7b", "--gpu", "h200-sxm-141gb", "--results", path, "-o", filepath.Join(dir, "x.html"))
			}
		}
	}
}

// bombs are traces that gzip packed to a thousandth, and some that are as large unpacked: what begins, is repeated, and ends them.
var bombs = map[string][3]string{
	"lens":   {`{"input_lens":[1`, ",1", `],"output_lens":[1]}`},
	"text":   {`{"time":0,"prompt":1,"generated":1,"x":"`, "xxxxxxxx", `"}`},
	"deep":   {`{"time":0,"prompt":1,"generated":1,"x":`, "[[[[[[[[", "}"},
	"blank":  {"time,prompt,generated\n", "\n\n\n\n", "x"},
	"line":   {"time,prompt,generated\n", "11111111", "\n"},
	"burst":  {"time,prompt,generated\n", "1.0,100,10\n", "x"},
	"quote":  {"time,prompt,generated\n\"", "1\n1\n", "\n"},
	"header": {"time,prompt,generated", ",a,a,a,a", "\n"},
	"fields": {`{"time":0,"prompt":1,"generated":1`, `,"":1`, "}"},
	"nested": {`{"serving":{"records":[{}`, ",{}", "]}}"},
	"texts":  {`{"generated_texts":["`, "xxxxxxxx", `"],"input_lens":[1],"output_lens":[1]}`},
	"events": {`{"traceEvents":[{}`, ",{}", "]"},
	"kernel": {`{"traceEvents":[{}`, `,{"ph":"X","cat":"kernel","name":"k","ts":1,"dur":1}`, "]"},
	"marks":  {`{"traceEvents":[{}`, `,{"ph":"X","cat":"user_annotation","name":"k","ts":1,"dur":1}`, "]"},
	"name":   {`{"traceEvents":[{"ph":"X","cat":"kernel","name":"`, "xxxxxxxx", `"}]`},
	"beside": {`{"deviceProperties":[{}`, ",{}", `],"traceEvents":[`},
	"spaces": {"", "        ", "x"},
	"jsonl":  {"", `{"time":0,"prompt":1,"generated":1}` + "\n", "x"},
	"array":  {`[{"time":0,"prompt":1,"generated":1}`, `,{"time":0,"prompt":1,"generated":1}`, "x"},
	"hashes": {"", `{"timestamp":0,"input_length":1,"output_length":1,"hash_ids":[1]}` + "\n", "x"},
}

// millions are those of the bombs that, unpacked, are honest requests up to their end.
var millions = []string{"array", "burst", "hashes", "jsonl"}

// mostTime is how long a processor may take to refuse a file that is far larger unpacked. An idle machine takes less than half of that.
const mostTime = 2 * time.Second

// TestBombs checks that a trace of requests or of kernels that is far larger than its file is refused in bounded memory, and soon.
func TestBombs(t *testing.T) {
	dir := t.TempDir()
	forgetPeak(t)
	for _, name := range slices.Sorted(maps.Keys(bombs)) {
		for ending, size := range map[string]int{".gz": 300 << 20, "": 40 << 20} {
			if testkit.Cases(0, 1) == 0 && (ending == "" || name != "events") || ending == "" && slices.Contains(millions, name) {
				continue
			}
			parts, path := bombs[name], filepath.Join(dir, name+".json"+ending)
			f, err := os.Create(path)
			testkit.Must(t, err)
			to, done := io.Writer(f), f.Close
			if ending != "" {
				z, err := gzip.NewWriterLevel(f, gzip.BestSpeed)
				testkit.Must(t, err)
				to, done = z, func() error { return errors.Join(z.Close(), f.Close()) }
			}
			_, err = io.WriteString(to, parts[0])
			for block := strings.Repeat(parts[1], 1<<16); err == nil && size > 0; size -= len(block) {
				_, err = io.WriteString(to, block)
			}
			_, last := io.WriteString(to, parts[2])
			testkit.Must(t, errors.Join(err, last, done()))
			for _, command := range []string{"simulate", "validate"} {
				took := refused(t, command, "--model=llama3.1-8b", "--gpu=h200", "--trace", path)
				if took > mostTime && (ending != "" || name == "lens") {
					t.Errorf("%s took %v to refuse %s%s", command, took, name, ending)
				}
			}
			testkit.Must(t, os.Remove(path))
		}
	}
}

// TestEndlessInput checks that a device or a pipe is no file.
func TestEndlessInput(t *testing.T) {
	forgetPeak(t)
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	for _, target := range []string{"/dev/zero", pipe} {
		folder := t.TempDir()
		at := func(name string) string {
			path := filepath.Join(folder, name)
			testkit.Must(t, os.Symlink(target, path))
			return path
		}
		at("config.json")
		refused(t, "models", "check", folder)
		refused(t, "config", "validate", at("x.yaml"))
		refused(t, "gpus", "check", at("x.toml"))
		refused(t, "validate", at("x.csv"))
		refused(t, "validate", at("x.json"))
	}
}

// refused runs a command that has to fail.
func refused(t *testing.T, args ...string) (took time.Duration) {
	t.Helper()
	return bounded(t, 1, args...)
}

// bounded runs the command in a process of its own, which has to end with a status. It gives the processor's time.
func bounded(t *testing.T, status int, args ...string) (took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute) // against one that never ends
	defer cancel()
	var out bytes.Buffer
	cmd := command(ctx, t, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	file := filepath.Join(t.TempDir(), "peak")
	cmd.Env = append(os.Environ(), asMeter+"="+file)
	err := cmd.Run()
	line := strings.Join(args[:2], " ") + " " + filepath.Base(args[len(args)-1])
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		t.Fatalf("%s: %v, want exit status %d: %.300s", line, err, status, out.String())
	}
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	memory, err := strconv.ParseInt(string(text), 10, 64)
	testkit.Must(t, err)
	took = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.Logf("%s: %d MB, %v of CPU, %d bytes of output", line, memory>>20, took, out.Len())
	if memory > mostMemory {
		t.Errorf("%s took %d MB", line, memory>>20)
	}
	if out.Len() > mostOutput {
		t.Errorf("%s wrote %d bytes: %.300s", line, out.Len(), out.String())
	}
	return took
}

// asMeter makes this binary run the program and write its peak memory to a file. A process begins with the peak of the one that
// started it, and that of the tests is large.
const asMeter = "LLMPROF_TEST_METER"

func metered(file string) int {
	_ = os.Unsetenv(asMeter)
	self, err := os.Executable()
	if err != nil {
		return 99
	}
	cmd := exec.Command(self, os.Args[1:]...)
	cmd.Args[0], cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Args[0], os.Stdin, os.Stdout, os.Stderr
	_ = cmd.Run() // its status is what counts
	memory := cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss
	if runtime.GOOS == "linux" {
		memory <<= 10
	}
	if os.WriteFile(file, strconv.AppendInt(nil, memory, 10), 0o600) != nil {
		return 99
	}
	return cmd.ProcessState.ExitCode()
}

// command is this program in a process of its own.
func command(ctx context.Context, t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	testkit.Must(t, err)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Args[0] = "llmprof" // testscript.Main goes by this name.
	return cmd
}

// TestSecondSignal checks that a program that is busy ends when it is asked twice.
func TestSecondSignal(t *testing.T) {
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := command(ctx, t, "models", "check", "-")
		in, err := cmd.StdinPipe()
		testkit.Must(t, err)
		testkit.Must(t, cmd.Start())
		if _, err := in.Write(make([]byte, 1<<20)); err != nil { // more than a pipe holds: it reads, and waits for more
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		for again := true; again; {
			_ = cmd.Process.Signal(s)
			select {
			case <-ended:
				again = false
			case <-time.After(20 * time.Millisecond):
			}
		}
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != s {
			t.Errorf("%v twice: %v", s, cmd.ProcessState)
		}
	}
}

// TestFirstSignal checks that a program that computes ends at the first signal, however long it would have gone on.
func TestFirstSignal(t *testing.T) {
	for _, line := range []string{
		"simulate llama3.1-8b h100 --rate 1 --requests 2000000 --preemption swap",
		"sweep llama3.1-8b h100,h200,l4 --rate 1..2000 --prompt-len 1..8192x2 --keep",
		"plan llama3.1-8b --in 512..4096 --out 1..2000 --rate 100 --ttft 500ms --tpot 30ms",
		"simulate llama3.1-8b h100 --concurrency 5000 --requests 1000000 --dp 16",
		"simulate gpt-oss-20b l40s --rate 9 --requests 100000 --prompt-len 8193 --max-num-batched-tokens 1",
		"sweep llama3.1-8b,qwen3-30b-a3b h100,h200,l4 --batch 1..2000 --prompt-len 1..8192x2 --keep",
		"validate --ablate",
	}[:testkit.Cases(2, 7)] {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		cmd := command(ctx, t, strings.Fields(line)...)
		testkit.Must(t, cmd.Start())
		time.Sleep(time.Duration(testkit.Cases(300, 1000)) * time.Millisecond)
		used := processorTime(t, cmd.Process.Pid)
		testkit.Must(t, cmd.Process.Signal(syscall.SIGINT))
		_ = cmd.Wait() // its status is what counts
		after := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() - used
		t.Logf("%s: %v of CPU after the signal", line, after)
		if status := cmd.ProcessState.ExitCode(); status != 130 || after > 2*time.Second {
			t.Errorf("%s: status %d, %v of CPU after the signal; want 130 and at most 0.2 s, were the machine idle", line, status, after)
		}
	}
}

// processorTime is what a process has taken of processors; 0 where the system does not say.
func processorTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, err := strconv.Atoi(fields[11])
	testkit.Must(t, err)
	system, err := strconv.Atoi(fields[12])
	testkit.Must(t, err)
	return time.Duration(user+system) * 10 * time.Millisecond
}

// TestLargestResult reads results of as many requests as a file can have, packed and not, in bounded memory.
func TestLargestResult(t *testing.T) {
	testkit.Long(t, "results of as many requests as a file can have")
	files, err := filepath.Glob("../../experiments/vllm-load/h100/rate16.json.gz")
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	r, err := result.Read(files[0])
	testkit.Must(t, err)
	s := r.Serving
	for s.Steady = nil; len(s.Records) < 180_000; {
		s.Records = append(s.Records, s.Records[:min(len(s.Records), 180_000-len(s.Records))]...)
	}
	s.Requests, s.Completed = len(s.Records), len(s.Records)
	plain, packed := t.TempDir(), t.TempDir()
	file, err := result.Write(plain, r)
	testkit.Must(t, err)
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	t.Logf("%d bytes", len(text))
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err = w.Write(text)
	testkit.Must(t, errors.Join(err, w.Close()))
	testkit.Must(t, os.WriteFile(filepath.Join(packed, filepath.Base(file)+".gz"), b.Bytes(), 0o600))
	if len(text) < result.MaxBytes*8/10 {
		t.Errorf("the result has only %d bytes: want one near the limit", len(text))
	}
	forgetPeak(t)
	for _, folder := range []string{plain, packed} {
		for _, args := range [][]string{{"results", "list", folder}, {"aggregate", "--results", folder, r.ID},
			{"results", "show", r.ID, "--results", folder}} {
			bounded(t, 0, args...)
		}
	}
}
