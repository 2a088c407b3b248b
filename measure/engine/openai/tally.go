package openai

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"llmprof/measure/result"
	"llmprof/measure/stats"
)

// A tally collects the requests of a run.
type tally struct {
	options  *Options
	endpoint string

	mu        sync.Mutex
	outcomes  []*outcome
	completed int
	notes     []string
}

// keeper gives what takes a request that has ended.
func (t *tally) keeper(progress func(done, failed int)) func(*outcome) {
	return func(o *outcome) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.outcomes = append(t.outcomes, o)
		if o.failure == nil {
			t.completed++
		}
		if progress != nil {
			progress(len(t.outcomes), len(t.outcomes)-t.completed)
		}
	}
}

func (t *tally) note(notes ...string) { t.notes = append(t.notes, notes...) }

// serving sums the run up.
func (t *tally) serving(ctx context.Context) (*result.Serving, error) {
	slices.SortFunc(t.outcomes, func(a, b *outcome) int { return cmp.Compare(a.record.Index, b.record.Index) })
	o := t.options
	s := &result.Serving{
		Endpoint: t.endpoint, API: o.API, Concurrency: o.Concurrency, Requests: len(t.outcomes), Warmups: o.Warmup,
		Completed: t.completed, Failures: map[string]int{}, Records: make([]result.Record, len(t.outcomes)),
	}
	if o.RequestRate > 0 {
		s.RateHz = &o.RequestRate
	}
	for i, x := range t.outcomes {
		s.Records[i] = x.record
		if x.failure != nil {
			s.Failures[x.failure.Kind]++
		}
		s.Duration = max(s.Duration, x.record.SentS+x.end.Seconds())
	}
	if s.Duration > 0 {
		s.RequestRate = float64(s.Completed) / s.Duration
	}
	s.FirstChunk = times(s, func(r *result.Record) *float64 { return r.FirstChunkS })
	s.TTFO = times(s, func(r *result.Record) *float64 { return r.FirstOutputS })
	s.ChunkGap = t.gaps()
	s.Usage = checkUsage(s.Records, o.GenLen)
	t.remarks(s)
	s.Notes = slices.Concat([]string{}, t.notes)
	switch {
	case ctx.Err() != nil && len(t.outcomes) < o.Requests:
		return s, fmt.Errorf("stopped after %d of %d requests: %w", len(t.outcomes), o.Requests, context.Cause(ctx))
	case s.Completed == 0:
		return s, t.allFailed()
	}
	return s, nil
}

// maxGaps is how many times between chunks a result holds. Of more, every second,
// third... stands for its neighbours.
const maxGaps = 50_000

func (t *tally) gaps() *result.Times {
	var all []float64
	for _, o := range t.outcomes {
		if o.failure == nil {
			all = append(all, o.gaps...)
		}
	}
	if step := (len(all) + maxGaps - 1) / maxGaps; step > 1 {
		t.note(fmt.Sprintf("of %d chunk gaps, one in %d is kept", len(all), step))
		kept := all[:0]
		for i := 0; i < len(all); i += step {
			kept = append(kept, all[i])
		}
		all = kept
	}
	return summary(all, t.options.Warmup)
}

// times summarizes one time of the completed requests; nil where none has it.
func times(s *result.Serving, of func(*result.Record) *float64) *result.Times {
	var all []float64
	for i := range s.Records {
		if r := &s.Records[i]; r.Failure == "" {
			if v := of(r); v != nil {
				all = append(all, *v)
			}
		}
	}
	return summary(all, s.Warmups)
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

// perToken is the TPOT of a request, which takes two tokens by the server's
// count, and two chunks that they came in.
func perToken(r *result.Record) *float64 {
	if r.Generated == nil || *r.Generated < 2 || r.Chunks < 2 {
		return nil
	}
	t := (*r.LastTokenS - *r.FirstTokenS) / float64(*r.Generated-1)
	return &t
}

// checkUsage sets the server's count of tokens against the chunks that came and
// what was asked for; nil where nothing was completed.
func checkUsage(records []result.Record, asked int) *result.UsageCheck {
	var u result.UsageCheck
	completed := 0
	for i := range records {
		r := &records[i]
		switch {
		case r.Failure != "":
			continue
		case r.Generated == nil:
			u.Missing++
		default:
			u.Tokens += *r.Generated
			u.Chunks += r.Chunks
			if *r.Generated != asked {
				u.Discrepant++
			}
		}
		completed++
	}
	if completed == 0 {
		return nil
	}
	if u.Chunks > 0 {
		u.TokensPerChunk = float64(u.Tokens) / float64(u.Chunks)
	}
	return &u
}

// commonest names the kind of failure that came most often, with the first words
// that came with it, and how often it came.
func (t *tally) commonest() (words string, times int) {
	count := map[string]int{}
	first := map[string]string{}
	for _, o := range t.outcomes {
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

func (t *tally) allFailed() error {
	n := fmt.Sprintf("all %d requests", len(t.outcomes))
	if len(t.outcomes) == 1 {
		n = "the only request"
	}
	words, of := t.commonest()
	if of < len(t.outcomes) {
		return fmt.Errorf("%s to %s failed, %d of them with %s", n, t.endpoint, of, words)
	}
	return fmt.Errorf("%s to %s failed: %s", n, t.endpoint, words)
}
