package serving

import (
	"context"

	"llmprof/unit"
)

// Warnings are what has to be known before the figures of a load are trusted. The load, which is nil for a trace, has a name.
func (r *Result) Warnings(ctx context.Context, s *Server, name string, l *Load) (all []unit.Warning) {
	warn := func(code, format string, args ...any) {
		all = append(all, unit.Warn(code, "%s: "+format, append([]any{name}, args...)...))
	}
	if r.Refused > 0 {
		warn("requests_refused", "%d requests were refused; %s", r.Refused, r.Refusal)
	}
	if r.Interrupted {
		warn("interrupted", "interrupted after %d requests", r.Completed)
		return all
	}
	if l == nil || l.Arrival.Kind == "closed" {
		return all
	}
	if s.Prefillers == 0 || l.Gen.MeanLength() >= 2 { // An answer of one token has no decode.
		states, err := s.Steadies(ctx, l.Prompt, l.Gen)
		if err == nil {
			_, err = states.Rate(l.Arrival.Rate, s.Layout)
		}
		if err != nil {
			warn("unstable", "%v; the times grow with the number of requests", err)
			return all
		}
	}
	if x := r.Transient; x != nil && !x.Steady {
		warn("not_steady", "%s", x.Warning())
	}
	return all
}
