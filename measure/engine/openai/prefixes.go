package openai

import (
	"context"
	"fmt"

	"llmprof/measure/result"
)

// Sources of what is known of a server's cache of prefixes.
const (
	fromUsage   = "usage"
	fromMetrics = "metrics"
	FromControl = "control prompts"
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
	s.PrefixCache = &result.PrefixCache{Source: FromControl, ControlTTFT: &control.Median}
	return ttft.Median < hastened*control.Median, nil
}
