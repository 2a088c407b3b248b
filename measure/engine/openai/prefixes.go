package openai

import "llmprof/measure/result"

// Sources of what is known of a server's cache of prefixes.
const (
	fromUsage   = "usage"
	fromUnknown = "unknown"
)

// cached sums what the server took from its cache of prefixes, by usage.
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
	if !told || all == 0 {
		return &result.PrefixCache{Source: fromUnknown}
	}
	share := float64(tokens) / float64(all)
	return &result.PrefixCache{Source: fromUsage, CachedTokens: &tokens, Share: &share}
}
