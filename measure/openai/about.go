package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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

// pages are asked for in turn, each with what reads it. A server has some of them; what the first that knows
// says is not overwritten.
var pages = []struct {
	path string
	read func(*About, []byte)
}{
	{"v1/models", (*About).models},
	{"version", (*About).vllmVersion},
	{"server_info", (*About).serverInfo},     // SGLang; vLLM in its development mode
	{"get_server_info", (*About).serverInfo}, // older SGLang
	{"props", (*About).props},                // llama.cpp
	{"info", (*About).info},                  // TGI
	{"api/version", (*About).ollama},
	{"metrics", (*About).metrics},
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
			p.read(a, body)
		case errors.As(err, &refused) && refused.Kind == Refused:
			return nil, fmt.Errorf("%s: %w", r.endpoint.public, refused)
		}
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

func (a *About) models(body []byte) {
	var list struct {
		Data []struct {
			ID     string `json:"id"`
			Owner  string `json:"owned_by"`
			MaxLen int    `json:"max_model_len"`
			Meta   struct {
				Vocab  int    `json:"n_vocab"`
				Len    int    `json:"n_ctx"`
				Format string `json:"ftype"`
			} `json:"meta"`
		} `json:"data"`
	}
	if json.Unmarshal(body, &list) != nil {
		return
	}
	for _, m := range list.Data {
		a.Models = append(a.Models, m.ID)
		a.Vocab = max(a.Vocab, m.Meta.Vocab)
		a.MaxLen = max(a.MaxLen, m.MaxLen, m.Meta.Len)
		first(&a.Weights, formatOf(m.Meta.Format))
		switch m.Owner {
		case "vllm", "sglang":
			a.Kind = m.Owner
		case "llamacpp":
			a.Kind = "llama.cpp"
		}
	}
}

func (a *About) vllmVersion(body []byte) {
	var v struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(body, &v) == nil {
		first(&a.Version, v.Version)
	}
}

// serverInfo reads what SGLang was started with.
func (a *About) serverInfo(body []byte) {
	var v struct {
		Version      string `json:"version"`
		DType        string `json:"dtype"`
		Quantization string `json:"quantization"`
		KV           string `json:"kv_cache_dtype"`
		TP           int    `json:"tp_size"`
		DP           int    `json:"dp_size"`
	}
	if json.Unmarshal(body, &v) != nil || v.TP == 0 && v.DType == "" {
		return
	}
	first(&a.Version, v.Version)
	if v.Quantization == "" {
		first(&a.Weights, formatOf(v.DType))
	} else {
		a.Options["quantization"] = v.Quantization
	}
	first(&a.KV, formatOf(v.KV))
	a.TP, a.DP = max(a.TP, v.TP), max(a.DP, v.DP)
}

// props reads what llama.cpp says of its model.
func (a *About) props(body []byte) {
	var v struct {
		Build  string `json:"build_info"`
		Format string `json:"model_ftype"`
		Slots  int    `json:"total_slots"`
	}
	if json.Unmarshal(body, &v) != nil || v.Slots == 0 {
		return
	}
	first(&a.Kind, "llama.cpp")
	first(&a.Version, v.Build)
	first(&a.Weights, formatOf(v.Format))
	a.Options["slots"] = fmt.Sprint(v.Slots)
}

// info reads what TGI says.
func (a *About) info(body []byte) {
	var v struct {
		Version string `json:"version"`
		DType   string `json:"model_dtype"`
		MaxLen  int    `json:"max_total_tokens"`
	}
	if json.Unmarshal(body, &v) != nil || v.MaxLen == 0 {
		return
	}
	first(&a.Kind, "tgi")
	first(&a.Version, v.Version)
	first(&a.Weights, formatOf(v.DType))
	a.MaxLen = max(a.MaxLen, v.MaxLen)
}

func (a *About) ollama(body []byte) {
	var v struct {
		Version string `json:"version"`
	}
	if json.Unmarshal(body, &v) == nil && v.Version != "" && a.Version == "" {
		first(&a.Kind, "ollama")
		a.Version = v.Version
	}
}

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
