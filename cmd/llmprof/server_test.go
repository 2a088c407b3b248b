package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// The test binary is llmprof itself, or a server, where a test starts it so.
const (
	asProgram = "LLMPROF_TEST_PROGRAM"
	asServer  = "LLMPROF_TEST_SERVER" // its address
)

func TestMain(m *testing.M) {
	if addr := os.Getenv(asServer); addr != "" {
		fmt.Fprintln(os.Stderr, http.ListenAndServe(addr, &standIn{}))
		os.Exit(1)
	}
	if file := os.Getenv(asMeter); file != "" {
		os.Exit(metered(file))
	}
	if os.Getenv(asProgram) != "" {
		main()
	}
	testscript.Main(closing{m}, map[string]func(){"llmprof": main, "openai-server": openaiServer})
}

// closeBrowser ends the browser of tests behind the build tag browser. The tag exists because the library that drives the browser takes a
// tenth of the time that compiling all tests takes.
var closeBrowser = func() {}

// closing ends the browser that tests share once they have run.
type closing struct{ *testing.M }

func (c closing) Run() int {
	defer func() { closeBrowser() }()
	return c.M.Run()
}

// A standIn is a server that streams as many tokens as are asked for.
type standIn struct {
	failOf  atomic.Int64 // The last one of so many requests fails; 0 is for none.
	pause   atomic.Int64 // nanoseconds between two tokens, at least 500 µs
	noUsage bool
	seen    atomic.Int64 // requests for more than one token
}

// failing is a stand-in that fails the last of so many requests.
func failing(of int64) *standIn {
	s := &standIn{}
	s.failOf.Store(of)
	return s
}

// slow is one that takes so long for a token.
func slow(pause time.Duration) *standIn {
	s := &standIn{}
	s.pause.Store(int64(pause))
	return s
}

func (s *standIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		switch r.URL.Path {
		case "/v1/models":
			fmt.Fprint(w, `{"object": "list", "data": [{"id": "llama3.2-1b", "object": "model"}]}`)
		case "/health":
		default:
			http.NotFound(w, r)
		}
		return
	}
	prompt, tokens, ok := askedOf(r)
	if !strings.HasSuffix(r.URL.Path, "/completions") || !ok {
		http.NotFound(w, r)
		return
	}
	if of := s.failOf.Load(); tokens > 1 && s.seen.Add(1)%max(of, 1) == 0 && of > 0 { // one token is for finding out what it takes
		http.Error(w, "no room", http.StatusInternalServerError)
		return
	}
	stream(w, prompt, tokens, !s.noUsage, func(i int) {
		if i == 0 {
			time.Sleep(2 * time.Millisecond) // the machine's noise is small beside it
			return
		}
		time.Sleep(max(time.Duration(s.pause.Load()), 500*time.Microsecond))
	})
}

// askedOf reads how many tokens the prompt of a request has, 7 if it is a text, and for how many it asks.
func askedOf(r *http.Request) (prompt, tokens int, ok bool) {
	var ask struct {
		Prompt    any
		MaxTokens int `json:"max_tokens"`
	}
	if json.NewDecoder(r.Body).Decode(&ask) != nil {
		return 0, 0, false
	}
	prompt = 7
	if ids, ok := ask.Prompt.([]any); ok {
		prompt = len(ids)
	}
	return prompt, ask.MaxTokens, true
}

// stream answers a request by server-sent events, one for each token, after what precedes the token.
func stream(w http.ResponseWriter, prompt, tokens int, usage bool, before func(token int)) {
	w.Header().Set("Content-Type", "text/event-stream")
	for i := range tokens {
		before(i)
		fmt.Fprint(w, "data: {\"choices\": [{\"index\": 0, \"text\": \" a\"}]}\n\n")
		w.(http.Flusher).Flush()
	}
	fmt.Fprint(w, "data: {\"choices\": [{\"index\": 0, \"text\": \"\", \"finish_reason\": \"length\"}]}\n\n")
	if usage {
		fmt.Fprintf(w, "data: {\"choices\": [], \"usage\": {\"prompt_tokens\": %d, \"completion_tokens\": %d, \"prompt_tokens_details\": "+
			"{\"cached_tokens\": 0}}}\n\n", prompt, tokens)
	}
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// serve starts a server and gives its URL.
func serve(t *testing.T, h http.Handler) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	testkit.Must(t, err)
	server := &http.Server{Handler: h}
	go func() { _ = server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + l.Addr().String()
}

// asking are the flags of a short run against a server.
func asking(url string, more ...string) []string {
	return append([]string{"measure", "--engine", "openai", "--model", "llama3.2-1b", "--offline", "--base-url", url,
		"--concurrency", "2", "--prompt-len", "12", "--gen-len", "4", "--warmup", "2", "--ttft", "--tpot", "--ttlt", "--format", "json"}, more...)
}

// program is llmprof in a process of its own.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), asProgram+"=1", "HOME="+t.TempDir())
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// resultOf reads the JSON of a measurement, which has to keep to its schema.
func resultOf(t *testing.T, text string) *result.Result {
	t.Helper()
	checkSchema(t, schema(t, "measure"), text)
	var r result.Result
	testkit.Must(t, json.Unmarshal([]byte(text), &r))
	return &r
}

// TestMeasureServer holds the exit status, the marks and the JSON of every outcome
// of asking a server.
func TestMeasureServer(t *testing.T) {
	for _, test := range []struct {
		name   string
		server *standIn
		flags  string
		code   int
		marks  string
		stderr string
	}{
		{"all complete", &standIn{}, "--requests 20", 0, "", ""},
		{"sampled", &standIn{}, "--requests 20 --temperature 0.7", 0, "", ""},
		{"no usage", &standIn{noUsage: true}, "--requests 20", 0, "", ""},
		{"within the limit", failing(20), "--requests 50 --max-failures 5%", 0, "failures", ""},
		{"beyond the limit", failing(5), "--requests 50", 1, "failed",
			"10 of 50 requests failed: 10 status 5xx (500 Internal Server Error: no room); that is 20 %, and 1 % may fail"},
		{"none may", failing(50), "--requests 50 --max-failures 0", 1, "failed", "1 of 50 requests failed"},
	} {
		t.Run(test.name, func(t *testing.T) {
			results := t.TempDir()
			got := try(t, asking(serve(t, test.server), append(strings.Fields(test.flags), "--results", results)...)...)
			if got.code != test.code || !strings.Contains(got.stderr, test.stderr) {
				t.Fatalf("exit %d: %s", got.code, got.stderr)
			}
			r := resultOf(t, got.stdout)
			if marks := strings.Join(r.Marks, " "); marks != test.marks {
				t.Errorf("marks %q, want %q; warnings %q", marks, test.marks, r.Warnings)
			}
			if sampled := strings.Contains(test.flags, "temperature"); sampled != (r.Workload.Temperature == 0.7) {
				t.Errorf("a temperature of %v", r.Workload.Temperature)
			}
			stored := map[string]int{r.ID + ".p0.json": 1}
			if test.code != 0 {
				stored = map[string]int{r.ID + ".failed": 1, filepath.Join("partial", r.ID+".p0.json"): 1}
			}
			for _, name := range []string{r.ID + ".p0.json", r.ID + ".failed", filepath.Join("partial", r.ID+".p0.json")} {
				if _, err := os.Stat(filepath.Join(results, name)); (err == nil) != (stored[name] == 1) {
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	got := try(t, asking(serve(t, failing(1)))...)
	if got.code != 1 || got.stdout != "" || !strings.Contains(got.stderr, "no room") {
		t.Errorf("all fail: exit %d, %s%s", got.code, got.stdout, got.stderr)
	}
}

// TestInterruptedMeasure interrupts a measurement: it says what it saw, is not done,
// and tells its caller which signal it was.
func TestInterruptedMeasure(t *testing.T) {
	for s, code := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		if signal.Ignored(s) {
			continue // SIGHUP is so under nohup, and in programs that it starts too.
		}
		server := slow(5 * time.Millisecond)
		results := t.TempDir()
		cmd, stdout, stderr := program(t, asking(serve(t, server), "--requests", "100000", "--results", results)...)
		testkit.Must(t, cmd.Start())
		testkit.Await(t, "requests", func() bool { return server.seen.Load() > 20 })
		testkit.Must(t, cmd.Process.Signal(s))
		_ = cmd.Wait()
		if cmd.ProcessState.ExitCode() != code || !strings.Contains(stderr.String(), "interrupted") {
			t.Errorf("%v: exit %d, want %d: %s", s, cmd.ProcessState.ExitCode(), code, stderr)
		}
		r := resultOf(t, stdout.String())
		if strings.Join(r.Marks, " ") != "interrupted" || r.Serving.Completed < 10 || r.Serving.Completed == 100000 {
			t.Errorf("%v: marks %q, %d completed", s, r.Marks, r.Serving.Completed)
		}
		files, err := filepath.Glob(filepath.Join(results, "*"))
		if err != nil || len(files) != 1 || filepath.Base(files[0]) != "partial" {
			t.Errorf("%v: stored %q, %v", s, files, err)
		}
	}
}

// TestRunServer has runs of a server fail and be interrupted: neither is done, and
// both are measured by the next run.
func TestRunServer(t *testing.T) {
	server := failing(4)
	dir := t.TempDir()
	file, results := filepath.Join(dir, "server.toml"), filepath.Join(dir, "results")
	text := fmt.Sprintf("model = \"llama3.2-1b\"\nengine = \"openai\"\nbase_url = %q\nprompt_len = 12\ngen_len = 4\nrequests = 40\nenergy "+
		"= false\n"+
		"[grid]\nconcurrency = [1, 2]\n", serve(t, server))
	testkit.Must(t, os.WriteFile(file, []byte(text), 0o644))
	step := func(what string, code int, want ...string) {
		t.Helper()
		got := try(t, "run", file, "--results", results, "--offline")
		for _, w := range want {
			if got.code != code || !strings.Contains(got.stderr+got.stdout, w) {
				t.Fatalf("%s: exit %d, want %d and %q: %s%s", what, got.code, code, w, got.stdout, got.stderr)
			}
		}
	}
	step("a quarter fails", 1, "0 measured, 0 kept from before, 2 failed", "10 of 40 requests failed")
	server.failOf.Store(0)
	server.pause.Store(int64(20 * time.Millisecond))
	cmd, _, stderr := program(t, "run", file, "--results", results, "--offline")
	testkit.Must(t, cmd.Start())
	before := server.seen.Load()
	testkit.Await(t, "requests", func() bool { return server.seen.Load() > before+10 })
	testkit.Must(t, cmd.Process.Signal(os.Interrupt))
	_ = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 130 || !strings.Contains(stderr.String(), "0 measured, 0 kept") {
		t.Errorf("exit %d: %s", cmd.ProcessState.ExitCode(), stderr)
	}
	list := func() ran { return try(t, "results", "list", results) }
	want := fmt.Sprintf("\"llmprof run %s --results %s --offline\"", file, results)
	if got := list(); !strings.Contains(got.stderr, "2 that did not finish: resumed by") || strings.Count(got.stderr, want) != 1 ||
		strings.Count(got.stderr, "\n") != 1 {
		t.Errorf("the list says %q, want a line with %q", got.stderr, want)
	}
	server.pause.Store(0)
	step("all complete", 0, "2 measured, 0 kept from before, 0 failed")
	step("again", 0, "0 measured, 2 kept from before, 0 failed")
	if got := list(); got.stderr != "" {
		t.Errorf("the list of what is whole says %q", got.stderr)
	}
	left, err := filepath.Glob(filepath.Join(results, "*", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("of what failed there is still %q, %v", left, err)
	}
}

// TestLoads measures several loads by one command: one table, one chart, a result
// each with prompts of its own, and one that fails beside the others.
func TestLoads(t *testing.T) {
	server := &standIn{}
	results := t.TempDir()
	chart := filepath.Join(results, "load.svg")
	args := asking(serve(t, server), "--requests", "20", "--results", results)
	i := slices.Index(args, "--concurrency")
	args[i+1] = "1,2,4"
	got := try(t, append(args, "-o", chart)...)
	if got.code != 0 {
		t.Fatalf("exit %d: %s", got.code, got.stderr)
	}
	var all []json.RawMessage
	if err := json.Unmarshal([]byte(got.stdout), &all); err != nil || len(all) != 3 {
		t.Fatalf("%d results, %v", len(all), err)
	}
	seeds := map[uint64]bool{}
	for i, text := range all {
		r := resultOf(t, string(text))
		seeds[r.Provenance.Seed] = true
		if r.Serving.Concurrency != 1<<i || r.Serving.Completed != 20 {
			t.Errorf("result %d is of %d at a time, %d completed", i, r.Serving.Concurrency, r.Serving.Completed)
		}
	}
	if !strings.Contains(got.stderr, "[2/3] 2 at a time: done") {
		t.Error(got.stderr)
	}
	if text, err := os.ReadFile(chart); err != nil || !strings.Contains(string(text), "Latency over throughput") ||
		!strings.Contains(string(text), "closed loop") {
		t.Errorf("%v, %.200s", err, text)
	}
	list := try(t, "results", "list", "--results", results)
	for _, want := range []string{"Servers", "1 at a time", "4 at a time", "failed"} {
		if list.code != 0 || !strings.Contains(list.stdout, want) {
			t.Errorf("no %q in %s%s", want, list.stdout, list.stderr)
		}
	}
	table := try(t, "results", "list", "--results", results, "--format", "csv")
	if rows := strings.Split(strings.TrimSpace(table.stdout), "\n"); len(rows) != 4 ||
		!strings.HasSuffix(rows[0], "marks,concurrency,request_rate_hz,requests,failed,"+
			"completed_hz,goodput_hz,generated_tok_s,prompt_tokens,generated_tokens,ttft_p99_s,tpot_p99_s,seed") ||
		strings.Count(rows[1], ",") != strings.Count(rows[0], ",") {
		t.Errorf("%s", table.stdout)
	}
	again := try(t, "results", "list", "--results", results, "-o", filepath.Join(results, "again.png"))
	if _, err := os.Stat(filepath.Join(results, "again.png")); again.code != 0 || err != nil {
		t.Errorf("%v: %s", err, again.stderr)
	}
}

// TestKnee searches a range of rates: a server that holds at none is asked once, one that holds at all is asked
// at each doubling.
func TestKnee(t *testing.T) {
	url := serve(t, &standIn{})
	for slo, want := range map[string]struct {
		runs int
		text string
	}{
		"ttft=1ns": {1, "knee: none: at 50 requests a second it does not hold that 90 % of the requests are within --slo"},
		"ttft=1h":  {3, "knee: none up to 180 requests a second"},
	} {
		got := try(t, "measure", "--engine", "openai", "--model", "llama3.2-1b", "--offline", "--base-url", url, "--rate", "50..180", "--slo",
			slo,
			"--prompt-len", "12", "--gen-len", "4", "--ttft", "--requests", "10", "--format", "json")
		var all []json.RawMessage
		if err := json.Unmarshal([]byte(got.stdout), &all); got.code != 0 || err != nil || len(all) != want.runs ||
			!strings.Contains(got.stderr, want.text) {
			t.Errorf("%s: exit %d, %d results, %v: %s", slo, got.code, len(all), err, got.stderr)
		}
	}
}

// TestLoadFails checks that a load under which requests fail is said so, and that the
// others are measured.
func TestLoadFails(t *testing.T) {
	server := failing(7)
	got := try(t, "measure", "--engine", "openai", "--model", "llama3.2-1b", "--offline", "--base-url", serve(t, server), "--rate", "50,100",
		"--prompt-len", "12", "--gen-len", "4", "--ttft", "--requests", "20", "--max-failures", "0")
	if got.code != 1 || strings.Count(got.stderr, "of 20 requests failed: ") < 2 || !strings.Contains(got.stderr, "1 of 2: ") ||
		!strings.Contains(got.stdout, "50/s") || !strings.Contains(got.stdout, "100/s") || !strings.Contains(got.stdout, "of 20") {
		t.Errorf("exit %d: %s%s", got.code, got.stdout, got.stderr)
	}
	for _, flags := range []string{"--concurrency 1,1", "--concurrency 0", "--rate 0", "--rate 2,2", "--concurrency 1 --rate 2"} {
		got := try(t, append([]string{"measure", "--engine", "openai", "--model", "m", "--base-url", "http://127.0.0.1:1"}, strings.Fields(
			flags)...)...)
		if got.code != 2 || got.stdout != "" {
			t.Errorf("%s: exit %d: %s", flags, got.code, got.stderr)
		}
	}
	if got := try(t, "measure", "--engine", "transformers", "--model", "m", "-o", "x.svg"); got.code != 2 ||
		!strings.Contains(got.stderr, "loads of a server") {
		t.Errorf("exit %d: %s", got.code, got.stderr)
	}
}
