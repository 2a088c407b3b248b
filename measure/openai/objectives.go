package openai

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"llmprof/internal/spelling"
	"llmprof/internal/stats"
	"llmprof/measure/result"
)

// An SLO is the limits of a request's times that goodput counts within; nil for no
// limit.
type SLO struct{ TTFT, TPOT, TTLT *time.Duration }

// ParseSLO reads limits as "ttft=500ms,tpot=50ms,ttlt=10s".
func ParseSLO(text string) (SLO, error) {
	var s SLO
	if strings.TrimSpace(text) == "" {
		return s, nil
	}
	limits := map[string]**time.Duration{"ttft": &s.TTFT, "tpot": &s.TPOT, "ttlt": &s.TTLT, "e2e": &s.TTLT}
	var found []error
	for part := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		limit, known := limits[strings.ToLower(name)]
		d, err := time.ParseDuration(value)
		switch {
		case !known:
			found = append(found, fmt.Errorf("%.40q is no time that has a limit; %s", name, spelling.Hint(
				name, []string{"ttft", "tpot", "ttlt", "e2e"})))
		case err != nil || d <= 0:
			found = append(found, fmt.Errorf("%s=%.40q: want a time above 0 with its unit, as 500ms or 2s", name, value))
		case *limit != nil:
			found = append(found, fmt.Errorf("%s has two limits", name))
		default:
			*limit = &d
		}
	}
	return s, errors.Join(found...)
}

// goodput counts the requests within every limit; nil where there is none. A
// request of one token has no TPOT, and keeps any limit of it; one whose TPOT is
// not known keeps none.
func (s SLO) goodput(of *result.Serving) *result.Goodput {
	if s == (SLO{}) {
		return nil
	}
	limit := func(d *time.Duration) *float64 {
		if d == nil {
			return nil
		}
		return new(d.Seconds())
	}
	g := &result.Goodput{TTFT: limit(s.TTFT), TPOT: limit(s.TPOT), TTLT: limit(s.TTLT)}
	within := func(got, most *float64) bool { return most == nil || got != nil && *got <= *most }
	counted := of.Counted()
	for i := range counted {
		r := &counted[i]
		tpot := perToken(r)
		if r.Generated != nil && *r.Generated == 1 {
			tpot = new(float64)
		}
		if r.Failure == "" && within(r.FirstTokenS, g.TTFT) && within(tpot, g.TPOT) && within(r.LastTokenS, g.TTLT) {
			g.Good++
		}
	}
	if n := len(counted); n > 0 {
		g.Share = float64(g.Good) / float64(n)
	}
	if of.Duration > 0 {
		g.PerSecond = g.Share * float64(len(of.Records)) / of.Duration
	}
	return g
}

// adjusted gives percentiles over all requests that count, each failed one counted as the
// slowest: percentiles of the completed alone look the better the more requests a
// server drops.
func adjusted(s *result.Serving) *result.Adjusted {
	return &result.Adjusted{
		TTFT: tail(s, func(r *result.Record) *float64 { return r.FirstTokenS }),
		TPOT: tail(s, perToken),
		TTLT: tail(s, func(r *result.Record) *float64 { return r.LastTokenS }),
	}
}

// tail takes the percentiles of a time. One that a failed request has a part in is
// nil.
func tail(s *result.Serving, of func(*result.Record) *float64) result.Tail {
	var all []float64
	counted := s.Counted()
	for i := range counted {
		r := &counted[i]
		if r.Failure != "" {
			all = append(all, math.Inf(1))
		} else if t := of(r); t != nil {
			all = append(all, *t)
		}
	}
	slices.Sort(all)
	at := func(p float64) *float64 {
		if len(all) == 0 {
			return nil
		}
		x := stats.Percentile(all, p)
		if i := p / 100 * float64(len(all)-1); i == math.Trunc(i) {
			x = all[int(i)] // the next takes no part in it, since it may be infinite
		}
		if math.IsInf(x, 0) || math.IsNaN(x) { // between two that failed
			return nil
		}
		return &x
	}
	return result.Tail{P50: at(50), P90: at(90), P95: at(95), P99: at(99)}
}
