package openai

import (
	"context"
	"strings"
	"testing"

	"llmprof/internal/testkit"
)

// A counter that fell says that the server was started anew, and nothing of what it counted meanwhile.
func TestCounterThatFallsHasNoRise(t *testing.T) {
	s := &sampler{
		first:   parseMetrics([]byte("vllm:prompt_tokens_total 100\nvllm:generation_tokens_total 5\n")),
		last:    parseMetrics([]byte("vllm:prompt_tokens_total 7\nvllm:generation_tokens_total 9\n")),
		dropped: map[string]*drop{},
	}
	got := map[string]float64{}
	if s.rises(got); len(got) != 1 || got["generated_tokens"] != 4 {
		t.Errorf("rises of %v, want 4 generated tokens alone", got)
	}
}

// What fills a text up gains no more tokens than it lacks.
func TestFillersDoNotExceedTheLength(t *testing.T) {
	count := func(text string) int { return 10 + 2*strings.Count(text, " the") + strings.Count(text, ".") }
	c := &Counter{Count: func(_ context.Context, text string) (int, error) { return count(text), nil }}
	for _, tokens := range []int{11, 12, 15} {
		text, err := c.topUp(t.Context(), "words", 10, tokens)
		testkit.Must(t, err)
		if got := count(text); got != tokens {
			t.Errorf("%q has %d tokens, want %d", text, got, tokens)
		}
	}
}
