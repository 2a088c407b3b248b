package measure

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"llmprof/measure/experiment"
	"llmprof/measure/result"
)

// Marks of a server's result that does not count as done, or not in full.
const (
	someFailed  = "failures"    // some requests failed, no more than may
	tooMany     = "failed"      // more requests failed than may
	interrupted = "interrupted" // the run was stopped before its last request
)

// judge marks what servers' results hold of failures. Those of a run that stopped
// early, or in which more requests failed than may, come back beside an error: they
// are no finished run's.
func judge(ctx context.Context, p *experiment.Point, results []*result.Result, err error) ([]*result.Result, error) {
	stopped := err
	for _, r := range results {
		s := r.Serving
		switch {
		case s == nil:
			continue
		case stopped != nil && ctx.Err() != nil:
			warn(r, interrupted, "%v", stopped)
		case stopped != nil:
			warn(r, tooMany, "%v", stopped)
		}
		failed := s.Requests - s.Completed
		if failed == 0 {
			continue
		}
		text := fmt.Sprintf("%d of %d requests failed: %s", failed, s.Requests, failuresOf(s))
		share, allowed := float64(failed)/float64(s.Requests), p.FailuresAllowed()
		if share <= allowed {
			warn(r, someFailed, "%s", text)
			continue
		}
		warn(r, tooMany, "%s", text)
		if err == nil {
			err = fmt.Errorf("%s; that is %.3g %%, and %.3g %% may fail (--max-failures)", text, 100*share, 100*allowed)
		}
	}
	return results, err
}

// failuresOf lists the kinds of failure, the commonest first, with the first words
// that came with each.
func failuresOf(s *result.Serving) string {
	words := map[string]string{}
	for i := range s.Records {
		if r := &s.Records[i]; r.Failure != "" && words[r.Failure] == "" {
			words[r.Failure] = r.Error
		}
	}
	kinds := slices.Collect(maps.Keys(s.Failures))
	slices.SortFunc(kinds, func(a, b string) int { return cmp.Or(s.Failures[b]-s.Failures[a], strings.Compare(a, b)) })
	var parts []string
	for _, kind := range kinds {
		part := fmt.Sprintf("%d %s", s.Failures[kind], strings.ReplaceAll(kind, "_", " "))
		if w := words[kind]; w != "" {
			part += " (" + w + ")"
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, ", ")
}
