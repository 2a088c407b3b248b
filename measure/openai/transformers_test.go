//go:build linux

package openai

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmprof/measure/result"
)

// python finds a Python that has "transformers serve".
func python(t *testing.T) string {
	t.Helper()
	return pythonWith(t, "transformers serve", "torch, transformers, fastapi, uvicorn, requests")
}

// pythonWith finds a Python that can import what is wanted: the one that LLMPROF_PYTHON
// names, or the one of "make venv". LLMPROF_PYTHON=required makes its lack an error, as it
// has to be in CI.
func pythonWith(t *testing.T, what, imports string) string {
	t.Helper()
	named := os.Getenv("LLMPROF_PYTHON")
	path := named
	if named == "" || named == "required" {
		var err error
		if path, err = filepath.Abs("../../.venv/bin/python"); err != nil {
			t.Fatal(err)
		}
	}
	out, err := exec.Command(path, "-c", "import "+imports).CombinedOutput()
	switch {
	case err == nil:
		return path
	case named == "required":
		t.Fatalf("%s has no %s: make venv: %v %s", path, what, err, out)
	}
	t.Skipf("no Python with %s: make venv, or name one in LLMPROF_PYTHON", what)
	return ""
}

// realServer starts "transformers serve" with a tiny model of random weights.
func realServer(t *testing.T) (*Server, Options) {
	t.Helper()
	py, model := python(t), t.TempDir()
	tiny := exec.Command(py, append([]string{"testdata/tiny.py", model}, strings.Fields(common)...)...)
	tiny.Env = append(os.Environ(), "OMP_NUM_THREADS=1")
	if out, err := tiny.CombinedOutput(); err != nil {
		t.Fatalf("the model cannot be made: %v\n%s", err, out)
	}
	addr := free(t)
	host, port, _ := strings.Cut(addr, ":")
	o := Options{
		BaseURL: "http://" + addr, API: Chat, Model: model, Concurrency: 2, Requests: 6, Warmup: 2, GenLen: 8,
		Prompts: prompts(8), Timeout: time.Minute, SaveOutputs: true,
	}
	ready, err := Answers(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := StartServer(t.Context(), ServerSpec{
		Command: fmt.Sprintf("HF_HUB_OFFLINE=1 '%s' -m transformers.cli.transformers serve '%s' --device cpu --host %s --port %s", py, model,
			host, port),
		Env:   []string{"HF_HUB_CACHE=" + t.TempDir(), "OMP_NUM_THREADS=1"},
		Ready: ready, Timeout: 90 * time.Second, Grace: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return s, o
}

// prompts are of 5, 6, 7... words, each of them a token.
func prompts(n int) []Prompt {
	all := make([]Prompt, n)
	for i := range all {
		words := make([]string, 5+i)
		for k := range words {
			words[k] = fmt.Sprintf("w%d", 17*i+k+3)
		}
		all[i].Text = strings.Join(words, " ")
	}
	return all
}

// unstreamed asks the server for the whole answer at once: a second way to what
// it says, and to what it counts.
func unstreamed(t *testing.T, o Options, p Prompt) (text string, u usage) {
	t.Helper()
	path, ask := "/v1/completions", map[string]any{"model": o.Model, "max_tokens": o.GenLen, "temperature": 0, "prompt": p.Text}
	if o.API == Chat {
		delete(ask, "prompt")
		path, ask["messages"] = "/v1/chat/completions", []map[string]string{{"role": "user", "content": p.Text}}
	}
	body, _ := json.Marshal(ask)
	resp, err := http.Post(o.BaseURL+path, "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var got struct {
		Choices []struct {
			Text    string
			Message struct{ Content string }
		}
		Usage usage
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil || len(got.Choices) != 1 {
		t.Fatalf("%s: %+v, %v", resp.Status, got, err)
	}
	return got.Choices[0].Text + got.Choices[0].Message.Content, got.Usage
}

// A real server's answers are counted as it counts them, and read as it says
// them when it is not asked to stream.
func TestTransformersServe(t *testing.T) {
	server, o := realServer(t)
	if pids := server.PIDs(); len(pids) == 0 || pids[0] <= 0 {
		t.Errorf("processes %v", pids)
	}
	for _, api := range []string{Chat, Completions} {
		o.API, o.IgnoreEOS = api, api == Completions
		s, err := Run(t.Context(), o, nil)
		if err != nil {
			t.Fatalf("%s: %v", api, err)
		}
		if s.Completed != 6 || *s.Usage.Tokens != 6*8 || s.Usage.Missing != 0 || s.Usage.Discrepant != 0 {
			t.Errorf("%s: %d completed, usage %+v, failures %v, notes %q", api, s.Completed, s.Usage, s.Failures, s.Notes)
		}
		if noted := strings.Contains(strings.Join(s.Notes, "\n"), "refuses ignore_eos"); noted != o.IgnoreEOS {
			t.Errorf("%s: notes %q", api, s.Notes)
		}
		for i := range s.Records {
			r := &s.Records[i]
			p := o.Prompts[2+i] // after those of the warm-up
			text, u := unstreamed(t, o, p)
			if strings.TrimSpace(r.Output) != strings.TrimSpace(text) || *r.Prompt != 7+i || *r.Prompt != *u.Prompt || *r.Generated != *u.Generated {
				t.Errorf("%s %d: streamed %q, %d and %d tokens; at once %q, %d and %d", api, i, r.Output, *r.Prompt, *r.Generated, text, *u.Prompt,
					*u.Generated)
			}
			if n := len(strings.Fields(r.Output)); n != 8 || r.Chunks < 2 || r.Chunks > 8 {
				t.Errorf("%s %d: %d words in %d chunks", api, i, n, r.Chunks)
			}
		}
		closes(t, s)
	}
	o.API, o.Prompts = Completions, []Prompt{{Tokens: []int{3, 4, 5}}}
	if _, err := Run(t.Context(), o, nil); !says(err, "the warm-up: all 2 requests", "400 Bad Request: prompt must be a string.",
		"--api chat") {
		t.Errorf("tokens: %v", err)
	}
	if takes, err := TakesTokens(t.Context(), o, o.Prompts[0]); err != nil || takes {
		t.Errorf("it takes tokens: %v, %v", takes, err)
	}
	o.Prompts, o.Warmup, o.PromptLen = RandomText(6, 90, 5), 0, 90
	c, err := NewCounter(t.Context(), o)
	if err != nil || c.How != "usage" {
		t.Fatalf("the counter %+v, %v", c, err)
	}
	if err := Fit(t.Context(), c, o.Prompts, 90); err != nil {
		t.Error(err)
	}
	c.Close()
	if s, err := Run(t.Context(), o, nil); err != nil || s.PromptTokens.Min != 90 || s.PromptTokens.Max != 90 {
		t.Errorf("%+v, %v", s.PromptTokens, err)
	}
	o.API, o.Prompts, o.PromptLen = Chat, prompts(8), 0
	o.RequestRate, o.Concurrency = 50, 0
	if s, err := Run(t.Context(), o, nil); err != nil || s.Completed != 6 || *s.RateHz != 50 {
		t.Errorf("open loop: %+v, %v", s, err)
	}
}

// closes checks that the times of each request are parts of its whole.
func closes(t *testing.T, s *result.Serving) {
	t.Helper()
	holds(t, s)
	ttft, tpot, ttlt := Times(s)
	streamed := 0 // an answer whose tokens lie less than 10 µs apart came at once, as a busy machine may send it: it has no TPOT
	for i := range s.Records {
		if r := &s.Records[i]; *r.LastTokenS-*r.FirstTokenS >= 10e-6*float64(*r.Generated-1) {
			streamed++
		}
	}
	if ttft.N != s.Completed || tpot.N != streamed || ttlt.N != s.Completed {
		t.Fatalf("%d TTFT, %d TPOT, %d TTLT of %d, of which %d were streamed", ttft.N, tpot.N, ttlt.N, s.Completed, streamed)
	}
	if streamed < s.Completed {
		return
	}
	for i := range s.Records {
		r := &s.Records[i]
		parts := ttft.Samples[i] + tpot.Samples[i]*float64(*r.Generated-1)
		if math.Abs(parts-ttlt.Samples[i]) > 1e-9 {
			t.Errorf("request %d: TTFT and TPOT make %v s, TTLT is %v s", i, parts, ttlt.Samples[i])
		}
		if ttlt.Samples[i] > s.Duration || *r.DoneS < *r.LastTokenS || *r.HeadersS > *r.FirstChunkS || *r.WroteS <= 0 {
			t.Errorf("request %d: its events are out of order: %+v", i, r)
		}
	}
}

// kill -9 of a real server in the middle of a run.
func TestTransformersServeIsKilled(t *testing.T) {
	server, o := realServer(t)
	o.Requests, o.Warmup = 30, 0
	s, err := Run(t.Context(), o, func(done, _ int) {
		if done == 5 {
			syscall.Kill(server.PIDs()[0], syscall.SIGKILL)
			<-server.process.Ended()
		}
	})
	if err != nil || s.Requests != 30 || s.Completed < 5 || s.Completed > 7 {
		t.Errorf("%d completed, %v, %v", s.Completed, s.Failures, err)
	}
	for i := range s.Records {
		if r := &s.Records[i]; (r.Failure == "") != (r.DoneS != nil) || r.Failure == "" && *r.Generated != 8 {
			t.Errorf("%+v", r)
		}
	}
	if err := server.Stop(); !says(err, "ended by itself: signal: killed") {
		t.Error(err)
	}
}
