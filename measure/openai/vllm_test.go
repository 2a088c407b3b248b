//go:build linux

package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"llmprof/internal/stats"
	"llmprof/internal/testkit"
)

// vllmServer starts vLLM with a tiny model of random weights, on the processor or a
// GPU, with the Python that LLMPROF_VLLM names. It takes a minute to start, and is no
// part of CI. The model is a folder.
func vllmServer(t *testing.T) (o Options, model string) {
	t.Helper()
	py := os.Getenv("LLMPROF_VLLM")
	if py == "" {
		t.Skip("no Python with vLLM: name one in LLMPROF_VLLM")
	}
	model = t.TempDir()
	if out, err := exec.Command(py, append([]string{"testdata/tiny.py", model}, strings.Fields(common)...)...).CombinedOutput(); err != nil {
		t.Fatalf("the model cannot be made: %v\n%s", err, out)
	}
	addr := free(t)
	host, port, _ := strings.Cut(addr, ":")
	o = Options{
		BaseURL: "http://" + addr, API: Completions, Model: "tiny", Concurrency: 2, Requests: 40, Warmup: 4, GenLen: 16, IgnoreEOS: true,
		Timeout: time.Minute, Metrics: true,
	}
	ready, err := Answers(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := StartServer(t.Context(), ServerSpec{
		Command: fmt.Sprintf("VLLM_CPU_KVCACHE_SPACE=1 VLLM_NO_USAGE_STATS=1 HF_HUB_OFFLINE=1 '%s' -m vllm.entrypoints.cli.main serve '%s' "+
			"--host %s --port %s --max-model-len 2048 --enforce-eager --served-model-name tiny", py, model, host, port),
		Ready: ready, Timeout: 5 * time.Minute, Grace: 15 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return o, model
}

// vLLM's own counters agree with what is counted here, its cache of prefixes is seen
// though its usage says nothing of it, and texts have the length that was asked for.
func TestVLLM(t *testing.T) {
	o, _ := vllmServer(t)
	a, err := Inquire(t.Context(), o)
	if err != nil || a.Kind != "vllm" || a.Version == "" || a.MaxLen != 2048 || !a.HasMetrics || a.DP != 1 ||
		a.Options["enable_prefix_caching"] != "True" {
		t.Errorf("%+v, %v", a, err)
	}
	if takes, err := TakesTokens(t.Context(), o, Prompt{Tokens: []int{600, 601}}); err != nil || !takes {
		t.Errorf("it takes no tokens: %v", err)
	}
	for round, want := range []bool{false, true} {
		o.Prompts = RandomTokens(o.Requests+o.Warmup, 600, 500, 1000, 9)
		s, err := Run(t.Context(), o, nil)
		if err != nil || s.Completed != 40 {
			t.Fatalf("round %d: %+v, %v", round, s, err)
		}
		if m := s.Metrics; m == nil || m.Source != "vllm" || m.Counters["generated_tokens"] != 40*16 || m.Counters["prompt_tokens"] != 40*600 {
			t.Errorf("round %d: the server counts %+v", round, m)
		}
		if c := s.PrefixCache; c.Source != fromMetrics || (*c.Share > 0.5) != want {
			t.Errorf("round %d: cached %+v", round, c)
		}
	}
	for _, api := range []string{Completions, Chat} {
		o.API, o.Prompts, o.Requests, o.Warmup, o.PromptLen = api, RandomText(20, 100, 3), 20, 0, 100
		c, err := NewCounter(t.Context(), o)
		if err != nil || c.How != "/tokenize" {
			t.Fatalf("%s: %+v, %v", api, c, err)
		}
		if err := Fit(t.Context(), c, o.Prompts, 100); err != nil {
			t.Error(err)
		}
		c.Close()
		if s, err := Run(t.Context(), o, nil); err != nil || s.PromptTokens.Min != 100 || s.PromptTokens.Max != 100 {
			t.Errorf("%s: %+v, %v", api, s, err)
		}
	}
	o.Model = "other"
	if _, err := Run(t.Context(), o, nil); !says(err, "404") {
		t.Errorf("a model that is not served: %v", err)
	}
}

// A tee hands on what it reads, at once.
type tee struct {
	from io.Reader
	to   http.ResponseWriter
}

func (x *tee) Read(p []byte) (int, error) {
	n, err := x.from.Read(p)
	_, _ = x.to.Write(p[:n])
	_ = http.NewResponseController(x.to).Flush()
	return n, err
}

// TPOT is within 0.3 % of what vLLM's own benchmark takes it for, of the same streams of one server: those that the benchmark asks for
// are read on their way, so that a busy machine is as busy for both.
func TestTPOTOfVLLMBench(t *testing.T) {
	o, model := vllmServer(t)
	const warmups, requests, gen = 4, 40, 256
	var mu sync.Mutex
	var seen []*outcome
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		begun := time.Now()
		again, err := http.NewRequestWithContext(r.Context(), r.Method, o.BaseURL+r.URL.Path, r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		again.Header = r.Header
		resp, err := http.DefaultTransport.RoundTrip(again)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		maps.Copy(w.Header(), resp.Header)
		w.WriteHeader(resp.StatusCode)
		from := &tee{resp.Body, w}
		x := &outcome{zero: begun, asked: gen, sent: 1 << 20, barren: time.NewTimer(time.Minute), patience: time.Minute}
		if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
			if failed := x.stream(r.Context(), newEvents(from, x.since), false); failed != nil {
				t.Error(failed)
			}
			mu.Lock()
			seen = append(seen, x)
			mu.Unlock()
		}
		_, _ = io.Copy(io.Discard, from)
	}))
	defer proxy.Close()
	folder := t.TempDir()
	bench := exec.CommandContext(t.Context(), os.Getenv("LLMPROF_VLLM"), append(strings.Fields("-m vllm.entrypoints.cli.main bench serve "+
		"--backend openai --endpoint /v1/completions --served-model-name tiny --dataset-name random --random-input-len 64 --max-concurrency 2 "+
		"--ignore-eos --disable-tqdm --save-result --result-filename bench.json"), "--base-url", proxy.URL, "--model", model,
		"--tokenizer", model, "--random-output-len", strconv.Itoa(gen), "--num-prompts", strconv.Itoa(requests), "--num-warmups",
		strconv.Itoa(warmups),
		"--result-dir", folder)...)
	if out, err := bench.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(folder, "bench.json"))
	testkit.Must(t, err)
	var theirs struct {
		Median float64 `json:"median_tpot_ms"`
		Mean   float64 `json:"mean_tpot_ms"`
	}
	testkit.Must(t, json.Unmarshal(text, &theirs))
	own, err := o.visit()
	testkit.Must(t, err)
	seen = seen[len(seen)-requests:] // those before are of its warm-up
	own.countFirst(t.Context(), seen)
	var ours []float64
	for _, x := range seen {
		ours = append(ours, 1000**perToken(&x.record))
	}
	sum, err := stats.Summarize(ours)
	testkit.Must(t, err)
	t.Logf("TPOT of %d requests: median %.4f ms, vLLM's benchmark %.4f ms; mean %.4f and %.4f ms", sum.N, sum.Median, theirs.Median, sum.Mean,
		theirs.Mean)
	if off := sum.Mean/theirs.Mean - 1; math.Abs(off) > 0.003 {
		t.Errorf("the mean is %.4f ms, %+.2f %% off", sum.Mean, 100*off)
	}
	if off := sum.Median/theirs.Median - 1; math.Abs(off) > 0.003 {
		t.Errorf("the median is %.4f ms, %+.2f %% off", sum.Median, 100*off)
	}
}
