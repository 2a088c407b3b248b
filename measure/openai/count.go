package openai

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"

	"llmprof/internal/concurrent"
)

// A Counter counts the tokens of a text as the server sees it: with the template of
// a chat, and with what begins every prompt.
type Counter struct {
	How   string // "/tokenize", or "usage" where the server offers no count
	Count func(ctx context.Context, text string) (int, error)
	free  func()
}

// Close lets go of its connections.
func (c *Counter) Close() { c.free() }

// NewCounter finds out how the server counts: it is asked for the tokens of a few
// words. Where it has no page for it, it is asked for answers of one token, and its
// usage is read.
func NewCounter(ctx context.Context, o Options) (*Counter, error) {
	r, err := o.visit()
	if err != nil {
		return nil, err
	}
	r.dialect.Store(&dialect{})
	const words = "of the people"
	for _, way := range r.tokenizers() {
		if n, err := way(ctx, words); err == nil && n > 0 {
			return &Counter{How: "/tokenize", Count: way, free: r.clients.free}, nil
		}
	}
	if _, err := r.byUsage(ctx, words); err != nil {
		r.clients.free()
		return nil, err
	}
	return &Counter{How: fromUsage, Count: r.byUsage, free: r.clients.free}, nil
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

// fillers are what is put at the end of a text to gain a token: one of them is a
// token of its own in nearly every vocabulary.
var fillers = []string{" the", " a", "a", ".", " w1", "\n"}

// countedAhead is how many prompts are fitted at a time.
const countedAhead = 8

// Fit trims and extends random texts until each has so many tokens by the server's
// own count, as near as its tokenizer lets it. By usage, which costs the server a
// prefill each time, a few are counted, and all have the number of words that follows.
func Fit(ctx context.Context, c *Counter, texts []Prompt, tokens int) error {
	if len(texts) == 0 {
		return nil
	}
	r, err := c.rate(ctx, strings.Fields(texts[0].Text), tokens)
	if err != nil {
		return err
	}
	if c.How == fromUsage {
		for i := range texts {
			texts[i].Text = strings.Join(resized(strings.Fields(texts[i].Text), r.words), " ")
		}
		return nil
	}
	return concurrent.Do(len(texts), countedAhead, func(i int) error {
		text, err := c.fit(ctx, strings.Fields(texts[i].Text), r, tokens)
		if err == nil {
			texts[i].Text = text
		}
		return err
	})
}

// resized is a text of so many words, its own over again where it has too few.
func resized(words []string, n int) []string {
	n = max(n, 1)
	out := make([]string, 0, n)
	for len(out) < n {
		out = append(out, words[:min(len(words), n-len(out))]...)
	}
	return out
}

// mostWords is the most words of a token that are believed: the words are single tokens in nearly every vocabulary,
// and a text never grows beyond so many for each token that it is to have.
const mostWords = 2

// mostCounts is how often a text is counted until it has its length; a count that is about proportional to the words
// takes less than ten.
const mostCounts = 64

// A rate is how many tokens a word is, and how many words make up a prompt.
type rate struct {
	each  float64
	words int
}

// rate finds how many words make so many tokens: tokens are taken to be proportional
// to words, beside what a template adds.
func (c *Counter) rate(ctx context.Context, words []string, tokens int) (r rate, err error) {
	few, many := max(len(words)/4, 1), max(len(words), 2)
	least, err := c.Count(ctx, strings.Join(resized(words, few), " "))
	if err != nil {
		return r, err
	}
	most, err := c.Count(ctx, strings.Join(resized(words, many), " "))
	if err != nil {
		return r, err
	}
	r.each = float64(most-least) / float64(many-few)
	if r.each < 1./mostWords {
		return r, fmt.Errorf("the server counts %d tokens in %d words and %d in %d, of words that have one each at least in nearly every "+
			"vocabulary: prompts cannot be given a length by it",
			least, few, most, many)
	}
	if r.words = int(math.Round(float64(few) + float64(tokens-least)/r.each)); r.words < 1 {
		return r, fmt.Errorf("a prompt of %d tokens: the server's template alone takes some %.0f", tokens, float64(least)-r.each*float64(few))
	}
	return r, nil
}

// fit gives one text the length: by whole words first, then by what is left.
func (c *Counter) fit(ctx context.Context, words []string, r rate, tokens int) (string, error) {
	most := mostWords*tokens + 1
	n, low, high, lowTokens := min(r.words, most), 0, most+1, 0 // low words are too few, high ones too many
	for tries := 0; low+1 < high; tries++ {
		if tries == mostCounts {
			return "", fmt.Errorf("the server's count of tokens does not follow the words: %d tokens in %d words, after %d counts; prompts "+
				"cannot be given a length by it", lowTokens, low, tries)
		}
		text := strings.Join(resized(words, n), " ")
		got, err := c.Count(ctx, text)
		if err != nil || got == tokens {
			return text, err
		}
		if got < tokens {
			low, lowTokens = n, got
		} else {
			high = n
		}
		if high == 1 {
			return text, nil // not even one word is short enough
		}
		n = min(max(n+int(float64(tokens-got)/r.each), low+1), high-1)
	}
	if low == most {
		return "", fmt.Errorf("the server counts %d tokens in %d words: prompts of %d tokens cannot be made by it", lowTokens, low, tokens)
	}
	return c.topUp(ctx, strings.Join(resized(words, low), " "), lowTokens, tokens)
}

// topUp adds what gains a token each, and nothing that gains more than is missing.
func (c *Counter) topUp(ctx context.Context, text string, got, tokens int) (string, error) {
	for tries := 0; got < tokens && tries < mostCounts; tries++ {
		grown := false
		for _, filler := range fillers {
			n, err := c.Count(ctx, text+filler)
			if err != nil {
				return "", err
			}
			if n > got && n <= tokens {
				text, got, grown = text+filler, n, true
				break
			}
		}
		if !grown {
			return text, nil
		}
	}
	return text, nil
}
