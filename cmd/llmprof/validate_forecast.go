package main

import (
	"context"
	"fmt"
	"time"

	"llmprof/measure/experiment"
	"llmprof/models"
	compare "llmprof/validate"
)

// predict predicts every point, and leaves those to be measured that have
// predictions.
func (r *rehearsal) predict(ctx context.Context) error {
	r.predictions = &compare.Predictions{
		Written: time.Now().UTC(), Version: versionText(), GPU: compare.NamedGPU{Key: r.gpu.Key, Name: r.gpu.Name},
		Calibrations: []compare.Named{}, Grid: r.exp.Name,
	}
	all, err := r.exp.Trials()
	if err != nil {
		return err
	}
	predictable, twice := map[string]bool{}, map[string]bool{} // by hash, and by ID
	for _, t := range all {
		if twice[t.ID] {
			continue
		}
		twice[t.ID] = true
		if _, seen := predictable[t.Hash]; !seen {
			p, err := r.predictPoint(ctx, &t)
			if err != nil {
				return err
			}
			predictable[t.Hash] = p.Reason == nil
			if p.Reason != nil {
				r.logf("not measured, since it has no prediction: %s: %s", t.ID, *p.Reason)
				r.missing = append(r.missing, unmeasured{t.ID, nameOf(p, r.gpu.Key), "no prediction: " + *p.Reason})
			}
		}
		if predictable[t.Hash] {
			r.trials = append(r.trials, t)
		}
	}
	if len(r.trials) == 0 {
		return fmt.Errorf("none of %d points can be predicted on %s, so there is nothing to measure: %s",
			len(all), r.gpu.Key, *r.predictions.Points[0].Reason)
	}
	return nil
}

// nameOf is what a point is called.
func nameOf(p *compare.Predicted, gpu string) string {
	c := p.Config(gpu)
	return c.String()
}

// predictPoint predicts one point of the experiment.
func (r *rehearsal) predictPoint(ctx context.Context, t *experiment.Trial) (*compare.Predicted, error) {
	m, err := r.model(ctx, t.Point.Model)
	if err != nil {
		return nil, err
	}
	p := r.predictions.Add(r.v.scorer, pointConfig(&t.Point, m, r.gpu.Key), t.Hash, t.Settings)
	if why := unlikeEstimate(&t.Point); why != "" {
		p.Refuse(why)
	}
	return p, nil
}

// model finds a model by the name that a point has. Two models of one name could
// not be told apart in the comparison.
func (r *rehearsal) model(ctx context.Context, name string) (*models.Model, error) {
	if m := r.named[name]; m != nil {
		return m, nil
	}
	m, err := r.lab.Models.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	if other := r.models[m.Name]; other != nil && other.Source != m.Source {
		return nil, fmt.Errorf("two models are called %s, of %s and %s: measure them apart", m.Name, other.Source, m.Source)
	}
	r.models[m.Name], r.named[name] = m, m
	return m, nil
}

// unlikeEstimate says why no estimate can be made of a point.
func unlikeEstimate(p *experiment.Point) string {
	switch {
	case p.Engine == experiment.OpenAI:
		return "a server under load makes its own batches: an estimate is of a batch that starts together"
	case p.Device == "cpu" && p.Graph:
		return "graph = true: a processor has no CUDA graph; give graph = false"
	}
	return ""
}

// pointConfig is what the result of a point will say that it is of.
func pointConfig(p *experiment.Point, m *models.Model, gpu string) compare.Config {
	c := compare.Config{
		Model: m.Name, GPU: gpu, Engine: p.Engine, Mode: "eager", TP: max(p.TP, 1), Batch: p.Batch, Prompt: p.PromptLen, Gen: p.GenLen,
		Weights: p.WeightFormat(), Load: compare.Static, Logits: p.Elana, Params: m.Params(),
	}
	if p.Graph {
		c.Mode = "graph"
	}
	return c
}
