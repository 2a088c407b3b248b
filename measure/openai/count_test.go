package openai

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
)

// A server that lies about the tokens of a text is found out soon, whatever it says, and no text grows without bound.
func TestFitByALiar(t *testing.T) {
	words := func(text string) int { return len(strings.Fields(text)) }
	for name, test := range map[string]struct {
		count func(text string, asked int) int
		want  string // of the error
	}{
		"honest":            {func(s string, _ int) int { return words(s) + 7 }, ""},
		"two for each word": {func(s string, _ int) int { return 2*words(s) + 1 }, ""},
		"hardly any": {func(s string, _ int) int {
			if words(s) < 300 {
				return 1
			}
			return 2
		}, "the server counts 1 tokens in 128 words and 2 in 512"},
		"one":                    {func(string, int) int { return 1 }, "prompts cannot be given a length by it"},
		"honest twice":           {func(s string, asked int) int { return words(s) / max(1, 1000*(asked-2)) }, "prompts"},
		"less and less":          {func(s string, asked int) int { return words(s) - asked*words(s)/100 }, "prompts"},
		"always one short":       {func(s string, _ int) int { return min(words(s), 511) }, "511 tokens in"},
		"more with each":         {func(s string, asked int) int { return words(s) + asked }, "prompts"},
		"no more than a billion": {func(s string, _ int) int { return 1_000_000_000 * words(s) }, "the server's template alone"},
	} {
		var asked, longest atomic.Int64
		c := &Counter{How: "/tokenize", free: func() {}, Count: func(_ context.Context, text string) (int, error) {
			longest.Store(max(longest.Load(), int64(len(text))))
			return test.count(text, int(asked.Add(1))), nil
		}}
		err := Fit(t.Context(), c, RandomText(3, 512, 1), 512)
		if test.want == "" && err != nil || test.want != "" && !says(err, test.want) {
			t.Errorf("%s: %v", name, err)
		}
		if n := asked.Load(); n > 3*(mostCounts*int64(len(fillers)+1)+2) || longest.Load() > 16*1024 {
			t.Errorf("%s: %d counts of texts of up to %d bytes", name, n, longest.Load())
		}
	}
}
