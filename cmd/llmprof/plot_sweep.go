package main

import (
	"context"
	"strings"

	"llmprof/analytic"
	"llmprof/plots"
)

// drawSweep sweeps every pair of the models and GPUs that were named.
func (a *app) drawSweep(ctx context.Context, d *drawing) (*plots.Figure, error) {
	v, err := plots.ParseVariable(d.by)
	if err != nil {
		return nil, wrong(err)
	}
	models, gpus := names(d.Model), names(d.GPU)
	if len(models) == 0 || len(gpus) == 0 {
		return nil, usage("which model on which GPU? Give --model and --gpu a name each, or several with commas between")
	}
	var curves []plots.Curve
	var cases []*analytic.Case
	for _, m := range models {
		for _, g := range gpus {
			q := d.question
			q.Model, q.GPU = m, g
			ans, err := a.answer(ctx, &q)
			if err != nil {
				return nil, err
			}
			curve, err := a.sweep(d, v, &ans.Case, curveName(models, gpus, ans))
			if err != nil {
				return nil, err
			}
			curves = append(curves, curve)
			cases = append(cases, &ans.Case)
		}
	}
	return plots.Latency(plots.SweepCaption(v, cases...), v, curves)
}

// names are those between commas.
func names(list string) (all []string) {
	for n := range strings.SplitSeq(list, ",") {
		if n = strings.TrimSpace(n); n != "" {
			all = append(all, n)
		}
	}
	return all
}

// curveName is what distinguishes a curve from the others.
func curveName(models, gpus []string, ans *answer) string {
	switch {
	case len(models) > 1 && len(gpus) > 1:
		return ans.Q.GPU + ", " + ans.Model.Name
	case len(models) > 1:
		return ans.Model.Name
	}
	return ans.Q.GPU
}

// sweep answers at each value. Of the doublings it leaves out those that the
// model cannot be split into, as TP 16 of a model with 12 heads; of given values
// it refuses them.
func (a *app) sweep(d *drawing, v plots.Variable, c *analytic.Case, name string) (plots.Curve, error) {
	curve := plots.Curve{Name: name}
	for _, x := range d.steps(v, c) {
		one, err := plots.Sweep(c, v, []int{x}, name)
		if err != nil {
			if len(d.values) > 0 {
				return curve, wrong(err)
			}
			a.logf("left out: %v", err)
			continue
		}
		curve.Points = append(curve.Points, one.Points...)
	}
	return curve, nil
}
