package main

import (
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"llmprof/hardware"
	"llmprof/internal/testkit"
	"llmprof/measure/calibrate"
)

// A paced server takes known times: 40 ms and 20 µs a token for a prompt, and 15 ms for a
// step and 1 ms a sequence.
type paced struct {
	running atomic.Int64
	model   string
	quick   int64        // times as fast; 0 for once
	left    atomic.Int64 // requests until it dies, where it is quick
}

func (p *paced) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprintf(w, `{"object": "list", "data": [{"id": %q, "object": "model", "owned_by": "vllm", "max_model_len": 4096}]}`, p.model)
		case "/version":
			fmt.Fprint(w, `{"version": "0.25.1"}`)
		default:
			http.NotFound(w, r)
		}
		return
	}
	prompt, tokens, ok := askedOf(r)
	if !ok {
		http.Error(w, "no JSON", http.StatusBadRequest)
		return
	}
	if p.quick > 0 && p.left.Add(-1) < 0 {
		panic(http.ErrAbortHandler)
	}
	sleep := func(d time.Duration) { time.Sleep(d / time.Duration(max(p.quick, 1))) }
	p.running.Add(1)
	defer p.running.Add(-1)
	stream(w, prompt, tokens, true, func(i int) {
		if i == 0 {
			sleep(40*time.Millisecond + time.Duration(prompt)*20*time.Microsecond)
			return
		}
		sleep(15*time.Millisecond + time.Duration(p.running.Load())*time.Millisecond)
	})
}

var heldOutLine = regexp.MustCompile(`(TTFT|TPOT), held out: (\d+) points, median error ([0-9.]+) % without this calibration, ([0-9.]+) ` +
	`% with it`)

// A server of known times is predicted by the calibration that it gave, on points that were
// held out, and every command takes the file.
func TestCalibrateServer(t *testing.T) {
	testkit.Long(t, "a calibration of 11 s")
	t.Parallel() // Like the next ones it waits for a server that sleeps.
	file := filepath.Join(t.TempDir(), "mine.toml")
	cmd, _, stderr := program(t, "calibrate", "--engine", "openai", "--base-url", serve(t, &paced{model: "llama3.2-1b"}), "-g", "h200",
		"--offline",
		"--limit", "10s", "--max-batch", "8", "--max-tokens", "2048", "-o", file)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	lines := heldOutLine.FindAllStringSubmatch(stderr.String(), -1)
	if len(lines) != 2 {
		t.Fatalf("%s", stderr)
	}
	for _, l := range lines {
		before, _ := strconv.ParseFloat(l[3], 64)
		after, _ := strconv.ParseFloat(l[4], 64)
		if after > before/3 { // The bound is that of a machine that others use too.
			t.Errorf("%s", l[0])
		}
	}
	text, err := os.ReadFile(file)
	testkit.Must(t, err)
	f, err := hardware.ParseCalibration(file, string(text))
	if err != nil || f.Engine != "vllm" || f.Tools["vllm"] != "0.25.1" || f.Values["host.async_step"].N == 0 || f.GPU != "h200-sxm-141gb" {
		t.Fatalf("%v\n%s", err, text)
	}
	if v := f.Values["host.async_step"].Value; v < 0.012 || v > 0.020 {
		t.Errorf("a step of the host takes %v s, want some 15 ms", v)
	}
	for _, args := range [][]string{
		{"estimate", "llama3.2-1b", "h200", "--engine", "vllm"}, {"validate", "--engine", "vllm", "--gpu", "h200", "--model", "llama3.2-1b"},
		{"simulate", "--model", "llama3.2-1b", "--gpu", "h200", "--engine", "vllm", "--rate", "1", "--requests", "20"},
		{"plan", "llama3.1-8b", "--gpus", "h200", "--engines", "vllm", "--concurrency", "4"},
	} {
		cmd, stdout, stderr := program(t, append(args, "--calibration", file)...)
		if err := cmd.Run(); err != nil || stdout.Len() == 0 {
			t.Errorf("%v: %v\n%s%s", args, err, stdout, stderr)
		}
	}
}

// What cannot be meant, and what is not known, is refused in words before anything is measured.
func TestCalibrateServerRefuses(t *testing.T) {
	known, unknown := serve(t, &paced{model: "llama3.2-1b"}), serve(t, &paced{model: "somebody/unheard-of"})
	file := filepath.Join(t.TempDir(), "mine.toml")
	for want, args := range map[string][]string{
		"give the server's --base-url":            {"-g", "h200"},
		"give the --gpu that the server runs on":  {"--base-url", known},
		`"somebody/unheard-of" is not known here`: {"--base-url", unknown, "-g", "h200"},
		"want from 1 to 1024 requests":            {"--base-url", known, "-g", "h200", "--max-batch", "0"},
		"--served-engine":                         {"--base-url", known, "-g", "h200", "--served-engine", "ftl"},
		"connection refused":                      {"--base-url", "http://127.0.0.1:1", "-g", "h200"},
	} {
		cmd, _, stderr := program(t, append([]string{"calibrate", "--engine", "openai", "--offline", "-o", file}, args...)...)
		if err := cmd.Run(); err == nil || !strings.Contains(stderr.String(), want) {
			t.Errorf("%v: %v: %s: want %q", args, err, stderr, want)
		}
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("a refused command wrote a file")
	}
}

// Points that were measured before the server died are kept: the same command goes on there, and they alone are fitted.
func TestCalibrateServerDies(t *testing.T) {
	t.Parallel()
	rows, file := filepath.Join(t.TempDir(), "rows.jsonl"), filepath.Join(t.TempDir(), "mine.toml")
	dying := &paced{model: "llama3.2-1b", quick: 4}
	dying.left.Store(90)
	args := []string{"calibrate", "--engine", "openai", "--base-url", serve(t, dying), "-g", "h200", "--offline", "--max-batch", "2",
		"--max-tokens", "512", "--rows", rows}
	got := try(t, args...)
	kept, err := calibrate.ReadRows[calibrate.Server, calibrate.ServedPoint](rows)
	if err != nil || got.code != 1 || len(kept.Rows) < 8 || len(kept.Rows) > 28 || got.stdout != "" {
		t.Fatalf("exit %d, %+v, %v: %s", got.code, kept, err, got.stderr)
	}
	if want := fmt.Sprintf("stopped: %s has %d of 30 points; the same command goes on there, and --rows %s alone fits those", rows,
		len(kept.Rows), rows); !strings.Contains(got.stderr, want) {
		t.Errorf("%s lacks %q", got.stderr, want)
	}
	text, err := os.ReadFile(rows)
	testkit.Must(t, err)
	s := schema(t, "bench")
	for line := range strings.Lines(string(text)) {
		checkSchema(t, s, line)
	}
	alone := try(t, "calibrate", "--rows", rows, "-o", file)
	f, err := hardware.ReadCalibration(file)
	if alone.code != 0 || err != nil || f.Engine != "vllm" ||
		!slices.Contains(f.Notes, fmt.Sprintf("%d of 30 points were measured", len(kept.Rows))) {
		t.Fatalf("exit %d, %v: %s\n%+v", alone.code, err, alone.stderr, f)
	}
	testkit.Long(t, "the other points, of 10 s")
	dying.left.Store(1 << 40)
	whole := try(t, append(args, "--limit", "1m")...)
	if whole.code != 0 || strings.Contains(whole.stderr, " 1/30") || !strings.Contains(whole.stderr, "30/30") {
		t.Errorf("gone on with: exit %d: %s", whole.code, whole.stderr)
	}
	if again := try(t, "calibrate", "--rows", rows, "--name", "h200-sxm-141gb"); again.code != 0 || again.stdout != whole.stdout {
		t.Errorf("fitted again: exit %d: %s\n%s\nwant\n%s", again.code, again.stderr, again.stdout, whole.stdout)
	}
	if other := try(t, append(args, "--max-tokens", "1024")...); other.code == 0 ||
		!strings.Contains(other.stderr, "has rows with plan") {
		t.Errorf("another plan: exit %d: %s", other.code, other.stderr)
	}
}

// Ctrl-C in the midst of the points leaves no file.
func TestCalibrateServerInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, _, stderr := program(t, "calibrate", "--engine", "openai", "--base-url", serve(t, &paced{model: "llama3.2-1b"}), "-g", "h200",
		"--offline", "-o", filepath.Join(dir, "mine.toml"))
	testkit.Must(t, cmd.Start())
	time.Sleep(2 * time.Second)
	_ = cmd.Process.Signal(os.Interrupt)
	if err := cmd.Wait(); err == nil {
		t.Errorf("it succeeded: %s", stderr)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("%v was left behind", left)
	}
}

// llama.cpp's own server gives a calibration that estimates take.
func TestCalibrateLlamaServer(t *testing.T) {
	python := os.Getenv("LLMPROF_PYTHON")
	if python == "" || python == "required" {
		var err error
		if python, err = filepath.Abs("../../.venv/bin/python"); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(python, "-c", "import xllamacpp, gguf").CombinedOutput(); err != nil {
		if os.Getenv("LLMPROF_PYTHON") == "required" {
			t.Fatalf("no xllamacpp and gguf: make venv: %v %s", err, out)
		}
		t.Skip("no Python with xllamacpp and gguf: make venv, or name one in LLMPROF_PYTHON")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	addr := l.Addr().String()
	host, port, _ := net.SplitHostPort(addr)
	testkit.Must(t, l.Close())
	dir := t.TempDir()
	server := exec.Command(python, "../../measure/openai/testdata/llamacpp.py", filepath.Join(dir, "tiny.gguf"), host, port, "4", "the", "of",
		"and", "to")
	testkit.Must(t, server.Start())
	t.Cleanup(func() { _ = server.Process.Kill(); _ = server.Wait() })
	for range 300 {
		if r, err := http.Get("http://" + addr + "/health"); err == nil {
			_ = r.Body.Close()
			if r.StatusCode == http.StatusOK {
				break
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	config := filepath.Join(dir, "config.json")
	testkit.Must(t, os.WriteFile(config, []byte(tinyServed), 0o644))
	file := filepath.Join(dir, "mine.toml")
	cmd, _, stderr := program(t, "calibrate", "--engine", "openai", "--base-url", "http://"+addr, "--model", config, "--served-weights",
		"fp32",
		"-g", "my-cpu", "--hardware", "testdata/cpu.toml", "--offline", "--limit", "8s", "--max-batch", "4", "--max-tokens", "1024", "-o", file)
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr)
	}
	t.Logf("%s", stderr)
	text, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(text), `engine = "llama.cpp"`) {
		t.Fatalf("%v\n%s", err, text)
	}
	cmd, stdout, stderr := program(t, "estimate", "--model", config, "-g", "my-cpu", "--hardware", "testdata/cpu.toml", "--engine",
		"llama.cpp",
		"--weights", "fp32", "--prompt-len", "256", "--gen-len", "32", "--calibration", file)
	if err := cmd.Run(); err != nil || !strings.Contains(stdout.String(), "TTFT") {
		t.Errorf("%v: %s%s", err, stdout, stderr)
	}
}

// tinyServed is the shape of testdata/llamacpp.py's model.
const tinyServed = `{"model_type": "llama", "hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4,
"num_key_value_heads": 2, "vocab_size": 1000, "max_position_embeddings": 2048, "torch_dtype": "float32", "tie_word_embeddings": false}`
