package openai

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/serving"
	"llmprof/unit"
)

// A collector collects the requests of a run.
type collector struct {
	options  *Options
	endpoint string
	stop     context.CancelCauseFunc // ends the run
	warmup   bool
	metrics  *result.ServerMetrics // nil of a server that has none

	mu        sync.Mutex
	outcomes  []*outcome
	completed int
	silent    int // timeouts since a request was last completed
	notes     []string
}

// keeper gives what takes a request that has ended.
func (c *collector) keeper(progress func(done, failed int)) func(*outcome) {
	return func(o *outcome) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.outcomes = append(c.outcomes, o)
		c.heed(o.failure)
		if progress != nil {
			progress(len(c.outcomes), len(c.outcomes)-c.completed)
		}
		if each := c.options.Each; each != nil && !c.warmup {
			each(&o.record)
		}
	}
}

// heed counts a request, and ends a run whose server has stopped answering: each
// further request would wait for the whole timeout.
func (c *collector) heed(f *Failure) {
	switch {
	case f == nil:
		c.completed++
		c.silent = 0
	case f.Kind == Timeout:
		c.silent++
	}
	if most := c.options.patience(); c.silent == most {
		c.stop(fmt.Errorf("the server stopped answering, for %d requests in a row: %s", most, f.Words))
	}
}

// patience is how many timeouts in a row end a run: one of each client, and more
// than chance gives.
func (o *Options) patience() int {
	if o.Concurrency == 0 {
		return 16
	}
	return max(2, o.Concurrency)
}

func (c *collector) note(notes ...string) { c.notes = append(c.notes, notes...) }

// serving sums the run up.
func (c *collector) serving(ctx context.Context) (*result.Serving, error) {
	slices.SortFunc(c.outcomes, func(a, b *outcome) int { return cmp.Compare(a.record.Index, b.record.Index) })
	o := c.options
	s := &result.Serving{
		Endpoint: c.endpoint, API: o.API, Concurrency: o.Concurrency, Requests: len(c.outcomes), Warmups: o.Warmup,
		Completed: c.completed, Failures: map[string]int{}, Redirected: map[string]int{}, Records: make([]result.Record, len(c.outcomes)),
		ServedModel: o.Model, Connections: cmp.Or(o.Connections, Pooled), TimeoutS: o.timeout().Seconds(), PromptAsked: o.PromptLen,
	}
	if o.RequestRate > 0 {
		s.RateHz = &o.RequestRate
	}
	s.Arrivals = o.process()
	for i, x := range c.outcomes {
		s.Records[i] = x.record
		if x.failure != nil {
			s.Failures[x.failure.Kind]++
		}
		if x.away != "" {
			s.Redirected[x.away]++
		}
		if x.reconnected {
			s.Reconnects++
		}
		s.Duration = max(s.Duration, x.record.SentS+x.end.Seconds())
	}
	c.finish(s)
	if s.Duration > 0 {
		s.RequestRate = float64(s.Completed) / s.Duration
	}
	s.FirstChunk = times(s, func(r *result.Record) *float64 { return r.FirstChunkS })
	s.TTFO = times(s, func(r *result.Record) *float64 { return r.FirstOutputS })
	s.ChunkGap = c.gaps(s)
	s.Usage = checkUsage(s.Records, func(r *result.Record) int { return o.outputTokens(o.prompt(r.Index + o.Warmup)) })
	s.PromptTokens = tokens(s.Records, func(r *result.Record) *int { return r.Prompt })
	s.GeneratedTokens = tokens(s.Records, func(r *result.Record) *int { return r.Generated })
	s.Metrics = c.metrics
	s.PrefixCache = cached(s)
	s.Adjusted = adjusted(s)
	s.Goodput = o.SLO.goodput(s)
	c.remarks(s)
	s.Notes = slices.Concat([]string{}, c.notes)
	switch {
	case ctx.Err() != nil && len(c.outcomes) < o.Requests:
		return s, fmt.Errorf("stopped after %d of %d requests: %w", len(c.outcomes), o.Requests, context.Cause(ctx))
	case s.Completed == 0:
		return s, c.allFailed()
	}
	return s, nil
}

func (o *Options) process() string {
	switch {
	case len(o.Arrivals) > 0:
		return "trace"
	case o.RequestRate > 0:
		return "poisson"
	}
	return "closed"
}

// gaps are the times between the chunks of each answer.
func (c *collector) gaps(s *result.Serving) *result.Times {
	var all []float64
	outcomes := c.outcomes
	if x := s.Steady; x != nil {
		outcomes = outcomes[x.Begin:x.End]
	}
	for _, o := range outcomes {
		if o.failure == nil {
			all = append(all, o.gaps...)
		}
	}
	return summary(all, before(s)).InBins()
}

// tokens summarizes what the server counted of the completed requests; nil where it
// counted none.
func tokens(records []result.Record, of func(*result.Record) *int) *stats.Summary {
	return stats.Of(records, func(r *result.Record) *float64 {
		n := of(r)
		if n == nil || r.Failure != "" {
			return nil
		}
		return new(float64(*n))
	})
}

// times summarizes one time of the completed requests that count; nil where none has it.
func times(s *result.Serving, of func(*result.Record) *float64) *result.Times {
	return summary(stats.Values(s.Counted(), func(r *result.Record) *float64 {
		if r.Failure != "" {
			return nil
		}
		return of(r)
	}), before(s))
}

// before is how many requests came before the first that counts.
func before(s *result.Serving) int {
	if s.Steady == nil {
		return s.Warmups
	}
	return s.Warmups + s.Steady.Begin
}

// finish finds the requests of the steady state, where they come at a rate.
func (c *collector) finish(s *result.Serving) {
	if c.options.RequestRate == 0 {
		return
	}
	arrivals, ends := make([]unit.Seconds, len(c.outcomes)), make([]unit.Seconds, len(c.outcomes))
	for i, o := range c.outcomes {
		arrivals[i] = unit.Seconds(o.record.SentS)
		ends[i] = arrivals[i] + unit.Seconds(o.end.Seconds())
	}
	x := serving.Examine(arrivals, ends)
	if x == nil || !slices.ContainsFunc(s.Records[x.Begin:x.End], func(r result.Record) bool { return r.Failure == "" }) {
		return
	}
	s.Steady = &result.SteadyState{Method: serving.Method, Reached: x.Steady, Begin: x.Begin, End: x.End}
	if !x.Steady {
		c.note(x.Warning())
	}
}

func summary(samples []float64, warmups int) *result.Times {
	s, err := stats.Summarize(samples)
	if err != nil { // there is none: a clock's readings are finite
		return nil
	}
	return &result.Times{Summary: *s, Samples: samples, Warmups: warmups}
}

// Times gives TTFT, TPOT and TTLT of the completed requests of s; nil where no
// request has that time.
func Times(s *result.Serving) (ttft, tpot, ttlt *result.Times) {
	first := func(r *result.Record) *float64 { return r.FirstTokenS }
	last := func(r *result.Record) *float64 { return r.LastTokenS }
	return times(s, first), times(s, perToken), times(s, last)
}

// fastest is the least time per token that is one of an engine: the fastest yield a
// token of one sequence in some 0.5 ms. An answer whose tokens are closer was made,
// held back and sent as a whole.
const fastest = 10e-6

// perToken is the TPOT of a request, which takes two tokens by the server's
// count, and two chunks that they came in, one after the other. The tokens of the
// first chunk came with TTFT; one whose tokens are not known is taken for one.
func perToken(r *result.Record) *float64 {
	if r.Generated == nil || *r.Generated < 2 || r.Chunks < 2 || heldBack(r) {
		return nil
	}
	first := 1
	if r.FirstTokens != nil {
		first = *r.FirstTokens
	}
	return new((*r.LastTokenS - *r.FirstTokenS) / float64(*r.Generated-first))
}

// leastShort is by how much TPOT has to be short to be worth a word, relative to itself.
const leastShort = 0.01

// tpotShort is by how much the TPOT of a request may be short at most where the tokens of its first chunk are not known:
// each other chunk has a token at least, so that the first has at most the rest.
func tpotShort(r *result.Record) float64 {
	if perToken(r) == nil {
		return 0
	}
	return float64(*r.Generated-1)/float64(r.Chunks-1) - 1
}

// heldBack reports whether an answer in several chunks came all at once.
func heldBack(r *result.Record) bool {
	n := r.Chunks
	if r.Generated != nil {
		n = max(n, *r.Generated)
	}
	return r.Chunks > 1 && *r.LastTokenS-*r.FirstTokenS < fastest*float64(n-1)
}

// checkUsage sets the server's count of tokens against the chunks that came and
// what was asked for; nil where nothing was completed.
func checkUsage(records []result.Record, asked func(*result.Record) int) *result.UsageCheck {
	var u result.UsageCheck
	completed, tokens := 0, 0
	for i := range records {
		r := &records[i]
		switch {
		case r.Failure != "":
			continue
		case r.Generated == nil:
			u.Missing++
		default:
			tokens += *r.Generated
			u.Chunks += r.Chunks
			if *r.Generated != asked(r) {
				u.Discrepant++
			}
			if r.FirstTokens == nil && tpotShort(r) > leastShort {
				u.FirstUnknown++
			}
		}
		completed++
	}
	if completed == 0 {
		return nil
	}
	if completed > u.Missing {
		u.Tokens = &tokens
	}
	if u.Chunks > 0 {
		u.TokensPerChunk = new(float64(tokens) / float64(u.Chunks))
	}
	return &u
}

// commonest names the kind of failure that came most often, with the first words
// that came with it, and how often it came.
func (c *collector) commonest() (words string, times int) {
	count := map[string]int{}
	first := map[string]string{}
	for _, o := range c.outcomes {
		if f := o.failure; f != nil {
			count[f.Kind]++
			if first[f.Kind] == "" {
				first[f.Kind] = f.Error()
			}
		}
	}
	kinds := slices.Sorted(maps.Keys(count))
	if len(kinds) == 0 {
		return "no failure", 0
	}
	most := slices.MaxFunc(kinds, func(a, b string) int { return cmp.Compare(count[a], count[b]) })
	return first[most], count[most]
}

func (c *collector) allFailed() error {
	n := fmt.Sprintf("all %d requests", len(c.outcomes))
	if len(c.outcomes) == 1 {
		n = "the only request"
	}
	words, of := c.commonest()
	if of < len(c.outcomes) {
		return fmt.Errorf("%s to %s failed, %d of them with %s", n, c.endpoint, of, words)
	}
	return fmt.Errorf("%s to %s failed: %s", n, c.endpoint, words)
}
