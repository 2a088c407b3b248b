package experiment

import (
	"llmprof/analytic/engine"
	"llmprof/deployment"
	"llmprof/unit"
)

// Request is what is asked of an estimate of the point on a GPU. Of a server it is what its settings say that it runs.
func (p *Point) Request(gpu string) (*deployment.Request, error) {
	q := &deployment.Request{Model: p.Model, GPU: gpu, TP: &p.TP, Batch: &p.Batch, PromptLen: &p.PromptLen, GenLen: &p.GenLen}
	if p.Replicas > 1 {
		q.DP = &p.Replicas
	}
	if p.Engine == OpenAI {
		q.Weights = p.ServedWeights
		if p.ServedTP > 0 {
			q.TP = &p.ServedTP
		}
		if p.ServedKV == "" {
			return q, nil
		}
		var err error
		q.KV, err = unit.ParseFormat(p.ServedKV)
		return q, err
	}
	mode := ""
	if p.Graph {
		mode = "graph"
	}
	e, err := engine.ParseMode(p.Engine, mode)
	if err != nil {
		return nil, err
	}
	q.Engine, q.Weights, q.AllLogits = e.Profile().Name, p.WeightFormat(), p.Elana
	return q, nil
}
