package measure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"llmprof/internal/testkit"
	"llmprof/measure/result"
)

// A listener keeps what a server is asked for answers of more than one token.
type listener struct {
	mu    sync.Mutex
	asked []map[string]any
	next  http.HandlerFunc
}

func (l *listener) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var ask map[string]any
	if json.Unmarshal(body, &ask) == nil && ask["max_tokens"] != 1. {
		l.mu.Lock()
		l.asked = append(l.asked, ask)
		l.mu.Unlock()
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	l.next(w, r)
}

// prompts are what came since the last call.
func (l *listener) prompts() map[string]bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]bool{}
	for _, ask := range l.asked {
		all[fmt.Sprint(ask["prompt"])] = true
	}
	l.asked = nil
	return all
}

// Each run sends other prompts, of a seed that the result has; a run of that seed
// sends the same.
func TestServeSeed(t *testing.T) {
	l := &listener{next: stream}
	server := httptest.NewServer(l)
	defer server.Close()
	run := func(seed uint64) (*result.Result, map[string]bool) {
		p := servingPoint(server.URL)
		p.Seed = seed
		results, err := newLab(t).Measure(t.Context(), p)
		testkit.Must(t, err)
		checked(t, results[0])
		return results[0], l.prompts()
	}
	a, first := run(0)
	b, second := run(0)
	if len(first) != 10 || len(second) != 10 {
		t.Fatalf("%d and %d prompts, want 10 different ones with those of the warm-up", len(first), len(second))
	}
	for p := range first {
		if second[p] {
			t.Errorf("two runs send %.60s", p)
		}
	}
	if a.Workload.Seed == 0 || a.Workload.Seed == b.Workload.Seed || a.Provenance.Seed != a.Workload.Seed {
		t.Errorf("seeds %d and %d, in the provenance %d", a.Workload.Seed, b.Workload.Seed, a.Provenance.Seed)
	}
	if _, again := run(a.Workload.Seed); fmt.Sprint(again) != fmt.Sprint(first) {
		t.Error("the seed of a result makes other prompts")
	}
}

// What a server does not say is null, with a reason; what is given is taken.
func TestServeUnsaid(t *testing.T) {
	l := &listener{next: stream}
	server := httptest.NewServer(l)
	defer server.Close()
	p := servingPoint(server.URL)
	results, err := newLab(t).Measure(t.Context(), p)
	testkit.Must(t, err)
	r := results[0]
	for key, zero := range map[string]bool{
		"workload.weights": r.Workload.Weights == "", "workload.kv": r.Workload.KV == "", "workload.act": r.Workload.Act == "",
		"workload.batch": r.Workload.Batch == 0, "parallelism.tp": r.Parallelism.TP == 0,
	} {
		if !zero || r.Reasons[key] == "" {
			t.Errorf("%s: unknown %v, because %q", key, zero, r.Reasons[key])
		}
	}
	text, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(text), `"weights":null`) || !strings.Contains(string(text), `"tp":null`) {
		t.Errorf("%v, %.300s", err, text)
	}
	checked(t, r)
	l.prompts()
	p.ServedModel, p.ServedWeights, p.ServedKV, p.ServedTP, p.Concurrency, p.SLO = "m", "bf16", "fp8", 2, 1, "ttft=10s,tpot=1ns"
	if results, err = newLab(t).Measure(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	r = results[0]
	if w := r.Workload; w.Weights != "bf16" || w.Act != "bf16" || w.KV != "fp8" || w.Batch != 1 || r.Parallelism.TP != 2 {
		t.Errorf("%+v, %+v", w, r.Parallelism)
	}
	if s := r.Serving; s.ServedModel != "m" || l.asked[0]["model"] != "m" || s.Goodput.Good != 0 || *s.Goodput.TTFT != 10 {
		t.Errorf("asked for %v, goodput %+v", l.asked[0]["model"], s.Goodput)
	}
	checked(t, r)
}

// Answers without usage have no throughput, rather than one of 0, and the prompts'
// length is said to be unchecked.
func TestServeWithoutUsage(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for range 5 {
			fmt.Fprint(w, "data: {\"choices\": [{\"index\": 0, \"text\": \" a\"}]}\n\n")
			w.(http.Flusher).Flush()
			time.Sleep(time.Millisecond)
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}))
	defer server.Close()
	results, err := newLab(t).Measure(t.Context(), servingPoint(server.URL))
	testkit.Must(t, err)
	r := results[0]
	if r.Throughput != nil || !strings.Contains(r.Reasons["throughput_tok_s"], "6 of 6 answers came without usage") || r.TPOT != nil ||
		r.Reasons["tpot_s"] == "" {
		t.Errorf("throughput %+v, reasons %v", r.Throughput, r.Reasons)
	}
	if !strings.Contains(strings.Join(r.Warnings, "\n"), "not checked") {
		t.Errorf("warnings %q", r.Warnings)
	}
	checked(t, r)
}

// A model that the server has under another name is an error that lists the names.
func TestServeOtherName(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/models" {
			fmt.Fprint(w, `{"data": [{"id": "Meta-Llama-3.1-8B", "owned_by": "vllm"}]}`)
			return
		}
		http.Error(w, `{"error": {"message": "The model does not exist."}}`, http.StatusNotFound)
	}))
	defer server.Close()
	_, err := newLab(t).Measure(t.Context(), servingPoint(server.URL))
	if err == nil || !strings.Contains(err.Error(), `lists no model "llama3.1-8b" but Meta-Llama-3.1-8B: give its name with --served-model`) {
		t.Error(err)
	}
}

// Every request is a line as it ends.
func TestServeRecords(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(stream))
	defer server.Close()
	l := newLab(t)
	var lines bytes.Buffer
	l.Records = &lines
	results, err := l.Measure(t.Context(), servingPoint(server.URL))
	testkit.Must(t, err)
	seen := map[int]bool{}
	for line := range strings.Lines(lines.String()) {
		var r result.Record
		testkit.Must(t, json.Unmarshal([]byte(line), &r))
		if want := results[0].Serving.Records[r.Index]; *r.LastTokenS != *want.LastTokenS || *r.Generated != 5 {
			t.Errorf("line %+v, record %+v", r, want)
		}
		seen[r.Index] = true
	}
	if len(seen) != 6 {
		t.Errorf("%d lines, want 6", len(seen))
	}
	l.Records = broken{}
	if _, err := l.Measure(t.Context(), servingPoint(server.URL)); err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Error(err)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, fmt.Errorf("disk full") }

// A server that says nothing is given up after the timeout of a round of requests, and
// what is waited for is said meanwhile.
func TestServeHangs(t *testing.T) {
	gone := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			_, _ = io.Copy(io.Discard, r.Body)
			select {
			case <-r.Context().Done():
			case <-gone:
			}
		}
	}))
	defer server.Close()
	defer close(gone)
	p := servingPoint(server.URL)
	p.Prompts, p.Timeout = writePrompts(t), 0.2
	_, err := newLab(t).Measure(t.Context(), p)
	if err == nil || !strings.Contains(err.Error(), "the server stopped answering, for 2 requests in a row: the server was silent for "+
		"200ms, the timeout") {
		t.Error(err)
	}
	var asked progress
	if line := asked.line(10, time.Second); line != "" {
		t.Errorf("before the first request: %q", line)
	}
	asked.begin()
	if line := asked.line(10, time.Minute); line != "0/10 requests, none answered for 0s (timeout 1m0s)" {
		t.Error(line)
	}
	asked.since = time.Now().Add(-4 * time.Second)
	asked.count(4, 1)
	if line := asked.line(10, time.Minute); !strings.HasPrefix(line, "4/10 requests, 1 failed, 1/s, 6s left") &&
		!strings.HasPrefix(line, "4/10 requests, 1 failed, 0.99") {
		t.Error(line)
	}
}

// Control prompts tell of a cache that the server says nothing of.
func TestServeControl(t *testing.T) {
	var mu sync.Mutex
	known := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var ask struct{ Prompt any }
		_ = json.Unmarshal(body, &ask)
		key := fmt.Sprint(ask.Prompt)
		mu.Lock()
		cached := known[key]
		known[key] = true
		mu.Unlock()
		if !cached && r.Method == http.MethodPost {
			time.Sleep(60 * time.Millisecond)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		stream(w, r)
	}))
	defer server.Close()
	for round, want := range []bool{false, true} {
		p := servingPoint(server.URL)
		p.Seed, p.Concurrency = 5, 1
		results, err := newLab(t).Measure(t.Context(), p)
		testkit.Must(t, err)
		r := results[0]
		if marked := len(r.Marks) == 1 && r.Marks[0] == "cached"; marked != want || *r.Serving.PrefixCache.ControlTTFT < 0.06 {
			t.Errorf("round %d: marks %q, %+v", round, r.Marks, r.Serving.PrefixCache)
		}
		checked(t, r)
	}
}

func writePrompts(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "prompts.txt")
	testkit.Must(t, os.WriteFile(file, []byte("a b c\nd e f\n"), 0o644))
	return file
}
