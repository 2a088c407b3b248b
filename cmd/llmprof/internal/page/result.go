package page

import (
	"errors"
	"fmt"

	"llmprof/deployment"
	"llmprof/measure/result"
	"llmprof/validate"
)

// result sets the times of a result file beside what is predicted for them, as
// "llmprof validate FILE" does.
func (p *Page) result(r *Request) (*Answer, error) {
	decoded, err := result.Decode(r.Name, []byte(r.File))
	if err != nil {
		return nil, err
	}
	all, err := validate.Reduce(r.Name, decoded)
	if err != nil {
		return withoutPrediction(decoded, err)
	}
	constants, err := p.known.Constants("")
	if err != nil {
		return nil, err
	}
	gpus, err := p.known.GPUs("")
	if err != nil {
		return nil, err
	}
	score := validate.NewScorer(deployment.BuiltInModels(), gpus, constants.Among).Score(all)
	times := NewAccuracy(score)
	if len(times) == 0 && len(score.Skipped) > 0 {
		return withoutPrediction(decoded, errors.New(score.Skipped[0].Detail))
	}
	if len(times) == 0 {
		return nil, fmt.Errorf("%s holds no time", r.Name)
	}
	return &Answer{Data: times}, nil
}

// withoutPrediction are the times of a result for which nothing is predicted, as of one that was measured on a
// processor, with the reason why.
func withoutPrediction(r *result.Result, why error) (*Answer, error) {
	var all []Observed
	w := &r.Workload
	for _, t := range []struct {
		metric validate.Metric
		times  *result.Times
	}{{validate.TTFT, r.TTFT}, {validate.TPOT, r.TPOT}, {validate.TTLT, r.TTLT}} {
		if t.times == nil {
			continue
		}
		all = append(all, Observed{
			Model: r.Model.Name, Engine: r.Engine.Name, TP: max(r.Parallelism.TP, 1), Batch: w.Batch, Prompt: w.PromptLen, Gen: w.GenLen,
			Weights: w.Weights, Metric: string(t.metric), Value: t.times.Median,
		})
	}
	if len(all) == 0 {
		return nil, why
	}
	return &Answer{Text: why.Error(), Data: all}, nil
}
