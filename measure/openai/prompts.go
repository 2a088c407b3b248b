package openai

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"

	"llmprof/measure/result"
)

// common are short English words that nearly every tokenizer of a large language
// model has as one token each, with the space before them.
const common = `the of and to in is was he for it with as his on be at by had not are but from or have an they which one you
were all her she there would their we him been has when who will no more if out so up said what its about than into them can
only other time new some could these two may first then do any like my now over such our man me even most made after also did
many off before must well back through years where much your way down should because long each just state people those too
little very good make world still see own work men day get here old life both between being under three never know same last
another while us might great go come since against right came take used himself few house during without again place around
however home small found went say part once general high upon school every does got united left number course war until always`

// tokenStream is "tokens": tokens have random numbers of their own.
const tokenStream = 0x746f6b656e73

// RandomTokens makes n prompts of tokens drawn from a vocabulary, no two alike
// to a cache of prefixes. Ids below first are passed over: special tokens are
// among the lowest in many vocabularies.
func RandomTokens(n, length, first, vocab int, seed uint64) []Prompt {
	if length < 1 || first < 0 || vocab <= first {
		return nil
	}
	random := rand.New(rand.NewPCG(seed, tokenStream))
	prompts := make([]Prompt, max(n, 0))
	for i := range prompts {
		prompts[i].Tokens = make([]int, length)
		for k := range prompts[i].Tokens {
			prompts[i].Tokens[k] = first + random.IntN(vocab-first)
		}
	}
	return prompts
}

// A Length is what a prompt is meant to have. Those whose first hashes are equal begin alike.
type Length struct {
	Prompt, Gen int
	Hashes      []uint64 // hashes of blocks of HashTokens tokens each
	HashTokens  int
}

// TokensOf makes prompts of given lengths of tokens drawn from a vocabulary, as RandomTokens does. A
// block with a hash has the tokens that the hash stands for.
func TokensOf(lengths []Length, first, vocab int, seed uint64) []Prompt {
	if first < 0 || vocab <= first {
		return nil
	}
	fill := func(to []int, stream, seed uint64) {
		random := rand.New(rand.NewPCG(seed, stream))
		for k := range to {
			to[k] = first + random.IntN(vocab-first)
		}
	}
	prompts := make([]Prompt, len(lengths))
	for i, l := range lengths {
		tokens := make([]int, max(l.Prompt, 1))
		fill(tokens, uint64(i)+tokenStream, seed)
		for k, hash := range l.Hashes {
			if begin := k * l.HashTokens; begin < len(tokens) {
				fill(tokens[begin:min(begin+l.HashTokens, len(tokens))], hash, ^seed)
			}
		}
		prompts[i] = Prompt{Tokens: tokens, Gen: l.Gen}
	}
	return prompts
}

// RandomText makes n prompts of as many words. How many tokens they are is the
// server's to say: a chat has a template around them, and some words are two.
func RandomText(n, words int, seed uint64) []Prompt {
	if words < 1 {
		return nil
	}
	random := rand.New(rand.NewPCG(seed, 0x776f726473)) // "words"
	all := strings.Fields(common)
	prompts := make([]Prompt, max(n, 0))
	for i := range prompts {
		var b strings.Builder
		for k := range words {
			if k > 0 {
				b.WriteByte(' ')
			}
			b.WriteString(all[random.IntN(len(all))])
		}
		prompts[i].Text = b.String()
	}
	return prompts
}

// Sources of what is known of a server's cache of prefixes.
const (
	fromUsage   = "usage"
	fromMetrics = "metrics"
	fromControl = "control prompts"
	fromUnknown = "unknown"
)

// cached is what the server took from its cache of prefixes: by the usage of each
// request, or else by its counters over the run.
func cached(s *result.Serving) *result.PrefixCache {
	told, tokens, all := false, 0, 0
	for i := range s.Records {
		r := &s.Records[i]
		if r.Failure != "" || r.Prompt == nil {
			continue
		}
		all += *r.Prompt
		if r.Cached != nil {
			told = true
			tokens += *r.Cached
		}
	}
	if told && all > 0 {
		return &result.PrefixCache{Source: fromUsage, CachedTokens: &tokens, Share: share(float64(tokens), float64(all))}
	}
	if m := s.Metrics; m != nil {
		hits, counted := m.Counters["prefix_hits"]
		queries, asked := m.Counters["prefix_queries"]
		if !asked { // llama.cpp's count of prompts leaves out what was cached.
			queries = hits + m.Counters["prompt_tokens"]
		}
		if counted && queries > 0 {
			tokens = int(hits)
			return &result.PrefixCache{Source: fromMetrics, CachedTokens: &tokens, Share: share(hits, queries)}
		}
	}
	return &result.PrefixCache{Source: fromUnknown}
}

func share(part, whole float64) *float64 {
	return new(min(part/whole, 1))
}

// hastened is the share of the control prompts' TTFT below which requests are taken
// to have been answered from a cache: they waited for others too, and the control
// prompts for nobody.
const hastened = 0.6

// Control sends prompts that the server has never seen, one at a time, when nothing
// else runs. Where even those took clearly longer to their first token than the
// requests of s, the server answered the requests from a cache of prefixes that it
// does not report, and hit is true.
func Control(ctx context.Context, o Options, s *result.Serving, prompts []Prompt) (hit bool, err error) {
	got, err := Run(ctx, o.aside(prompts...), nil)
	if err != nil {
		return false, fmt.Errorf("the control prompts: %w", err)
	}
	control, _, _ := Times(got)
	ttft, _, _ := Times(s)
	if control == nil || ttft == nil {
		return false, nil
	}
	s.PrefixCache = &result.PrefixCache{Source: fromControl, ControlTTFT: &control.Median}
	return ttft.Median < hastened*control.Median, nil
}
