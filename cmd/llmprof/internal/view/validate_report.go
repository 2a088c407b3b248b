//go:build !js

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/plots/report"
	"llmprof/validate"
)

// Section is the comparison as a part of the report.
func (v *Validation) Section(files bool) (report.Section, error) {
	s := report.Section{ID: "observed", Title: "Predicted and observed"}
	statement := render.Notes{Items: []string{
		fmt.Sprintf("%d of %d figures of %d measured results are compared, each with the prediction for the model, GPU, engine, split and "+
			"lengths that it "+
			"was measured with, by the constants of \"llmprof validate\".", len(v.Score.Rows), v.Observations, len(v.Files)),
		"Error: predicted over observed, less 1. Inside: what was observed, of repeats the median, is in the predicted 90 % interval. " +
			"Noise: half the width of the observations' own 95 % interval.",
	}}
	s.Parts = []report.Part{
		{Block: statement},
		{Block: v.SummaryTable("Error in %, of observations that nothing was fitted on", false)},
		{Block: v.SummaryTable("Scored separately: a constant was fitted on these", true)},
	}
	_, follows := v.longest()
	timed := slices.ContainsFunc(v.Score.Rows, func(r validate.Row) bool { return r.Metric == validate.TTFT || r.Metric == validate.TPOT })
	for _, draw := range []struct {
		name   string
		figure func() (*plots.Figure, error)
		wanted bool
	}{{"accuracy", v.Scatter, timed}, {"follow", v.Follow, follows}} {
		if !draw.wanted {
			continue
		}
		if _, err := draw.figure(); err != nil { // more engines or batches than one picture keeps apart
			s.Parts = append(s.Parts, report.Part{Block: render.Notes{Items: []string{"Not drawn: " + err.Error()}}})
			continue
		}
		picture, err := Picture(draw.name, draw.figure, files)
		if err != nil {
			return s, fmt.Errorf("picture %s: %w", draw.name, err)
		}
		s.Parts = append(s.Parts, report.Part{Picture: picture})
	}
	if len(v.Score.Rows) > 0 {
		s.Parts = append(s.Parts, report.Part{Block: v.observedTable(), Sortable: true})
	}
	s.Parts = append(s.Parts,
		report.Part{Block: render.Notes{Title: "Not compared", Items: v.Skipped()}},
		report.Part{Block: render.Notes{Title: "To be looked at", Items: v.Findings()}})
	return s, nil
}

// An aspect is something that rows may have in common: then the title says it
// once, and no column says it again and again.
type aspect struct {
	title string
	left  bool
	of    func(*validate.Row) any
	name  func(any) string // in the title
}

func (v *Validation) aspects() []aspect {
	text := func(x any) string { return fmt.Sprint(x) }
	return []aspect{
		{"model", true, func(r *validate.Row) any { return r.Model }, text},
		{"GPU", true, func(r *validate.Row) any { return r.GPU }, func(x any) string { return v.Scorer.GPUName(fmt.Sprint(x)) }},
		{"engine", true, func(r *validate.Row) any { return r.Runs() }, text},
		{"TP", false, func(r *validate.Row) any { return r.TP }, func(x any) string { return fmt.Sprintf("TP %v", x) }},
		{"batch", false, func(r *validate.Row) any { return r.Batch }, func(x any) string { return fmt.Sprintf("batch %v", x) }},
		{"prompt", false, func(r *validate.Row) any { return r.Prompt }, func(x any) string { return fmt.Sprintf("prompt %v", x) }},
		{"generated", false, func(r *validate.Row) any { return r.Gen }, func(x any) string { return fmt.Sprintf("%v generated", x) }},
	}
}

// observedTable has a row for each TTFT, TPOT, TTLT and J/token that was observed.
func (v *Validation) observedTable() render.Table {
	var rows []*validate.Row
	for i := range v.Score.Rows {
		if m := v.Score.Rows[i].Metric; m != validate.EnergyPerPrompt && m != validate.EnergyPerRequest {
			rows = append(rows, &v.Score.Rows[i])
		}
	}
	t := render.Table{Columns: []render.Column{{Title: "metric", Left: true}}}
	var differ []aspect
	for _, a := range v.aspects() {
		if first := a.of(rows[0]); !slices.ContainsFunc(rows, func(r *validate.Row) bool { return a.of(r) != first }) {
			if t.Title != "" {
				t.Title += ", "
			}
			t.Title += a.name(first)
			continue
		}
		differ = append(differ, a)
		t.Columns = append(t.Columns, render.Column{Title: a.title, Left: a.left})
	}
	t.Columns = append(t.Columns, render.Column{Title: "floor"}, render.Column{Title: "low"}, render.Column{Title: "expected"},
		render.Column{Title: "high"},
		render.Column{Title: "observed"}, render.Column{Title: "error in %"}, render.Column{Title: "interval", Left: true})
	for _, r := range rows {
		cells := []any{MetricTitle(r.Metric)}
		for _, a := range differ {
			cells = append(cells, a.of(r))
		}
		t.Rows = append(t.Rows, render.Row{Cells: append(cells, Quantity(r.Metric, r.Floor), Quantity(r.Metric, r.PredictedLow),
			Quantity(r.Metric, &r.Predicted), Quantity(r.Metric, r.PredictedHigh), Quantity(r.Metric, &r.Value), render.Percent(r.Error),
			insideCell(r))})
	}
	return t
}

// insideCell says where the observation is.
func insideCell(r *validate.Row) any {
	inside, ok := r.Inside()
	switch {
	case r.FasterThanFloor:
		return render.Painted{Value: "faster than the floor", Color: render.Bad}
	case !ok:
		return nil // an energy has none
	}
	return judged(inside, "inside", "outside")
}

// Scatter plots the errors of predicted TTFT and TPOT of everything that was compared.
func (v *Validation) Scatter() (*plots.Figure, error) {
	var points []plots.Observed
	for i := range v.Score.Rows {
		r := &v.Score.Rows[i]
		if r.Metric != validate.TTFT && r.Metric != validate.TPOT {
			continue
		}
		o := plots.Observed{
			Decode: r.Metric == validate.TPOT, Name: pointName(r), GPU: v.Scorer.GPUName(r.GPU), Engine: strings.TrimSuffix(r.Runs(), "-2024"),
			Predicted: r.Predicted, Observed: r.Value, Fitted: r.Fitted != "",
		}
		if r.PredictedLow != nil && r.PredictedHigh != nil {
			o.Low, o.High = *r.PredictedLow, *r.PredictedHigh
		}
		points = append(points, o)
	}
	parts := []string{fmt.Sprintf("%d observations", len(points))}
	for _, s := range validate.Summarize(v.Score.Rows) {
		if !s.Fitted && (s.Metric == validate.TTFT || s.Metric == validate.TPOT) {
			parts = append(parts, fmt.Sprintf("%s: median error %.1f %% of %d held out", MetricTitle(s.Metric), 100*s.MedianAPE, s.N))
		}
	}
	return plots.Accuracy(strings.Join(append(parts, "llmprof"), " · "), points)
}

func pointName(r *validate.Row) string {
	name := fmt.Sprintf("%s, batch %d, %d", r.Model, r.Batch, r.Prompt)
	if r.TP > 1 {
		name += fmt.Sprintf(", TP %d", r.TP)
	}
	return name
}

// A track is what all points of one chart share: everything but prompt length, batch
// and mode.
type track struct {
	model, gpu, engine, weights string
	tp, gen                     int
}

func trackOf(r *validate.Row) track {
	return track{r.Model, r.GPU, r.Engine, r.Weights, r.TP, r.Gen}
}

// Follow plots the model with the most observations over prompt length and batch.
func (v *Validation) Follow() (*plots.Figure, error) {
	t, ok := v.longest()
	if !ok {
		return nil, fmt.Errorf("no model was observed at two lengths of the prompt or two batches with one length of the answer")
	}
	type line struct {
		runs   string
		decode bool
		batch  int
	}
	lines := map[line][]*validate.Row{}
	var order []line
	for i := range v.Score.Rows {
		r := &v.Score.Rows[i]
		if !v.followed(r) || trackOf(r) != t {
			continue
		}
		l := line{r.Runs(), r.Metric == validate.TPOT, r.Batch}
		if lines[l] == nil {
			order = append(order, l)
		}
		lines[l] = append(lines[l], r)
	}
	slices.SortFunc(order, func(a, b line) int { return cmp.Or(-cmp.Compare(a.runs, b.runs), cmp.Compare(a.batch, b.batch)) })
	var drawn []plots.BatchLine
	for _, l := range order {
		b, err := v.batchLine(lines[l])
		if err != nil {
			return nil, err
		}
		drawn = append(drawn, b)
	}
	parts := []string{t.model, v.Scorer.GPUName(t.gpu), fmt.Sprintf("%d tokens generated", t.gen), t.weights, "llmprof"}
	if t.tp > 1 {
		parts = slices.Insert(parts, 2, fmt.Sprintf("TP %d", t.tp))
	}
	return plots.Follow(strings.Join(parts, " · "), drawn)
}

func (v *Validation) followed(r *validate.Row) bool {
	return (r.Metric == validate.TTFT || r.Metric == validate.TPOT) && r.Load == validate.Static
}

// longest is the track with the most observations among those with at least two
// prompt lengths or batches.
func (v *Validation) longest() (best track, ok bool) {
	type place struct{ prompt, batch int }
	count, places := map[track]int{}, map[track]map[place]bool{}
	most := 0
	for i := range v.Score.Rows {
		r := &v.Score.Rows[i]
		if !v.followed(r) {
			continue
		}
		t := trackOf(r)
		if places[t] == nil {
			places[t] = map[place]bool{}
		}
		count[t]++
		places[t][place{r.Prompt, r.Batch}] = true
		if len(places[t]) > 1 && count[t] > most {
			best, ok, most = t, true, count[t]
		}
	}
	return best, ok
}

// batchLine is one line of the chart: its observations, and predictions at their prompt
// lengths and at the powers of two between them.
func (v *Validation) batchLine(rows []*validate.Row) (plots.BatchLine, error) {
	first := rows[0]
	c := plots.BatchLine{Engine: first.Runs(), Decode: first.Metric == validate.TPOT, Batch: first.Batch}
	var prompts []int
	for _, r := range rows {
		prompts = append(prompts, r.Prompt)
		s := plots.ObservedAt{Prompt: r.Prompt, Value: r.Value}
		if r.Low != nil && r.High != nil {
			s.Low, s.High = *r.Low, *r.High
		}
		c.Observed = append(c.Observed, s)
	}
	least, most := slices.Min(prompts), slices.Max(prompts)
	prompts = append(prompts, plots.Doublings(least, most)...)
	if least == most { // one prompt makes no line: it runs on to half and twice of it
		prompts = append(prompts, max(least/2, 1), 2*most)
	}
	slices.Sort(prompts)
	for _, p := range slices.Compact(prompts) {
		config := first.Config
		config.Prompt = p
		span, err := v.Scorer.Span(config, first.Metric)
		switch {
		case err != nil && (p < least || p > most):
			continue // a batch that was not observed need not fit
		case err != nil:
			return c, err
		}
		c.Predicted = append(c.Predicted, plots.PredictedAt{Prompt: p, Span: span})
	}
	return c, nil
}
