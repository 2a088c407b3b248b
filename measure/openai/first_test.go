package openai

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"llmprof/measure/result"
)

// A bundler sends 32 tokens, one each 10 ms, in chunks of several.
type bundler struct {
	first, each int  // tokens of the first chunk and of the others
	usage       bool // in every chunk
	tokenizer   func(text string) int
}

// ServeHTTP answers a request.
func (b *bundler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/tokenize") {
		var ask struct {
			Prompt string
			Add    *bool `json:"add_special_tokens"`
		}
		if b.tokenizer == nil || json.NewDecoder(r.Body).Decode(&ask) != nil || ask.Add == nil || *ask.Add {
			http.NotFound(w, r)
			return
		}
		fmt.Fprintf(w, `{"count":%d}`, b.tokenizer(ask.Prompt))
		return
	}
	time.Sleep(100 * time.Millisecond)
	for sent, n := 0, b.first; sent < 32; n = b.each {
		if sent > 0 {
			time.Sleep(time.Duration(n) * 10 * time.Millisecond)
		}
		sent += n
		usage := ""
		if b.usage {
			usage = fmt.Sprintf(`,"usage":{"prompt_tokens":5,"completion_tokens":%d}`, sent)
		}
		stream(w, fmt.Sprintf(`data: {"choices":[{"delta":{"content":%q}}]%s}`+"\n\n", strings.Repeat("a ", n), usage))
	}
	stream(w, `data: {"choices":[],"usage":{"prompt_tokens":5,"completion_tokens":32}}`+"\n\n"+done)
}

// TPOT is the time of the tokens after the first chunk, by each of the ways in which their number may be known, and is
// marked where it is not.
func TestBundledTokens(t *testing.T) {
	words := func(text string) int { return len(strings.Fields(text)) }
	for name, test := range map[string]struct {
		server bundler
		tpot   time.Duration
		first  int // tokens of the first chunk, 0 where they are not known
		short  int // answers that are marked
		note   string
	}{
		"one a chunk": {bundler{first: 1, each: 1}, 10 * time.Millisecond, 0, 0, ""},
		"usage in each chunk": {bundler{first: 4, each: 4, usage: true}, 10 * time.Millisecond, 4, 0,
			"the first chunk of 4 answers holds 4 tokens in the mean"},
		"usage, one a chunk": {bundler{first: 1, each: 1, usage: true}, 10 * time.Millisecond, 1, 0, ""},
		"a first of many, usage": {bundler{first: 8, each: 1, usage: true}, 10 * time.Millisecond, 8, 0,
			"a chunk holds 1.28 tokens in the mean"},
		"a first of many, text": {bundler{first: 8, each: 1, tokenizer: words}, 10 * time.Millisecond, 8, 0,
			"the first chunk of 4 answers holds 8 tokens in the mean"},
		"four a chunk, text": {bundler{first: 4, each: 4, tokenizer: words}, 10 * time.Millisecond, 4, 0,
			"a chunk holds 4 tokens in the mean"},
		"a first of many": {bundler{first: 8, each: 1}, 240 * time.Millisecond / 31, 0, 4, "may be up to 29.2 % longer"},
		"a tokenizer that lies": {bundler{first: 8, each: 1, tokenizer: func(string) int { return 1 << 30 }}, 240 * time.Millisecond / 31, 0, 4,
			"may hold several"},
		"a tokenizer of bytes": {bundler{first: 8, each: 1, tokenizer: func(s string) int { return len(s) }}, 10 * time.Millisecond, 8, 0,
			"holds 8 tokens"},
		"a tokenizer of no token": {bundler{first: 8, each: 1, tokenizer: func(string) int { return 0 }}, 240 * time.Millisecond / 31, 0, 4,
			"may hold several"},
	} {
		bubble(t, test.server.ServeHTTP, func(t *testing.T, o Options) {
			o.GenLen = 32
			s, err := Run(t.Context(), o, nil)
			if err != nil || s.Completed != 4 {
				t.Fatalf("%s: %v", name, err)
			}
			_, tpot, _ := Times(s)
			near(t, name+": TPOT", &tpot.Median, test.tpot)
			if got := s.Records[0].FirstTokens; (got == nil) != (test.first == 0) || got != nil && *got != test.first {
				t.Errorf("%s: the first chunk has %v tokens, want %d", name, got, test.first)
			}
			if s.Usage.FirstUnknown != test.short {
				t.Errorf("%s: %d answers are marked, want %d", name, s.Usage.FirstUnknown, test.short)
			}
			said := strings.Join(s.Notes, "\n")
			if !strings.Contains(said, test.note) || test.note == "" && strings.Contains(said, "chunk") {
				t.Errorf("%s: notes %q, want %q", name, said, test.note)
			}
		})
	}
}

// A tokenizer that hangs is not waited for long, and its answers are marked.
func TestHangingTokenizer(t *testing.T) {
	server := bundler{first: 8, each: 1, tokenizer: func(string) int { time.Sleep(time.Hour); return 1 }}
	bubble(t, server.ServeHTTP, func(t *testing.T, o Options) {
		o.GenLen = 32
		begun := time.Now()
		s, err := Run(t.Context(), o, nil)
		if took := time.Since(begun); err != nil || s.Usage.FirstUnknown != 4 || took > 2*time.Second+countLimit {
			t.Errorf("%+v, %v after %v", s.Usage, err, took)
		}
		time.Sleep(time.Hour)
	})
}

// A count of the first chunk's tokens leaves one for each other chunk.
func TestFirstTokens(t *testing.T) {
	for _, test := range []struct{ count, generated, chunks, want int }{
		{1, 32, 32, 1}, {8, 32, 25, 8}, {9, 32, 25, 8}, {32, 32, 25, 8}, {33, 32, 25, 0}, {0, 32, 25, 0}, {-1, 32, 25, 0}, {3, 3, 5, 1},
		{3, 3, 1, 3},
	} {
		r := &result.Record{Generated: &test.generated, Chunks: test.chunks}
		if got := firstTokens(r, &test.count); (got == nil) != (test.want == 0) || got != nil && *got != test.want {
			t.Errorf("%+v: %v", test, got)
		}
	}
}
