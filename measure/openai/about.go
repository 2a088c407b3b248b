package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// About is what a server says of itself and of what it runs. What it does not say is
// empty.
type About struct {
	Kind       string            // "vllm", "sglang", "llama.cpp", "tgi", "ollama"
	Version    string            // version of the server
	Models     []string          // models that the server lists
	Vocab      int               // tokens of its vocabulary
	MaxLen     int               // most tokens of a prompt with its answer
	Weights    string            // format of the weights, in the words of estimates where they have one
	KV         string            // format of the KV cache; "" if the server does not say
	TP         int               // GPUs that share a matrix
	DP         int               // engines side by side
	Options    map[string]string // more of how it was started
	HasMetrics bool              // The server has a page of metrics.
	Away       []string          // other hosts that the server redirected these questions to
}

// pages are asked for in turn. A server has some of them; what the first that knows says is not overwritten. Those of which other servers
// have none name the kind of the server, which a page shows by what it has.
var pages = []page{
	{path: "v1/models"},
	{path: "version"},         // vLLM
	{path: "server_info"},     // SGLang; vLLM in its development mode
	{path: "get_server_info"}, // older SGLang
	{"props", "llama.cpp", func(s *said) bool { return s.Slots > 0 }},
	{"info", "tgi", func(s *said) bool { return s.TotalTokens > 0 }},
	{"api/version", "ollama", func(s *said) bool { return s.Version != "" }},
}

// A page is one that a server may have.
type page struct {
	path, kind string
	shown      func(*said) bool
}

// said is what is read of all pages, whose names do not collide.
type said struct {
	Models []struct {
		ID     string `json:"id"`
		Owner  string `json:"owned_by"`
		MaxLen int    `json:"max_model_len"`
		Meta   struct {
			Vocab  int    `json:"n_vocab"`
			Len    int    `json:"n_ctx"`
			Format string `json:"ftype"`
		} `json:"meta"`
	} `json:"data"`
	Version      string `json:"version"`
	Build        string `json:"build_info"` // llama.cpp's version
	DType        string `json:"dtype"`
	ModelDType   string `json:"model_dtype"` // TGI
	Format       string `json:"model_ftype"` // llama.cpp
	Quantization string `json:"quantization"`
	KV           string `json:"kv_cache_dtype"`
	TP           int    `json:"tp_size"`
	DP           int    `json:"dp_size"`
	Slots        int    `json:"total_slots"`
	TotalTokens  int    `json:"max_total_tokens"`
	Running      int    `json:"max_running_requests"` // SGLang, as those that follow
	Chunk        int    `json:"chunked_prefill_size"`
	Pool         int    `json:"max_total_num_tokens"`
}

// Inquire asks a server what it is. A page that it has not is none of its failures;
// an answer of nobody at all is.
func Inquire(ctx context.Context, o Options) (*About, error) {
	r, err := o.visit()
	if err != nil {
		return nil, err
	}
	defer r.clients.free()
	a := &About{Options: map[string]string{}}
	for _, p := range pages {
		body, err := r.page(ctx, p.path)
		var refused *Failure
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err == nil:
			a.read(&p, body)
		case errors.As(err, &refused) && refused.Kind == Refused:
			return nil, fmt.Errorf("%s: %w", r.endpoint.public, refused)
		}
	}
	if body, err := r.page(ctx, "metrics"); err == nil {
		a.metrics(body)
	}
	r.away.Range(func(host, _ any) bool {
		a.Away = append(a.Away, host.(string))
		return true
	})
	slices.Sort(a.Away)
	return a, nil
}

// first sets a text that is not known yet.
func first(to *string, value string) {
	if *to == "" {
		*to = value
	}
}

// read takes in what a page says. What has another type than is known is passed over.
func (a *About) read(p *page, body []byte) {
	var s said
	_ = json.Unmarshal(body, &s)
	if p.kind != "" && (!p.shown(&s) || a.Kind != "" && a.Kind != p.kind) {
		return
	}
	first(&a.Kind, p.kind)
	for _, m := range s.Models {
		a.Models = append(a.Models, m.ID)
		a.Vocab = max(a.Vocab, m.Meta.Vocab)
		a.MaxLen = max(a.MaxLen, m.MaxLen, m.Meta.Len)
		first(&a.Weights, formatOf(m.Meta.Format))
		if owners[m.Owner] != "" {
			a.Kind = owners[m.Owner]
		}
	}
	first(&a.Version, cmp.Or(s.Build, s.Version))
	if s.Quantization != "" {
		a.Options["quantization"] = s.Quantization
	} else {
		first(&a.Weights, formatOf(cmp.Or(s.DType, s.ModelDType, s.Format)))
	}
	first(&a.KV, formatOf(s.KV))
	a.TP, a.DP = max(a.TP, s.TP), max(a.DP, s.DP)
	if p.kind == "tgi" { // SGLang has a pool of that name
		a.MaxLen = max(a.MaxLen, s.TotalTokens)
	}
	for key, n := range map[string]int{"slots": s.Slots, "max_running_requests": s.Running, "chunked_prefill_size": s.Chunk,
		"max_total_num_tokens": s.Pool} {
		if n > 0 {
			a.Options[key] = strconv.Itoa(n)
		}
	}
}

// owners are the kinds of servers by whom they say that their models belong to.
var owners = map[string]string{"vllm": "vllm", "sglang": "sglang", "llamacpp": "llama.cpp"}

// metrics reads the labels of vLLM's cache.
func (a *About) metrics(body []byte) {
	m := parseMetrics(body)
	kind := m.kind()
	if kind == "" {
		return
	}
	a.HasMetrics = true
	first(&a.Kind, kinds[kind])
	a.DP = max(a.DP, m.lines["vllm:num_requests_running"])
	for key, value := range m.labels["vllm:cache_config_info"] {
		if value == "None" { // Python writes None for what there is not.
			continue
		}
		switch key {
		case "cache_dtype":
			first(&a.KV, formatOf(value))
			fallthrough
		case "block_size", "enable_prefix_caching", "gpu_memory_utilization", "num_gpu_blocks", "num_cpu_blocks", "kv_cache_size_tokens":
			a.Options[key] = value
		}
	}
}

// formatOf gives a format in the words of estimates, and another in the server's;
// "auto" says nothing.
func formatOf(said string) string {
	word := strings.ToLower(strings.TrimPrefix(said, "torch."))
	word = strings.TrimPrefix(word, "all ")
	switch word {
	case "auto", "none":
		return ""
	case "bfloat16", "bf16":
		return "bf16"
	case "float16", "half", "f16", "fp16":
		return "fp16"
	case "float32", "float", "f32", "fp32":
		return "fp32"
	case "fp8", "fp8_e4m3", "fp8_e5m2", "fp8_e4m3fn":
		return "fp8"
	}
	return said
}
