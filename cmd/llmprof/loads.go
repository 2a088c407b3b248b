package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/measure/experiment"
	"llmprof/measure/openai"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/serving"
)

// loads are the points that were asked for: one for each concurrency or rate.
func (t *measureRun) loads() ([]experiment.Point, error) {
	var points []experiment.Point
	for i, n := range t.concurrencies {
		if n < 1 || slices.Contains(t.concurrencies[:i], n) {
			return nil, usage("--concurrency %d: want each number of requests at a time once, from 1 up", n)
		}
		p := t.point
		p.Concurrency = n
		points = append(points, p)
	}
	for i, hz := range t.rates {
		if slices.Contains(t.rates[:i], hz) {
			return nil, usage("--rate %v: want each rate once", hz)
		}
		p := t.point
		p.RequestRate = hz
		points = append(points, p)
	}
	if len(points) == 0 {
		points = append(points, t.point)
	}
	return points, nil
}

// sayLoads says how far several loads are, a line each; nil of one.
func (a *app) sayLoads(points []experiment.Point) func(experiment.Event) {
	if len(points) < 2 {
		return nil
	}
	return func(e experiment.Event) {
		load := fmt.Sprintf("%d at a time", e.Trial.Point.Concurrency)
		if hz := e.Trial.Point.RequestRate; hz > 0 {
			load = fmt.Sprintf("%g/s", hz)
		}
		a.logf("[%d/%d] %s: %s", e.At, e.Of, load, e.State)
	}
}

// loadSet is the results of several loads in their forms: one table of all, and as
// JSON a list of results.
func loadSet(results []*result.Result) forms {
	rows := view.ResultRows(results)
	set := resultSet(results, nil)
	set.data = func() any { return results }
	if !slices.ContainsFunc(rows, func(r view.ResultRow) bool { return r.Server == nil }) {
		set.page = func() *render.Document {
			return &render.Document{Blocks: []render.Block{view.ServerTable(rows, false)}}
		}
	}
	return set
}

// A line of the chart has all in common but the load.
type loadLine struct {
	model, endpoint, lengths string
	open                     bool
}

// parts name the line, with how requests came last.
func (l *loadLine) parts() []string {
	arrivals := "closed loop"
	if l.open {
		arrivals = "Poisson arrivals"
	}
	return []string{l.model, l.endpoint, l.lengths, arrivals}
}

// loadFigure draws the results that are of servers. What all lines have in common is
// in the caption, what their names differ in.
func loadFigure(results []*result.Result) (*plots.Figure, error) {
	served := slices.DeleteFunc(slices.Clone(results), func(r *result.Result) bool { return r.Serving == nil })
	if len(served) == 0 {
		return nil, errors.New("a chart of loads is of servers, and no result is of one")
	}
	slices.SortStableFunc(served, func(a, b *result.Result) int {
		x, y := view.Server(a), view.Server(b)
		return cmp.Or(cmp.Compare(value(x.Rate), value(y.Rate)), cmp.Compare(value(x.Concurrency), value(y.Concurrency)))
	})
	of := plots.TokensPerSecond
	if slices.ContainsFunc(served, func(r *result.Result) bool { return value(view.Server(r).Generated) == 0 }) {
		of = plots.RequestsPerSecond
	}
	var order []loadLine
	loads := map[loadLine][]plots.Loaded{}
	for _, r := range served {
		l := loadLine{r.Model.Name, r.Serving.Endpoint, fmt.Sprintf("%d + %d tokens", r.Workload.PromptLen, r.Workload.GenLen),
			r.Serving.RateHz != nil}
		if loads[l] == nil {
			order = append(order, l)
		}
		loads[l] = append(loads[l], loaded(r, of))
	}
	caption, names := shared(order)
	curves := make([]plots.LoadCurve, len(order))
	for i, l := range order {
		curves[i] = plots.LoadCurve{Name: names[i], Loads: loads[l]}
	}
	return plots.UnderLoad(caption, of, curves)
}

// shared splits what names lines into what all have in common and what each has of
// its own: if there is nothing, how requests came.
func shared(lines []loadLine) (caption string, names []string) {
	first := lines[0].parts()
	var common []string
	own := make([][]string, len(lines))
	for k, part := range first {
		same := !slices.ContainsFunc(lines, func(l loadLine) bool { return l.parts()[k] != part })
		if same && (k < len(first)-1 || len(lines) > 1) {
			common = append(common, part)
			continue
		}
		for i := range lines {
			own[i] = append(own[i], lines[i].parts()[k])
		}
	}
	for _, o := range own {
		names = append(names, strings.Join(o, ", "))
	}
	return strings.Join(append(common, "llmprof"), " · "), names
}

// loaded is a result as a mark of the chart.
func loaded(r *result.Result, of plots.Throughput) plots.Loaded {
	s := view.Server(r)
	l := plots.Loaded{
		Load: fmt.Sprint(value(s.Concurrency)), Throughput: value(s.Generated),
		Failed: slices.Contains(r.Marks, "failed") || slices.Contains(r.Marks, "interrupted"),
	}
	if s.Rate != nil {
		l.Load = fmt.Sprintf("%g/s", *s.Rate)
	}
	if of == plots.RequestsPerSecond {
		l.Throughput = s.Completed
	}
	if r.TTFT != nil {
		l.TTFT = plots.Spread{Median: r.TTFT.Median, P99: r.TTFT.P99}
	}
	if r.TPOT != nil {
		l.TPOT = plots.Spread{Median: r.TPOT.Median, P99: r.TPOT.P99}
	}
	return l
}

// value is what a pointer is to, zero of nil.
func value[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// refinements are how often the interval of a knee is halved.
const refinements = 3

// searchKnee measures rates until the knee is found: the largest rate that a server answers without being saturated.
// It gives the results in the order of their rates.
func (a *app) searchKnee(ctx context.Context, t *measureRun, measure func([]experiment.Point) ([]*result.Result, error)) ([]*result.Result,
	error) {
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
	means := fmt.Sprintf("the median TTFT is at most %d times, the median TPOT at most %d times that at %g/s", serving.LongerTTFT,
		serving.LongerTPOT, span[0])
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
	return light.Holds(r.TTFT.Median, tpot)
}
