package main

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/plots"
	compare "llmprof/validate"
)

// draw writes the chart.
func (v *validation) draw(kind string) error {
	figure := v.scatter
	switch v.chart {
	case "follow":
		figure = v.follow
	case "ops":
		figure = v.operatorPicture
	}
	f, err := figure()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	if err := f.Write(&b, kind); err != nil {
		return err
	}
	return writeFile(v.output.file, b.Bytes())
}

// scatter is predicted over observed of everything that was compared.
func (v *validation) scatter() (*plots.Figure, error) {
	var points []plots.Observed
	for i := range v.score.Rows {
		r := &v.score.Rows[i]
		if r.Metric != compare.TTFT && r.Metric != compare.TPOT {
			continue
		}
		points = append(points, plots.Observed{
			Decode: r.Metric == compare.TPOT, Name: pointName(r), GPU: v.gpuName(r.GPU), Engine: r.Runs(),
			Predicted: r.Predicted, Observed: r.Value, Fitted: r.Fitted != "",
		})
	}
	parts := []string{fmt.Sprintf("%d observations", len(points))}
	for _, s := range compare.Summarize(v.score.Rows) {
		if !s.Fitted && (s.Metric == compare.TTFT || s.Metric == compare.TPOT) {
			parts = append(parts, fmt.Sprintf("%s: median error %.1f %% of %d that nothing was fitted on", short(s.Metric), 100*s.MedianAPE, s.N))
		}
	}
	return plots.Accuracy(strings.Join(append(parts, "llmprof"), " · "), points)
}

// gpuName is a GPU's name as people write it.
func (v *validation) gpuName(key string) string {
	if g, err := v.scorer.GPU(key); err == nil {
		return g.Name
	}
	return key
}

// pointName is what an outlier is called.
func pointName(r *compare.Row) string {
	name := fmt.Sprintf("%s, batch %d, %d", r.Model, r.Batch, r.Prompt)
	if r.TP > 1 {
		name += fmt.Sprintf(", TP %d", r.TP)
	}
	return name
}

// A track is what one picture follows: everything but prompt, batch and mode.
type track struct {
	model, gpu, engine, weights string
	tp, gen                     int
}

func trackOf(r *compare.Row) track {
	return track{r.Model, r.GPU, r.Engine, r.Weights, r.TP, r.Gen}
}

// follow is one model over prompt and batch: the one with the most observations.
func (v *validation) follow() (*plots.Figure, error) {
	t, ok := v.longest()
	if !ok {
		return nil, fmt.Errorf("--chart follow: no model was observed at two lengths of the prompt; the rest may have other lengths of the answer")
	}
	type line struct {
		runs   string
		decode bool
		batch  int
	}
	lines := map[line][]*compare.Row{}
	var order []line
	for i := range v.score.Rows {
		r := &v.score.Rows[i]
		if !v.followed(r) || trackOf(r) != t {
			continue
		}
		l := line{r.Runs(), r.Metric == compare.TPOT, r.Batch}
		if lines[l] == nil {
			order = append(order, l)
		}
		lines[l] = append(lines[l], r)
	}
	slices.SortFunc(order, func(a, b line) int { return cmp.Or(-cmp.Compare(a.runs, b.runs), cmp.Compare(a.batch, b.batch)) })
	var courses []plots.Course
	for _, l := range order {
		c, err := v.course(lines[l])
		if err != nil {
			return nil, err
		}
		courses = append(courses, c)
	}
	parts := []string{t.model, v.gpuName(t.gpu), fmt.Sprintf("%d tokens generated", t.gen), t.weights, "llmprof"}
	if t.tp > 1 {
		parts = slices.Insert(parts, 2, fmt.Sprintf("TP %d", t.tp))
	}
	return plots.Follow(strings.Join(parts, " · "), courses)
}

// followed reports whether a row can be in the picture.
func (v *validation) followed(r *compare.Row) bool {
	return (r.Metric == compare.TTFT || r.Metric == compare.TPOT) && r.Load == compare.Static
}

// longest is the track with the most observations, at two prompts at least.
func (v *validation) longest() (best track, ok bool) {
	count, prompts := map[track]int{}, map[track]map[int]bool{}
	most := 0
	for i := range v.score.Rows {
		r := &v.score.Rows[i]
		if !v.followed(r) {
			continue
		}
		t := trackOf(r)
		if prompts[t] == nil {
			prompts[t] = map[int]bool{}
		}
		count[t]++
		prompts[t][r.Prompt] = true
		if len(prompts[t]) > 1 && count[t] > most {
			best, ok, most = t, true, count[t]
		}
	}
	return best, ok
}

// course is the observations of a line with predictions at their prompts and at
// the doublings between.
func (v *validation) course(rows []*compare.Row) (plots.Course, error) {
	first := rows[0]
	c := plots.Course{Engine: first.Runs(), Decode: first.Metric == compare.TPOT, Batch: first.Batch}
	var prompts []int
	for _, r := range rows {
		prompts = append(prompts, r.Prompt)
		s := plots.Sight{Prompt: r.Prompt, Value: r.Value}
		if r.Low != nil && r.High != nil {
			s.Low, s.High = *r.Low, *r.High
		}
		c.Observed = append(c.Observed, s)
	}
	prompts = append(prompts, plots.Doublings(slices.Min(prompts), slices.Max(prompts))...)
	slices.Sort(prompts)
	for _, p := range slices.Compact(prompts) {
		config := first.Config
		config.Prompt = p
		span, err := v.scorer.Span(config, first.Metric)
		if err != nil {
			return c, err
		}
		c.Predicted = append(c.Predicted, plots.Step{Prompt: p, Span: span})
	}
	return c, nil
}
