package live

import (
	"context"
	"fmt"
	"time"

	"llmprof/measure/experiment"
	"llmprof/models"
	"llmprof/validate"
)

// predict predicts every point. Points without a prediction are not measured.
func (s *session) predict(ctx context.Context) error {
	gpu := &s.Target.GPU
	s.made.Predictions = &validate.Predictions{
		Written: time.Now().UTC(), Version: s.Version, GPU: validate.NamedGPU{Key: gpu.Key, Name: gpu.Name},
		Calibrations: []validate.Named{}, Grid: s.exp.Name,
	}
	all, err := s.exp.Trials()
	if err != nil {
		return err
	}
	predictable, seen := map[string]bool{}, map[string]bool{} // hashes, and IDs
	for _, t := range all {
		if seen[t.ID] {
			continue
		}
		seen[t.ID] = true
		if _, known := predictable[t.Hash]; !known {
			if predictable[t.Hash], err = s.predictPoint(ctx, &t); err != nil {
				return err
			}
		}
		if predictable[t.Hash] {
			s.runs = append(s.runs, t)
		}
	}
	s.made.Planned = len(s.made.Predictions.Points) * max(s.exp.Cycles, 1)
	if len(s.runs) == 0 {
		return fmt.Errorf("none of %d points can be predicted on %s, so there is nothing to measure: %s",
			len(all), gpu.Key, *s.made.Predictions.Points[0].Reason)
	}
	return nil
}

// predictPoint predicts one point. It reports false, and lists the point as missing,
// where the point has no prediction.
func (s *session) predictPoint(ctx context.Context, t *experiment.Trial) (ok bool, err error) {
	m, err := s.model(ctx, t.Point.Model)
	if err != nil {
		return false, err
	}
	p := s.made.Predictions.Add(s.made.Scorer, configOf(&t.Point, m, s.Target.GPU.Key), t.Hash, t.Settings)
	if why := unpredictable(&t.Point); why != "" {
		p.Refuse(why)
	}
	if p.Reason == nil {
		return true, nil
	}
	s.report.Logf("not measured, since it has no prediction: %s: %s", t.ID, *p.Reason)
	c := p.Config(s.Target.GPU.Key)
	s.made.Missing = append(s.made.Missing, validate.MissingPoint{ID: t.ID, Name: c.String(), Reason: "no prediction: " + *p.Reason})
	return false, nil
}

// model finds a model by the name that a point has. Two models of one name are an
// error, because the comparison could not tell them apart.
func (s *session) model(ctx context.Context, name string) (*models.Model, error) {
	if m := s.named[name]; m != nil {
		return m, nil
	}
	m, err := s.Models.Resolve(ctx, name)
	if err != nil {
		return nil, err
	}
	if other := s.models[m.Name]; other != nil && other.Source != m.Source {
		return nil, fmt.Errorf("two models are called %s, of %s and %s: measure them apart", m.Name, other.Source, m.Source)
	}
	s.models[m.Name], s.named[name] = m, m
	return m, nil
}

// unpredictable says why no estimate can be made of a point, or "".
func unpredictable(p *experiment.Point) string {
	switch {
	case p.Engine == experiment.OpenAI:
		return "a server under load makes its own batches: an estimate is of a batch that starts together"
	case p.Device == "cpu" && p.Graph:
		return "graph = true: a processor has no CUDA graph; give graph = false"
	}
	return ""
}

// configOf is the configuration that the results of a point will have.
func configOf(p *experiment.Point, m *models.Model, gpu string) validate.Config {
	c := validate.Config{
		Model: m.Name, GPU: gpu, Engine: p.Engine, Mode: "eager", TP: max(p.TP, 1), Batch: p.Batch, Prompt: p.PromptLen, Gen: p.GenLen,
		Weights: p.WeightFormat(), Load: validate.Static, Logits: p.Elana, Params: m.Params(),
	}
	if p.Graph {
		c.Mode = "graph"
	}
	return c
}
