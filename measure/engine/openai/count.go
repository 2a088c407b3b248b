package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// A Counter counts the tokens of a text as the server sees it: with the template of
// a chat, and with what begins every prompt.
type Counter struct {
	How   string // "/tokenize", or "usage" where the server offers no count
	count func(context.Context, string) (int, error)
	free  func()
}

// Count is the tokens of a prompt of this text.
func (c *Counter) Count(ctx context.Context, text string) (int, error) { return c.count(ctx, text) }

// Close lets go of its connections.
func (c *Counter) Close() { c.free() }

// NewCounter finds out how the server counts: it is asked for the tokens of a few
// words. Where it has no page for it, it is asked for answers of one token, and its
// usage is read.
func NewCounter(ctx context.Context, o Options) (*Counter, error) {
	at, err := newEndpoint(o.BaseURL, o.API)
	if err != nil {
		return nil, err
	}
	r := &runner{options: o, endpoint: at, clients: o.visitor()}
	r.dialect.Store(newDialect())
	const words = "of the people"
	for _, way := range r.tokenizers() {
		if n, err := way(ctx, words); err == nil && n > 0 {
			return &Counter{How: "/tokenize", count: way, free: r.clients.free}, nil
		}
	}
	if _, err := r.byUsage(ctx, words); err != nil {
		r.clients.free()
		return nil, err
	}
	return &Counter{How: fromUsage, count: r.byUsage, free: r.clients.free}, nil
}

// byUsage asks for an answer of one token.
func (r *runner) byUsage(ctx context.Context, text string) (int, error) {
	s, err := Run(ctx, r.options.aside(Prompt{Text: text}), nil)
	switch {
	case err != nil:
		return 0, err
	case s.Records[0].Prompt == nil:
		return 0, fmt.Errorf("%s does not say how many tokens a prompt has", r.endpoint.public)
	}
	return *s.Records[0].Prompt, nil
}

// tokenizers are the ways in which servers count tokens when asked to.
func (r *runner) tokenizers() []func(context.Context, string) (int, error) {
	chat := r.options.API == Chat
	messages := func(text string) []map[string]string { return []map[string]string{{"role": "user", "content": text}} }
	vllm := func(ctx context.Context, text string) (int, error) { // vLLM and SGLang
		ask := map[string]any{"model": r.options.Model, "prompt": text}
		if chat {
			ask = map[string]any{"model": r.options.Model, "messages": messages(text), "add_generation_prompt": true}
		}
		return r.tokenize(ctx, ask)
	}
	llamacpp := func(ctx context.Context, text string) (int, error) {
		if chat {
			var made struct {
				Prompt string `json:"prompt"`
			}
			if err := r.post(ctx, "apply-template", map[string]any{"messages": messages(text)}, &made); err != nil {
				return 0, err
			}
			text = made.Prompt
		}
		return r.tokenize(ctx, map[string]any{"content": text, "add_special": true, "parse_special": true})
	}
	return []func(context.Context, string) (int, error){vllm, llamacpp}
}

// tokenize posts to the page of that name, whose answer has a count or the tokens.
func (r *runner) tokenize(ctx context.Context, ask map[string]any) (int, error) {
	var said struct {
		Count  int               `json:"count"`
		Tokens []json.RawMessage `json:"tokens"`
	}
	if err := r.post(ctx, "tokenize", ask, &said); err != nil {
		return 0, err
	}
	n := max(said.Count, len(said.Tokens))
	if n == 0 {
		return 0, errors.New("/tokenize counts no token")
	}
	return n, nil
}

func (r *runner) post(ctx context.Context, path string, ask, answer any) error {
	body, err := json.Marshal(ask)
	if err != nil {
		return err
	}
	said, err := r.call(ctx, http.MethodPost, path, body)
	if err != nil {
		return err
	}
	return json.Unmarshal(said, answer)
}

// TakesTokens reports whether the server takes prompts of tokens: it is asked for one
// token after a few of them. Whatever else goes wrong will do so again.
func TakesTokens(ctx context.Context, o Options, p Prompt) (bool, error) {
	s, err := Run(ctx, o.aside(p), nil)
	if err == nil || s == nil || len(s.Records) == 0 {
		return err == nil, err
	}
	if code := s.Records[0].Status; code == http.StatusBadRequest || code == http.StatusUnprocessableEntity {
		return false, nil
	}
	return false, err
}
