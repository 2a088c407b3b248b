//go:build !js

package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/plots"
	"llmprof/validate"
)

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
