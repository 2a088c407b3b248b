package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/internal/stats"
	"llmprof/measure/result"
	"llmprof/validate"
	"llmprof/validate/reports"
)

// runRepeated compares results of processes before and after, and fails where a figure rose by more than is allowed.
func (a *app) runRepeated(
	ctx context.Context, base *estimateFlags, sides [2][]string, failOver string, top int, given func(string) bool,
) error {
	over, err := strconv.ParseFloat(strings.TrimSuffix(failOver, "%"), 64)
	if err != nil || !(over >= 0 && over < 1e6) {
		return usage("--fail-over %.40q: want percent, as 5%%", failOver)
	}
	if err := settings.Refuse(given, []string{"batch", "prompt-len", "gen-len", "tp"},
		"--%s: --fail-over compares results, which say it themselves; leave one of the two out"); err != nil {
		return err
	}
	r := &view.Regression{Over: over / 100, Top: top}
	var observed [2][]validate.Observation
	for i, files := range sides {
		c, err := reports.Collect(files, &reports.Overrides{Model: base.Model, GPU: base.GPU, Engine: base.Engine})
		if err != nil {
			return err
		}
		for _, x := range c.Refused {
			err = errors.Join(err, fmt.Errorf("%s: %w", x.Path, x.Err))
		}
		if err != nil {
			return err
		}
		for _, line := range c.Said {
			a.logf("%s", line)
		}
		observed[i] = c.Observations
		if r.Sides[i], err = operatorsOf([]string{"before", "after"}[i], files); err != nil {
			return err
		}
	}
	if r.Changes, r.Alone, err = validate.Changes(observed[0], observed[1], r.Over); err != nil {
		return err
	}
	if err := base.output.write(a, forms{page: r.Page, table: r.Table, data: func() any { return r.Document() }}); err != nil {
		return err
	}
	if n := len(slices.DeleteFunc(slices.Clone(r.Changes), func(c validate.Change) bool { return !c.Slower })); n > 0 {
		return fmt.Errorf("%d of %d figures rose by more than %g %%, and by more than processes of one release differ", n, len(r.Changes), over)
	}
	return ctx.Err()
}

// split puts the results before and after apart: what -- is between, or two arguments.
func split(args []string, dash int) (sides [2][]string, err error) {
	if dash < 0 && len(args) == 2 {
		dash = 1
	}
	if dash < 1 || dash >= len(args) {
		return sides, usage("--fail-over: want results before and after, as two folders, or as files with -- between them")
	}
	return [2][]string{args[:dash], args[dash:]}, nil
}

// operatorsOf is a side with the median over processes of what each operator took, where results have it.
func operatorsOf(name string, files []string) (s view.Side, err error) {
	paths, err := reports.Expand(files)
	if err != nil {
		return s, err
	}
	s.Name = name
	type operator struct{ phase, name string }
	times := map[operator][]float64{}
	var order []operator
	for _, path := range paths {
		r, err := result.Read(path)
		if err != nil || r.Operators == nil {
			continue
		}
		for _, o := range view.MeasuredSide(path, r).Ops {
			key := operator{o.Phase, o.Name}
			if times[key] == nil {
				order = append(order, key)
			}
			times[key] = append(times[key], o.Time)
		}
	}
	for _, o := range order {
		s.Ops = append(s.Ops, view.SideOperator{Phase: o.phase, Name: o.name, Time: stats.Median(times[o])})
	}
	return s, nil
}
