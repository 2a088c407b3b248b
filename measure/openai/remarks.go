package openai

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"llmprof/measure/result"
)

// late is by how much a request may miss the time it was due before the client
// is said to fall behind: some ten times what a busy scheduler takes.
const late = 10 * time.Millisecond

// slowDial is from when on connections are worth a word: one within a machine or
// a rack takes less than a millisecond.
const slowDial = 5 * time.Millisecond

// remarks notes what makes the figures doubtful.
func (c *collector) remarks(s *result.Serving) {
	c.clientRemarks()
	single, held := 0, 0
	for i := range s.Records {
		r := &s.Records[i]
		switch {
		case r.Failure != "":
		case r.Chunks == 1 && (r.Generated == nil || *r.Generated > 1):
			single++
		case heldBack(r):
			held++
		}
	}
	if held > 0 {
		c.note(fmt.Sprintf("%d answers came all at once: the server, something before it or this busy machine held them back until they were "+
			"whole; "+
			"they have no TPOT, and their TTFT is the time of the whole answer", held))
	}
	if s.Reconnects > 0 {
		c.note(fmt.Sprintf("the server had closed the connection that it said it would keep, for %d of %d requests: they were sent once more, "+
			"over a new one; --connections new asks each over its own", s.Reconnects, s.Requests))
	}
	if single > 0 {
		c.note(fmt.Sprintf("%d answers came in one chunk, and have no time between tokens", single))
	}
	if u := s.Usage; u != nil && u.Missing > 0 {
		c.note(fmt.Sprintf("%d answers came without usage: their tokens are not known, and they have no TPOT", u.Missing))
	}
	if u := s.Usage; u != nil && u.Discrepant > 0 {
		asked := fmt.Sprintf("%d ", c.options.GenLen)
		if slices.ContainsFunc(c.options.Prompts, func(p Prompt) bool { return p.Gen > 0 }) {
			asked = ""
		}
		c.note(fmt.Sprintf("%d answers do not have the %stokens that were asked for", u.Discrepant, asked))
	}
	c.serverRemarks(s)
	c.chunkRemarks(s)
	c.promptRemarks(s)
}

// serverRemarks notes answers that came from elsewhere, and counts that cannot be.
func (c *collector) serverRemarks(s *result.Serving) {
	for _, host := range slices.Sorted(maps.Keys(s.Redirected)) {
		c.note(fmt.Sprintf("%d requests were redirected to %s, which is not the host and port of the base URL and never gets the API key: "+
			"the times are of that server, and have the redirect in them", s.Redirected[host], host))
	}
	odd, first := 0, ""
	for _, o := range c.outcomes {
		if o.odd != "" {
			odd++
			first = cmp.Or(first, o.odd)
		}
	}
	if odd > 0 {
		c.note(fmt.Sprintf("the usage of %d answers says what cannot be, which was dropped: %s", odd, first))
	}
}

// chunkRemarks notes where chunks hold several tokens: the first, which TPOT leaves out or cannot, and all, of whose
// tokens a chunk gap is the time.
func (c *collector) chunkRemarks(s *result.Serving) {
	several, tokens, short := 0, 0, 0.
	for i := range s.Records {
		r := &s.Records[i]
		switch {
		case r.Failure != "" || perToken(r) == nil:
		case r.FirstTokens == nil:
			short = max(short, tpotShort(r))
		case *r.FirstTokens > 1:
			several++
			tokens += *r.FirstTokens
		}
	}
	if several > 0 {
		c.note(fmt.Sprintf("the first chunk of %d answers holds %.3g tokens in the mean: they came with TTFT, and TPOT is of the others", several,
			float64(tokens)/float64(several)))
	}
	if u := s.Usage; u != nil && u.FirstUnknown > 0 {
		c.note(fmt.Sprintf("%d answers came in fewer chunks than tokens, and their first chunk may hold several, which the server does not "+
			"count: "+
			"TPOT takes it for one token, and may be up to %.3g %% longer", u.FirstUnknown, 100*short))
	}
	if u := s.Usage; u != nil && s.ChunkGap != nil && u.TokensPerChunk != nil && *u.TokensPerChunk > 1+leastShort {
		c.note(fmt.Sprintf("a chunk holds %.3g tokens in the mean: a chunk gap is the time of so many", *u.TokensPerChunk))
	}
}

// promptRemarks notes where prompts are not what they are meant to be, or not
// all of a prompt was computed.
func (c *collector) promptRemarks(s *result.Serving) {
	other, least, most := 0, maxTokens, 0
	for i := range s.Records {
		r := &s.Records[i]
		if r.Failure != "" || r.Prompt == nil {
			continue
		}
		if want := c.options.PromptLen; want > 0 && *r.Prompt != want {
			other++
			least, most = min(least, *r.Prompt), max(most, *r.Prompt)
		}
	}
	if other > 0 {
		c.note(fmt.Sprintf("%d prompts do not have the %d tokens that they were meant to: by the server's count, %d to %d",
			other, c.options.PromptLen, least, most))
	}
	if cache := s.PrefixCache; cache.Share != nil && *cache.Share > 0.001 { // a beginning that all prompts share is a small part
		c.note(fmt.Sprintf("the server took %d of %.0f prompt tokens from its cache of prefixes: TTFT is of the rest",
			*cache.CachedTokens, s.PromptTokens.Mean*float64(s.PromptTokens.N)))
	}
	if n, sent := len(c.options.Prompts), c.options.Warmup+c.options.Requests; n < sent {
		c.note(fmt.Sprintf("prompts come again, %d among %d requests: a server that keeps prefixes does not compute them anew", n, sent))
	}
}

// clientRemarks notes what the times hold that is not the server's.
func (c *collector) clientRemarks() {
	behind, dialled := 0, 0
	var latest, slowest time.Duration
	for _, o := range c.outcomes {
		if o.lag > late {
			behind++
			latest = max(latest, o.lag)
		}
		if o.dialled > slowDial {
			dialled++
			slowest = max(slowest, o.dialled)
		}
	}
	if behind > 0 {
		c.note(fmt.Sprintf("the client fell behind: %d of %d requests were begun more than %v after they were due, the latest by %.3g s; "+
			"their times count from when they were due", behind, len(c.outcomes), late, latest.Seconds()))
	}
	if dialled > 0 {
		c.note(fmt.Sprintf("%d of %d requests opened a connection, which took up to %.3g s of their times; those of a warm-up stay open",
			dialled, len(c.outcomes), slowest.Seconds()))
	}
}
