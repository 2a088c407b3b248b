package aggregate

import (
	"errors"
	"fmt"

	"llmprof/measure/result"
)

// Make aggregates each experiment among the results, in the order in which
// they first appear. One that cannot be is an error beside the others' report.
func Make(results []*result.Result, o Options) (*Report, error) {
	byID := map[string][]*result.Result{}
	var order []string
	for _, r := range results {
		if byID[r.ID] == nil {
			order = append(order, r.ID)
		}
		byID[r.ID] = append(byID[r.ID], r)
	}
	report := &Report{Schema: Schema, Experiments: []Aggregate{}}
	var errs []error
	for _, id := range order {
		a, err := Of(byID[id], o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		report.Experiments = append(report.Experiments, *a)
	}
	var err error
	if report.Cycles, err = cyclesOf(report.Experiments); err != nil {
		errs = append(errs, fmt.Errorf("comparing cycles: %w", err))
	}
	return report, errors.Join(errs...)
}
