//go:build linux

package openai

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// vllmServer starts vLLM with a tiny model of random weights, on the processor or a
// GPU, with the Python that LLMPROF_VLLM names. It takes a minute to start, and is no
// part of CI.
func vllmServer(t *testing.T) Options {
	t.Helper()
	py := os.Getenv("LLMPROF_VLLM")
	if py == "" {
		t.Skip("no Python with vLLM: name one in LLMPROF_VLLM")
	}
	model := t.TempDir()
	if out, err := exec.Command(py, append([]string{"testdata/tiny.py", model}, strings.Fields(common)...)...).CombinedOutput(); err != nil {
		t.Fatalf("the model cannot be made: %v\n%s", err, out)
	}
	addr := free(t)
	host, port, _ := strings.Cut(addr, ":")
	o := Options{
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
	return o
}

// vLLM's own counters agree with what is counted here, its cache of prefixes is seen
// though its usage says nothing of it, and texts have the length that was asked for.
func TestVLLM(t *testing.T) {
	o := vllmServer(t)
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
