package openai

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"llmprof/internal/testkit"
)

// picky is a server that refuses some fields by name, as several do.
type picky struct {
	refuses map[string]string // field to the message
	mu      sync.Mutex
	seen    []map[string]any
}

func (p *picky) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var ask map[string]any
	if err := json.NewDecoder(r.Body).Decode(&ask); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	p.seen = append(p.seen, ask)
	p.mu.Unlock()
	for field, message := range p.refuses {
		if _, has := ask[field]; has {
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":{"message":%q}}`, message)
			return
		}
	}
	stream(w, whole())
}

func TestDialect(t *testing.T) {
	tests := map[string]struct {
		refuses map[string]string
		tries   int // of the first request
		notes   []string
		has     []string
		hasNot  []string
	}{
		"all is taken": {nil, 1, nil, []string{"model", "stream", "stream_options", "max_tokens", "ignore_eos", "temperature", "messages"}, nil},
		"stream_options": {
			map[string]string{"stream_options": "stream_options: Extra inputs are not permitted"}, 2,
			[]string{"refuses stream_options"}, []string{"max_tokens"}, []string{"stream_options"},
		},
		"OpenAI's reasoning models": {
			map[string]string{
				"max_tokens":  "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
				"temperature": "Unsupported value: 'temperature' does not support 0 with this model.",
				"ignore_eos":  "Unrecognized request argument supplied: ignore_eos",
			}, 4,
			[]string{"refuses max_tokens", "refuses temperature", "refuses ignore_eos"},
			[]string{"max_completion_tokens", "stream_options"}, []string{"max_tokens", "temperature", "ignore_eos"},
		},
	}
	for name, test := range tests {
		p := &picky{refuses: test.refuses}
		o := options(serve(t, p.ServeHTTP))
		o.IgnoreEOS, o.Concurrency = true, 1
		s, err := Run(t.Context(), o, nil)
		if err != nil || s.Completed != 4 {
			t.Errorf("%s: %v, %v", name, s, err)
			continue
		}
		if got := len(p.seen); got != 4+test.tries-1 {
			t.Errorf("%s: %d requests, want %d: what was learned stays", name, got, 4+test.tries-1)
		}
		last := p.seen[len(p.seen)-1]
		for _, field := range test.has {
			if _, ok := last[field]; !ok {
				t.Errorf("%s: no %s in %v", name, field, last)
			}
		}
		for _, field := range test.hasNot {
			if _, ok := last[field]; ok {
				t.Errorf("%s: %s in %v", name, field, last)
			}
		}
		notes := strings.Join(remarked(s), "\n")
		for _, want := range test.notes {
			if !strings.Contains(notes, want) {
				t.Errorf("%s: notes %q, want %q", name, notes, want)
			}
		}
		if len(remarked(s)) != len(test.notes) {
			t.Errorf("%s: notes %q", name, notes)
		}
	}
}

// A refusal that names a field for another reason is the failure; nothing is
// learned of it.
func TestRefusalOfAnotherKind(t *testing.T) {
	const message = "'max_tokens' or 'max_completion_tokens' is too large: 3. This model's maximum context length is 2."
	p := &picky{refuses: map[string]string{"max_tokens": message, "max_completion_tokens": message}}
	o := options(serve(t, p.ServeHTTP))
	o.Requests, o.Concurrency = 2, 1
	s, err := Run(t.Context(), o, nil)
	if !says(err, "is too large: 3") || s.Failures[Status4xx] != 2 || len(remarked(s)) != 0 {
		t.Errorf("%v, %v, %q", s.Failures, err, s.Notes)
	}
	if len(p.seen) != 4 || p.seen[2]["max_tokens"] == nil {
		t.Errorf("%d requests, %v", len(p.seen), p.seen)
	}
}

func TestPromptLen(t *testing.T) {
	o := options(serve(t, new(picky).ServeHTTP))
	for want, note := range map[int]string{5: "",
		7: "4 prompts do not have the 7 tokens that they were meant to: by the server's count, 5 to 5"} {
		o.PromptLen = want
		if s, err := Run(t.Context(), o, nil); err != nil || strings.Join(remarked(s), "") != note {
			t.Errorf("%d: %q, %v", want, s.Notes, err)
		}
	}
}

// Prompts are taken in turn, those of the warm-up first, as the server's API
// wants them.
func TestBodies(t *testing.T) {
	p := &picky{}
	var paths []string
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		paths = append(paths, r.Method+" "+r.URL.Path)
		p.ServeHTTP(w, r)
	})
	o := options(url)
	o.Requests, o.Warmup, o.Concurrency, o.API, o.Model = 3, 1, 1, Completions, ""
	o.Prompts = []Prompt{{Text: "warm"}, {Tokens: []int{5, 6, 7}}, {Text: "\"q\" <é>\n"}}
	begun := -1
	o.Begin = func() { begun = len(p.seen) }
	s, err := Run(t.Context(), o, nil)
	if err != nil || s.Warmups != 1 || s.Requests != 3 || begun != 1 {
		t.Fatalf("%+v, %v, begun after %d", s, err, begun)
	}
	var prompts []string
	for _, ask := range p.seen {
		prompts = append(prompts, fmt.Sprint(ask["prompt"]))
		if _, has := ask["model"]; has || ask["max_tokens"] != 3. || ask["stream"] != true {
			t.Errorf("%v", ask)
		}
	}
	if want := []string{"warm", "[5 6 7]", "\"q\" <é>\n", "warm"}; !slices.Equal(prompts, want) {
		t.Errorf("prompts %q, want %q", prompts, want)
	}
	if !slices.Equal(slices.Compact(paths), []string{"POST /v1/completions"}) {
		t.Errorf("paths %q", paths)
	}
	if notes := remarked(s); len(notes) != 1 || !strings.Contains(notes[0], "prompts come again, 3 among 4 requests") {
		t.Errorf("notes %q", notes)
	}
}

func TestOptionsCheck(t *testing.T) {
	good := options("http://h")
	tests := map[string]func(*Options){
		`no API "chatty": there are "chat" and "completions"`: func(o *Options) { o.API = "chatty" },
		"neither a concurrency nor a request rate":            func(o *Options) { o.Concurrency = 0 },
		"a concurrency of -1":                                 func(o *Options) { o.Concurrency = -1 },
		"a request rate of -2":                                func(o *Options) { o.RequestRate = -2 },
		"0 requests":                                          func(o *Options) { o.Requests = 0 },
		"a warm-up of -1":                                     func(o *Options) { o.Warmup = -1 },
		"prompts of -1 tokens":                                func(o *Options) { o.PromptLen = -1 },
		"0 generated tokens":                                  func(o *Options) { o.GenLen = 0 },
		"a timeout of -1ns":                                   func(o *Options) { o.Timeout = -1 },
		"no prompts":                                          func(o *Options) { o.Prompts = nil },
		"prompt 2 of 2: it is empty":                          func(o *Options) { o.Prompts = []Prompt{{Text: "a"}, {}} },
		"which the chat API does not take":                    func(o *Options) { o.Prompts = []Prompt{{Tokens: []int{1}}} },
		"token 1 is -4": func(o *Options) {
			o.API, o.Prompts = Completions,
				[]Prompt{{Tokens: []int{1, -4}}}
		},
		"the API key has a line break":  func(o *Options) { o.Key = "a\nb" },
		`does not begin with "http://"`: func(o *Options) { o.BaseURL = "localhost:8000" },
		"names no host":                 func(o *Options) { o.BaseURL = "http://" },
		"cannot be read":                func(o *Options) { o.BaseURL = "http://user:se/cret@h" },
		"which is not of the chat API":  func(o *Options) { o.BaseURL = "http://h/v1/completions" },
	}
	for want, spoil := range tests {
		o := good
		spoil(&o)
		s, err := Run(t.Context(), o, nil)
		if s != nil || !says(err, want) || strings.Contains(err.Error(), "cret") {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestSampling checks what of the sampling a server is sent: the warm-up's requests have seeds of their own, and no
// seed is sent where none was given.
func TestSampling(t *testing.T) {
	o := options("http://127.0.0.1:1")
	o.Warmup = 2
	for _, test := range []struct {
		sampling Sampling
		refused  dialect
		want     []string // The first request that counts has this temperature and seed.
	}{
		{Sampling{}, dialect{}, []string{"0", ""}},
		{Sampling{Temperature: 0.7}, dialect{}, []string{"0.7", ""}},
		{Sampling{Temperature: 0.7, Seed: 5}, dialect{}, []string{"0.7", "7"}},
		{Sampling{Temperature: 2, Seed: 1 << 40}, dialect{}, []string{"2", "2"}}, // llama.cpp reads 32 bits
		{Sampling{Temperature: 2, Seed: 5}, dialect{[]string{"seed"}}, []string{"2", ""}},
		{Sampling{Temperature: 2, Seed: 5}, dialect{[]string{"temperature"}}, []string{"", "7"}},
	} {
		o.Sampling = test.sampling
		var sent struct{ Temperature, Seed json.Number }
		testkit.Must(t, json.Unmarshal(o.body(2, &test.refused), &sent))
		if got := []string{string(sent.Temperature), string(sent.Seed)}; !slices.Equal(got, test.want) {
			t.Errorf("%+v, %+v: sent %q, want %q", test.sampling, test.refused, got, test.want)
		}
	}
	for _, bad := range []float64{-1, 2.1, math.NaN(), math.Inf(1)} {
		o.Sampling.Temperature = bad
		if err := o.check(); !says(err, "want 0 to 2") {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// A server without seeds is asked without one from then on.
func TestSeedRefused(t *testing.T) {
	p := &picky{refuses: map[string]string{"seed": "Unrecognized request argument supplied: seed"}}
	o := options(serve(t, p.ServeHTTP))
	o.Concurrency, o.Sampling = 1, Sampling{Temperature: 1, Seed: 3}
	s, err := Run(t.Context(), o, nil)
	if err != nil || s.Completed != 4 || len(p.seen) != 5 || !strings.Contains(strings.Join(remarked(s), ""), "refuses seed") {
		t.Errorf("%+v, %v, %d requests", s, err, len(p.seen))
	}
}
