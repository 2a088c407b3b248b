package openai

import (
	"context"
	"sync"
	"time"

	"llmprof/internal/concurrent"
	"llmprof/measure/result"
)

// countLimit is how long the first chunks are counted after a run.
const countLimit = 10 * time.Second

// countFirst finds how many tokens the first chunk of each answer has, which came together with TTFT. Where usage does
// not say it in that chunk, and the answer has fewer chunks than tokens, the server's tokenizer is asked, if it has one.
func (r *runner) countFirst(ctx context.Context, outcomes []*outcome) {
	ctx, cancel := context.WithTimeout(ctx, countLimit)
	defer cancel()
	var asked []*outcome
	for _, o := range outcomes {
		o.record.FirstTokens = firstTokens(&o.record, o.record.FirstTokens)
		if o.record.FirstTokens == nil && o.first != "" && tpotShort(&o.record) > 0 {
			asked = append(asked, o)
		}
	}
	if len(asked) == 0 || ctx.Err() != nil {
		return
	}
	own := &runner{options: r.options, endpoint: r.endpoint, clients: r.options.visitor()}
	defer own.clients.free()
	way := own.pieces(ctx, asked[0].first)
	if way == nil {
		return
	}
	var known sync.Map // texts repeat where answers do
	_ = concurrent.Do(len(asked), countedAhead, func(i int) error {
		o := asked[i]
		n, there := known.Load(o.first)
		if !there {
			count, err := way(ctx, o.first)
			if err != nil {
				return ctx.Err() // another text may be counted
			}
			known.Store(o.first, count)
			n = count
		}
		o.record.FirstTokens = firstTokens(&o.record, new(n.(int)))
		return nil
	})
}

// firstTokens is a count of the first chunk's tokens as far as it can be: nil for one that is none of the answer's. A
// text that is cut into tokens anew may have a few more, but each other chunk has one at least.
func firstTokens(r *result.Record, n *int) *int {
	if n == nil || r.Failure != "" || r.Generated == nil || r.Chunks < 1 || *n < 1 || *n > *r.Generated {
		return nil
	}
	return new(max(min(*n, *r.Generated-r.Chunks+1), 1))
}

// pieces is how the server counts the tokens of a text alone, without a template and without what begins a prompt; nil
// where it does not count a first one.
func (r *runner) pieces(ctx context.Context, text string) func(context.Context, string) (int, error) {
	for _, ask := range []func(string) map[string]any{
		func(text string) map[string]any { // vLLM and SGLang
			return map[string]any{"model": r.options.Model, "prompt": text, "add_special_tokens": false}
		},
		func(text string) map[string]any { // llama.cpp
			return map[string]any{"content": text, "add_special": false, "parse_special": true}
		},
	} {
		way := func(ctx context.Context, text string) (int, error) { return r.tokenize(ctx, ask(text)) }
		if n, err := way(ctx, text); err == nil && n > 0 {
			return way
		}
	}
	return nil
}
