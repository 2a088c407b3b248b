package measure

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestPrompts(t *testing.T) {
	tests := map[string]struct {
		text    string
		objects bool
		tokens  [][]int
		texts   []string
		wrong   string
	}{
		"lines":    {text: "one\r\n\n two \nthree", texts: []string{"one", "two", "three"}},
		"objects":  {text: "{\"prompt\": \"a\", \"id\": 3}\n{\"text\": \"b\"}\n", objects: true, texts: []string{"a", "b"}},
		"tokens":   {text: `{"prompt_token_ids": [1, 2]}`, objects: true, tokens: [][]int{{1, 2}}},
		"nothing":  {text: "\n \n", wrong: "no prompt"},
		"mixed":    {text: "{\"prompt\": \"a\"}\n{\"prompt_token_ids\": [1]}", objects: true, wrong: "want one kind"},
		"both":     {text: `{"prompt": "a", "text": "b"}`, objects: true, wrong: "line 1: want one of"},
		"neither":  {text: "{\"text\": \"a\"}\n{\"question\": \"a\"}", objects: true, wrong: "line 2: want one of"},
		"negative": {text: `{"prompt_token_ids": [1, -2]}`, objects: true, wrong: "the token -2"},
		"no JSON":  {text: "one", objects: true, wrong: "line 1: want an object"},
		"encoding": {text: "\xff\xfe", wrong: "line 1: not UTF-8"},
		"long":     {text: strings.Repeat("a", mostPrompt+1), wrong: "a line is longer"},
	}
	for name, test := range tests {
		tokens, texts, err := parsePrompts(strings.NewReader(test.text), test.objects)
		if test.wrong != "" {
			if err == nil || !strings.Contains(err.Error(), test.wrong) {
				t.Errorf("%s: %v, want an error with %q", name, err, test.wrong)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]any{test.tokens, test.texts}, []any{tokens, texts}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func FuzzPrompts(f *testing.F) {
	f.Add("one\ntwo", false)
	f.Add(`{"prompt": "a"}`, true)
	f.Add(`{"prompt_token_ids": [1, 2]}`, true)
	f.Fuzz(func(t *testing.T, text string, objects bool) {
		tokens, texts, err := parsePrompts(strings.NewReader(text), objects)
		if err == nil && (len(tokens) == 0) == (len(texts) == 0) {
			t.Errorf("%d prompts of tokens and %d of text, and no error", len(tokens), len(texts))
		}
	})
}
