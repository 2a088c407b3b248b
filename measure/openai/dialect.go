package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A dialect is the part of a request on which servers differ. It begins with
// all that is wanted; what a server refuses by name is left out from then on.
type dialect struct {
	MaxTokens    string // max_tokens, or max_completion_tokens, which OpenAI wants for newer models
	NoUsage      bool   // the server refuses stream_options.include_usage
	NoIgnoreEOS  bool
	NoSampling   bool // the server refuses a temperature, as reasoning models of OpenAI do
	NoSeed       bool
	refusedNames []string
}

const (
	maxTokensKey           = "max_tokens"
	maxCompletionTokensKey = "max_completion_tokens"
)

func newDialect() *dialect { return &dialect{MaxTokens: maxTokensKey} }

// without gives the dialect to try next, given a server's refusal, or nil where
// the refusal is not of what can be left out.
func (d *dialect) without(refusal string, o *Options) *dialect {
	n := *d
	n.refusedNames = slices.Clone(d.refusedNames)
	for _, x := range []struct {
		name  string
		asked bool
		gone  *bool
	}{{"stream_options", true, &n.NoUsage}, {"ignore_eos", o.IgnoreEOS, &n.NoIgnoreEOS}, {"temperature", true, &n.NoSampling},
		{"seed", o.Sampling.Seed > 0, &n.NoSeed}} {
		if x.asked && !*x.gone && strings.Contains(refusal, x.name) {
			*x.gone, n.refusedNames = true, append(n.refusedNames, x.name)
			return &n
		}
	}
	if strings.Contains(refusal, maxCompletionTokensKey) && d.MaxTokens == maxTokensKey {
		n.MaxTokens, n.refusedNames = maxCompletionTokensKey, append(n.refusedNames, maxTokensKey)
		return &n
	}
	return nil
}

// notes says what the measurement lacks for it.
func (d *dialect) notes() []string {
	consequence := map[string]string{
		"stream_options": "the requests go without, and their tokens are known only if the server counts them unasked",
		"ignore_eos":     "the requests go without, and an answer may end before the tokens asked for",
		"temperature":    "the requests go without, and its own sampling is timed",
		"seed":           "the requests go without, and the same run again has other answers",
		maxTokensKey:     maxCompletionTokensKey + " stands in its place",
	}
	var notes []string
	for _, name := range d.refusedNames {
		notes = append(notes, fmt.Sprintf("the server refuses %s: %s", name, consequence[name]))
	}
	return notes
}

// mostSeed bounds the seeds of requests: llama.cpp reads 32 bits, and others a signed number.
const mostSeed = 1<<31 - 1

// body writes the n-th request, the warm-up's counted.
func (o *Options) body(n int, d *dialect) []byte {
	p := o.prompt(n)
	r := map[string]any{"stream": true, d.MaxTokens: o.asked(p)}
	if o.Model != "" {
		r["model"] = o.Model
	}
	switch {
	case o.API == Chat:
		r["messages"] = []map[string]string{{"role": "user", "content": p.Text}}
	case len(p.Tokens) > 0:
		r["prompt"] = p.Tokens
	default:
		r["prompt"] = p.Text
	}
	if !d.NoUsage {
		r["stream_options"] = map[string]bool{"include_usage": true}
	}
	if o.IgnoreEOS && !d.NoIgnoreEOS {
		r["ignore_eos"] = true
	}
	if !d.NoSampling {
		r["temperature"] = o.Sampling.Temperature
	}
	if seed := o.Sampling.Seed; seed > 0 && !d.NoSeed {
		r["seed"] = (seed + uint64(n)) & mostSeed
	}
	body, _ := json.Marshal(r) // strings and numbers always have a JSON
	return body
}
