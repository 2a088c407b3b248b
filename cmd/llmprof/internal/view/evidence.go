package view

import (
	"fmt"

	"llmprof/internal/stats"
	"llmprof/plan"
	"llmprof/validate"
)

// An Accuracy is what stands behind a row: how far the predictions of its engine on its
// GPU are from observations.
type Accuracy struct {
	Measured  bool     `json:"measured"`                          // The constants were measured on a GPU of the kind.
	N         int      `json:"n"`                                 // observations
	MedianAPE *float64 `json:"median_ape" jsonschema:"minimum=0"` // median absolute error, as a share; nil of none
	EngineN   int      `json:"engine_n"`                          // observations of the engine on any GPU
	EngineAPE *float64 `json:"engine_median_ape" jsonschema:"minimum=0"`
}

// String says it in a few words.
func (a Accuracy) String() string {
	constants := "constants of its generation"
	if a.Measured {
		constants = "constants measured on it"
	}
	switch {
	case a.N > 0:
		return fmt.Sprintf("%d observations of this engine on this GPU, median error %.1f %%; %s", a.N, 100**a.MedianAPE, constants)
	case a.EngineN > 0:
		return fmt.Sprintf("no observation of this engine on this GPU (%d on others, median error %.1f %%); %s", a.EngineN, 100**a.EngineAPE,
			constants)
	}
	return "no observation of this engine; " + constants
}

// Evidence is the accuracy of engines on GPUs, by the names of both; that on all GPUs together is under "".
type Evidence map[string]map[string]Accuracy

// NewEvidence sums up the errors of observations of times on which no constant was fitted.
func NewEvidence(rows []validate.Row) Evidence {
	errors := map[string]map[string][]float64{}
	for _, x := range rows {
		if x.Metric.Energy() || x.Fitted != "" {
			continue
		}
		if errors[x.Engine] == nil {
			errors[x.Engine] = map[string][]float64{}
		}
		for _, gpu := range []string{x.GPU, ""} {
			errors[x.Engine][gpu] = append(errors[x.Engine][gpu], max(x.Error, -x.Error))
		}
	}
	all := Evidence{}
	for engine, of := range errors {
		all[engine] = map[string]Accuracy{}
		for gpu, some := range of {
			all[engine][gpu] = Accuracy{N: len(some), MedianAPE: stats.MedianOf(some), EngineN: len(of[""]), EngineAPE: stats.MedianOf(of[""])}
		}
	}
	return all
}

// Of is the accuracy of an engine on a GPU.
func (e Evidence) Of(engine, gpu string) Accuracy {
	if a, ok := e[engine][gpu]; ok {
		return a
	}
	a := e[engine][""]
	a.N, a.MedianAPE = 0, nil
	return a
}

// Weigh tells the cards of a search how many observations there are of each.
func (e Evidence) Weigh(q *plan.Request) {
	for i := range q.Cards {
		if c := &q.Cards[i]; c.Machine != nil {
			c.Observed = e.Of(c.Machine.Engine.Profile().Name, c.GPU.Key).N
		}
	}
}

// accuracy is that of the engine of a row on its GPU.
func (p *Plan) accuracy(r *plan.Row) Accuracy {
	a := p.Evidence.Of(r.Engine(), r.Card.GPU.Key)
	a.Measured = r.Card.Machine.Cal.Measured
	return a
}
