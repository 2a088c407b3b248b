package openai

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestLook(t *testing.T) {
	delta := func(fields string) string { return `{"choices":[{"index":0,"delta":{` + fields + `}}]}` }
	tests := []struct {
		text string
		want look
		says string
	}{
		{delta(`"role":"assistant"`), look{}, ""},
		{delta(`"role":"assistant","content":""`), look{}, ""},
		{delta(`"content":null,"tool_calls":[],"reasoning":null,"function_call":{}`), look{}, ""},
		{delta(`"content":" "`), look{output: true}, " "},
		{delta(`"content":"\u00e9\n"`), look{output: true}, "é\n"},
		{delta(`"content":[{"type":"text","text":"a"},{"text":"b"}]`), look{output: true}, "ab"},
		{delta(`"reasoning_content":"hm","content":null`), look{reasoning: true}, "hm"},
		{delta(`"reasoning":"hm","content":""`), look{reasoning: true}, "hm"},
		{delta(`"reasoning":"hm","reasoning_content":"hm"`), look{reasoning: true}, "hm"},
		{delta(`"reasoning":"hm","content":"so"`), look{reasoning: true, output: true}, "sohm"},
		{delta(`"refusal":"no"`), look{output: true}, "no"},
		{delta(`"tool_calls":[{"index":0,"function":{"arguments":"{"}}]`), look{output: true}, `[{"index":0,"function":{"arguments":"{"}}]`},
		{delta(`"function_call":{"name":"f"}`), look{output: true}, `{"name":"f"}`},
		{`{"choices":[{"text":"x","finish_reason":null}]}`, look{output: true}, "x"},
		{`{"choices":[{"text":"","finish_reason":"stop"}]}`, look{finished: true}, ""},
		{`{"choices":[{"delta":null,"finish_reason":"length"}],"usage":null}`, look{finished: true}, ""},
		{`{"choices":[],"usage":{"completion_tokens":1}}`, look{}, ""},
		{`{"choices":null,"usage":{"completion_tokens":1}}`, look{}, ""},
		{`{}`, look{}, ""},
	}
	var c chunk // one for all, as in a stream: nothing of an event stays for the next
	for _, test := range tests {
		if err := c.parse([]byte(test.text)); err != nil {
			t.Errorf("%s: %v", test.text, err)
			continue
		}
		var b strings.Builder
		c.appendText(&b)
		if got := c.look(); got != test.want || b.String() != test.says {
			t.Errorf("%s: got %+v that says %q, want %+v, %q", test.text, got, b.String(), test.want, test.says)
		}
		if words, is := c.failure(); is {
			t.Errorf("%s is taken for an error: %q", test.text, words)
		}
	}
}

// Wherever the server puts its usage, and whether it does, the tokens are its own
// count or none.
func TestUsage(t *testing.T) {
	one := func(n int) string {
		return fmt.Sprintf(`data: {"choices":[{"delta":{"content":"x"}}],"usage":{"prompt_tokens":5,"completion_tokens":%d}}`+"\n\n", n)
	}
	tests := map[string]struct {
		text   string
		tokens int // 0 for none
		note   string
	}{
		"last chunk alone":    {whole(), 3, ""},
		"with the last token": {content("x") + one(3) + stop + done, 3, ""},
		"with every chunk":    {one(1) + one(2) + one(3) + stop + done, 3, ""},
		"in the choice":       {content("x") + content("y") + `data: {"choices":[{"delta":{},"finish_reason":"stop","usage":{"completion_tokens":3}}]}` + "\n\n" + done, 3, ""},
		"without [DONE]":      {content("x") + content("y") + counts + stop, 3, ""},
		"no finish_reason":    {content("x") + content("y") + counts + done, 3, ""},
		"none":                {content("x") + content("y") + stop + done, 0, "4 answers came without usage: their tokens are not known, and they have no TPOT"},
		"null":                {content("x") + content("y") + `data: {"choices":[],"usage":{"completion_tokens":null}}` + "\n\n" + done, 0, "without usage"},
		"fewer":               {content("x") + one(2) + done, 2, "4 answers do not have the 3 tokens that were asked for"},
		"three in one chunk":  {content("x y z") + stop + counts + done, 3, "4 answers came in one chunk, and have no time between tokens"},
		"prompt in the cache": {
			content("x") + content("y") + `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}}` + "\n\n" + done, 3,
			"the server took 16 of 20 prompt tokens from its cache of prefixes",
		},
		"no details": {
			content("x") + content("y") + `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3,"prompt_tokens_details":null}}` + "\n\n" + done, 3, "",
		},
		"two in one, then one": {content("x y") + content("z") + stop + counts + done, 3, ""},
	}
	for name, test := range tests {
		s, err := Run(t.Context(), options(serve(t, func(w http.ResponseWriter, _ *http.Request) { paced(w, test.text) })), nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if test.tokens == 0 && (s.Usage.Tokens != nil || s.Usage.TokensPerChunk != nil) {
			t.Errorf("%s: answers without usage have %+v", name, s.Usage)
		}
		if test.tokens > 0 && *s.Usage.Tokens != 4*test.tokens || (s.Usage.Missing == 4) != (test.tokens == 0) || (s.Usage.Discrepant == 4) != (test.tokens == 2) {
			t.Errorf("%s: %+v", name, s.Usage)
		}
		_, tpot, ttlt := Times(s)
		single := strings.Count(test.text, `"content"`) == 1
		if (tpot != nil) != (test.tokens > 0 && !single) || ttlt.N != 4 {
			t.Errorf("%s: TPOT %v", name, tpot)
		}
		if got := strings.Join(remarked(s), "\n"); !strings.Contains(got, test.note) || test.note == "" && got != "" {
			t.Errorf("%s: notes %q, want %q", name, got, test.note)
		}
	}
}

func FuzzChunk(f *testing.F) {
	for _, seed := range []string{
		strings.TrimPrefix(role, "data: "), `{"error":{"message":"x"}}`, `{"choices":[{"delta":{"content":[{"text":"a"}]}},{"text":"b"}]}`,
		`{"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":3}}`, `{"detail":[{"msg":"x"}]}`, `{"error":null,"usage":{"completion_tokens":1e9}}`, `[DONE]`, "\x00",
	} {
		f.Add([]byte(seed))
	}
	var c chunk
	f.Fuzz(func(t *testing.T, data []byte) {
		if c.parse(data) != nil {
			return
		}
		l := c.look()
		var b strings.Builder
		c.appendText(&b)
		if b.Len() > 0 && !l.output && !l.reasoning {
			t.Errorf("%s says %q, and holds no token", data, b.String())
		}
		if u := c.Usage; u != nil && u.Generated != nil && (*u.Generated < 0 || *u.Generated > maxTokens) {
			t.Errorf("%s counts %d tokens", data, *u.Generated)
		}
		words, _ := c.failure()
		if line := clip(words); strings.ContainsAny(line, "\n\r\x00\x1b") || len(line) > 303 {
			t.Errorf("%q is no short line", line)
		}
	})
}

// An event with more choices than a server has is refused before they take memory.
func TestManyChoices(t *testing.T) {
	var c chunk
	if err := c.parse([]byte(`{"choices":[{}` + strings.Repeat(",{}", 500_000) + "]}")); err == nil || !strings.Contains(err.Error(), "more than 131072 values") {
		t.Error(err)
	}
	if cap(c.Choices) > 1000 {
		t.Errorf("room for %d choices", cap(c.Choices))
	}
}
