//go:build linux

package openai

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// llamaPython finds a Python that has llama.cpp's server.
func llamaPython(t *testing.T) string {
	t.Helper()
	return pythonWith(t, "xllamacpp and gguf", "xllamacpp, gguf")
}

// llamaServer starts llama.cpp's server with a tiny model of random weights, whose
// vocabulary has the words of random prompts.
func llamaServer(t *testing.T) Options {
	t.Helper()
	py, addr := llamaPython(t), free(t)
	host, port, _ := strings.Cut(addr, ":")
	file := filepath.Join(t.TempDir(), "tiny.gguf")
	o := Options{
		BaseURL: "http://" + addr, API: Completions, Model: file, Concurrency: 4, Requests: 200, Warmup: 8, GenLen: 16,
		IgnoreEOS: true, Timeout: time.Minute,
	}
	ready, err := Answers(o)
	if err != nil {
		t.Fatal(err)
	}
	s, err := StartServer(t.Context(), ServerSpec{
		Command: fmt.Sprintf("'%s' testdata/llamacpp.py '%s' %s %s 4 %s", py, file, host, port, strings.Join(strings.Fields(common), " ")),
		Ready:   ready, Timeout: 90 * time.Second, Grace: 5 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	return o
}

// llama.cpp closes the connections that it says it keeps: every request is completed
// all the same, however connections are used, and the server's own counters agree
// with what is counted here.
func TestLlamaServer(t *testing.T) {
	o := llamaServer(t)
	o.Metrics = true
	for i, how := range []string{Pooled, Worker, New} {
		o.Prompts, o.Connections = RandomTokens(o.Requests+o.Warmup, 100, 500, 1000, uint64(1+i)), how
		o.PromptLen = 100
		s, err := Run(t.Context(), o, nil)
		if err != nil || s.Completed != 200 {
			t.Fatalf("%s: %v, %v", how, s.Failures, err)
		}
		if s.PromptTokens.Min != 100 || s.PromptTokens.Max != 100 || s.GeneratedTokens.Mean != 16 {
			t.Errorf("%s: prompts %+v, answers %+v", how, s.PromptTokens, s.GeneratedTokens)
		}
		m := s.Metrics
		if m == nil || m.Source != "llamacpp" || m.Counters["generated_tokens"] != 200*16 ||
			m.Counters["prompt_tokens"]+m.Counters["prefix_hits"] != 200*100 {
			t.Errorf("%s: the server counts %+v", how, m)
		}
		if m != nil && m.Running != nil && m.Running.Max > 4 {
			t.Errorf("%s: %v requests ran", how, m.Running.Max)
		}
		if *s.PrefixCache.Share > 0.01 {
			t.Errorf("%s: cached %+v", how, s.PrefixCache)
		}
		holds(t, s)
	}
}

// The same prompts again are answered from the server's cache, which is said by usage,
// by its counters, and by a TTFT below that of new ones.
func TestLlamaCache(t *testing.T) {
	o := llamaServer(t)
	o.Prompts, o.Requests, o.Warmup, o.Concurrency = RandomTokens(1, 1500, 500, 1000, 1), 20, 2, 1
	o.Metrics = true
	s, err := Run(t.Context(), o, nil)
	if err != nil {
		t.Fatal(err)
	}
	if c := s.PrefixCache; c.Source != fromUsage || *c.Share < 0.9 ||
		!strings.Contains(strings.Join(s.Notes, "\n"), "from its cache of prefixes") {
		t.Errorf("%+v, %q", c, s.Notes)
	}
	for i := range s.Records { // as of a server whose usage does not say it
		s.Records[i].Cached = nil
	}
	if c := cached(s); c.Source != fromMetrics || *c.Share < 0.9 {
		t.Errorf("by its counters: %+v", c)
	}
	hit, err := Control(t.Context(), o, s, RandomTokens(5, 1500, 500, 1000, 2))
	if err != nil || !hit || s.PrefixCache.Source != fromControl || *s.PrefixCache.ControlTTFT <= 0 {
		t.Errorf("by control prompts: %v, %+v, %v", hit, s.PrefixCache, err)
	}
	o.Prompts = RandomTokens(22, 1500, 500, 1000, 3)
	if s, err = Run(t.Context(), o, nil); err != nil || *s.PrefixCache.Share > 0.01 {
		t.Fatalf("new prompts: %+v, %v", s.PrefixCache, err)
	}
	if hit, err = Control(t.Context(), o, s, RandomTokens(5, 1500, 500, 1000, 4)); err != nil || hit {
		t.Errorf("new prompts: %v, %v", hit, err)
	}
}

// A temperature changes the answers, and the same seed gives the same ones, one request at a time. A prompt that the
// server has in its cache is computed in other batches, whose rounding may turn one answer or another.
func TestLlamaSampling(t *testing.T) {
	o := llamaServer(t)
	o.Prompts, o.Requests, o.Warmup, o.Concurrency, o.SaveOutputs = RandomTokens(6, 20, 500, 1000, 1), 6, 0, 1, true
	outputs := map[string][]string{}
	for name, sampling := range map[string]Sampling{
		"greedy": {}, "greedy again": {}, "seed 5": {2, 5}, "seed 5 again": {2, 5}, "seed 50": {2, 50},
	} {
		o.Sampling = sampling
		s, err := Run(t.Context(), o, nil)
		if err != nil || s.Completed != 6 {
			t.Fatalf("%s: %+v, %v", name, s, err)
		}
		for _, r := range s.Records {
			outputs[name] = append(outputs[name], r.Output)
		}
	}
	same := func(a, b string) (n int) {
		for i, x := range outputs[a] {
			if x == outputs[b][i] {
				n++
			}
		}
		return n
	}
	if same("greedy", "greedy again") < 4 || same("seed 5", "seed 5 again") < 4 || same("greedy", "seed 5") > 0 ||
		same("seed 5", "seed 50") > 0 {
		t.Errorf("%q", outputs)
	}
}

// What a server says of itself is read.
func TestLlamaAbout(t *testing.T) {
	o := llamaServer(t)
	a, err := Inquire(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if a.Kind != "llama.cpp" || a.Weights != "fp32" || a.Vocab != 1000 || a.MaxLen != 2048 || !a.HasMetrics || a.Options["slots"] != "4" ||
		a.KV != "" || a.TP != 0 {
		t.Errorf("%+v", a)
	}
	if len(a.Models) != 1 || a.Models[0] != o.Model {
		t.Errorf("models %q", a.Models)
	}
	if takes, err := TakesTokens(t.Context(), o, Prompt{Tokens: []int{600, 601}}); err != nil || !takes {
		t.Errorf("it takes no tokens: %v", err)
	}
}

// Texts get the length that was asked for, by the server's own count, with what it
// adds to them.
func TestLlamaFit(t *testing.T) {
	o := llamaServer(t)
	for _, api := range []string{Completions, Chat} {
		o.API = api
		c, err := NewCounter(t.Context(), o)
		if err != nil || c.How != "/tokenize" {
			t.Fatalf("%s: %+v, %v", api, c, err)
		}
		const n = 20
		o.Prompts, o.PromptLen = RandomText(n, 200, 7), 200
		if err := Fit(t.Context(), c, o.Prompts, 200); err != nil {
			t.Fatalf("%s: %v", api, err)
		}
		c.Close()
		o.Requests, o.Warmup = n, 0
		s, err := Run(t.Context(), o, nil)
		if err != nil || s.PromptTokens.Min != 200 || s.PromptTokens.Max != 200 {
			t.Errorf("%s: %+v, %v", api, s.PromptTokens, err)
		}
		if _, err := NewCounter(t.Context(), o); err != nil {
			t.Error(err)
		}
		if err := Fit(t.Context(), c, RandomText(1, 5, 1), 1); api == Chat && !says(err, "the server's template alone takes") {
			t.Errorf("a chat of one token: %v", err)
		}
	}
}
