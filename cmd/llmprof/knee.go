package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"llmprof/measure/engine/openai"
	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/serving"
)

// refinements are how often the interval of a knee is halved.
const refinements = 3

// searchKnee measures rates until the knee is found: the largest rate that a server answers without being saturated.
// It gives the results in the order of their rates.
func (a *app) searchKnee(ctx context.Context, t *trial, measure func([]experiment.Point) ([]*result.Result, error)) ([]*result.Result, error) {
	var all []*result.Result
	var light serving.Light
	slo, err := openai.ParseSLO(t.point.SLO)
	if err != nil {
		return nil, wrong(err)
	}
	knee, err := serving.Search(t.span[0], t.span[1], refinements, func(rate float64) (bool, error) {
		p := t.point
		p.RequestRate = rate
		results, err := measure([]experiment.Point{p})
		all = append(all, results...)
		if err != nil || len(results) == 0 || ctx.Err() != nil {
			return false, cmp.Or(err, ctx.Err(), fmt.Errorf("no result at %g requests a second", rate))
		}
		holds := sustained(results[0], slo, &light)
		a.logf("%g/s: %s", rate, map[bool]string{true: "holds", false: "saturated"}[holds])
		return holds, nil
	})
	slices.SortStableFunc(all, func(x, y *result.Result) int { return cmp.Compare(value(x.Serving.RateHz), value(y.Serving.RateHz)) })
	if err == nil {
		a.logf("knee: %s", kneeText(knee, t.span, slo != openai.SLO{}))
	}
	return all, err
}

// kneeText says where the knee is, and what that means.
func kneeText(knee float64, span [2]float64, limited bool) string {
	means := fmt.Sprintf("the median TTFT is at most %d times, the median TPOT at most %d times that at %g/s", serving.LongerTTFT, serving.LongerTPOT, span[0])
	if limited {
		means = fmt.Sprintf("%.0f %% of the requests are within --slo", 100*serving.Within)
	}
	switch knee {
	case 0:
		return fmt.Sprintf("none: at %g requests a second it does not hold that %s", span[0], means)
	case span[1]:
		return fmt.Sprintf("none up to %g requests a second: %s", knee, means)
	}
	return fmt.Sprintf("%g requests a second, the largest rate tried at which %s", knee, means)
}

// sustained reports whether a server was not saturated. The first load that is asked about is the
// lightest, beside which others are judged where there is no SLO.
func sustained(r *result.Result, slo openai.SLO, light *serving.Light) bool {
	if g := r.Serving.Goodput; slo != (openai.SLO{}) {
		return g != nil && g.Share >= serving.Within
	}
	if r.TTFT == nil {
		return false
	}
	tpot := 0.0
	if r.TPOT != nil {
		tpot = r.TPOT.Median
	}
	if *light == (serving.Light{}) {
		*light = serving.Light{TTFT: r.TTFT.Median, TPOT: tpot}
	}
	return light.Holds(r.TTFT.Median, tpot)
}
