package openai

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A dialect is the fields of a request that a server refuses by name. The first request
// has all that is wanted; what is refused is left out from then on.
type dialect struct{ refused []string }

// OpenAI wants max_completion_tokens for newer models, in the place of max_tokens.
const (
	maxTokensKey           = "max_tokens"
	maxCompletionTokensKey = "max_completion_tokens"
)

// refusable are the fields that servers refuse, as reasoning models of OpenAI do a
// temperature, and what the measurement lacks for it.
var refusable = []struct{ field, consequence string }{
	{"stream_options", "the requests go without, and their tokens are known only if the server counts them unasked"},
	{"ignore_eos", "the requests go without, and an answer may end before the tokens asked for"},
	{"temperature", "the requests go without, and its own sampling is timed"},
	{"seed", "the requests go without, and the same run again has other answers"},
	{maxTokensKey, maxCompletionTokensKey + " stands in its place"},
}

// without gives the dialect to try next, given a server's refusal, or nil where
// the refusal is not of what can be left out.
func (d *dialect) without(refusal string, o *Options) *dialect {
	if refusal == "" {
		return nil
	}
	sent := o.request(0, d)
	for _, x := range refusable {
		named := x.field
		if named == maxTokensKey { // a refusal of it says what is wanted
			named = maxCompletionTokensKey
		}
		if _, has := sent[x.field]; has && strings.Contains(refusal, named) {
			return &dialect{append(slices.Clone(d.refused), x.field)}
		}
	}
	return nil
}

// notes says what the measurement lacks for it, in the order of the refusals.
func (d *dialect) notes() (notes []string) {
	for _, field := range d.refused {
		for _, x := range refusable {
			if x.field == field {
				notes = append(notes, fmt.Sprintf("the server refuses %s: %s", field, x.consequence))
			}
		}
	}
	return notes
}

// mostSeed bounds the seeds of requests: llama.cpp reads 32 bits, and others a signed number.
const mostSeed = 1<<31 - 1

// request is the n-th request, the warm-up's counted.
func (o *Options) request(n int, d *dialect) map[string]any {
	p := o.prompt(n)
	r := map[string]any{
		"stream": true, maxTokensKey: o.outputTokens(p), "temperature": o.Sampling.Temperature,
		"stream_options": map[string]bool{"include_usage": true},
	}
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
	if o.IgnoreEOS {
		r["ignore_eos"] = true
	}
	if seed := o.Sampling.Seed; seed > 0 {
		r["seed"] = (seed + uint64(n)) & mostSeed
	}
	for _, field := range d.refused {
		if field == maxTokensKey {
			r[maxCompletionTokensKey] = r[maxTokensKey]
		}
		delete(r, field)
	}
	return r
}

// body is the JSON of a request.
func (o *Options) body(n int, d *dialect) []byte {
	body, _ := json.Marshal(o.request(n, d)) // strings and numbers always have a JSON
	return body
}
