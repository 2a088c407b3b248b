package view

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"sync"

	"llmprof/plan"
	"llmprof/validate"
)

// An Accuracy is what stands behind a row: how far the predictions of its engine on its
// GPU are from observations.
type Accuracy struct {
	Measured  bool     `json:"measured"`                          // The constants were measured on a GPU of the kind.
	N         int      `json:"n"`                                 // observations
	MedianAPE *float64 `json:"median_ape" jsonschema:"minimum=0"` // median absolute error, as a share; nil of none
	Format    int      `json:"format_n"`                          // observations with weights in the format of the row
	Alike     int      `json:"architecture_n"`                    // observations of models with layers of the same kinds
	Both      int      `json:"format_architecture_n"`             // observations of such models in that format
	EngineN   int      `json:"engine_n"`                          // observations of the engine on any GPU
	EngineAPE *float64 `json:"engine_median_ape" jsonschema:"minimum=0"`
}

// errorsOf is the accuracy of engines on GPUs, by the names of both; that on all GPUs together is under "".
type errorsOf map[string]map[string]*predicted

// predicted is how far predictions of an engine on a GPU are from observations, and how many of these there are of each format and
// architecture.
type predicted struct {
	N         int                       `json:"n"`
	MedianAPE *float64                  `json:"median_ape"`
	Of        map[string]map[string]int `json:"of,omitempty"` // by the format of the weights and what the layers of the model are
}

//go:embed evidence.json
var scored []byte

// evidence is the accuracy of the built-in calibrations on the built-in observations. The file has it, since scoring the observations takes
// longer than most searches.
var evidence = sync.OnceValue(func() (e errorsOf) {
	if err := json.Unmarshal(scored, &e); err != nil {
		panic(err) // TestEvidence reads the file
	}
	return e
})

// architecture names what the layers of a model are, as validate.Architecture has them.
func architecture(kind, ffn string) string {
	mixing := map[string]string{"attention": "full attention", "windows": "windowed attention", "latent": "latent attention",
		"sparse": "sparse attention", "hybrid": "recurrent layers"}[kind]
	if ffn == "experts" {
		return "MoE with " + mixing
	}
	return "dense with " + mixing
}

// Weigh tells the cards of a search how many observations there are of each.
func Weigh(q *plan.Request) {
	for i := range q.Cards {
		if c := &q.Cards[i]; c.Machine != nil {
			c.Observed = map[string]int{}
			if on := evidence()[c.Machine.Engine.Profile().Name][c.GPU.Key]; on != nil {
				for format, models := range on.Of {
					for _, n := range models {
						c.Observed[format] += n
					}
				}
			}
		}
	}
}

// accuracy is that of the engine of a row on its GPU.
func (p *Plan) accuracy(r *plan.Row) Accuracy {
	a := Accuracy{Measured: r.Card.Machine.Cal.Measured}
	gpus := evidence()[r.Engine()]
	if everywhere := gpus[""]; everywhere != nil {
		a.EngineN, a.EngineAPE = everywhere.N, everywhere.MedianAPE
	}
	on := gpus[r.Card.GPU.Key]
	if on == nil {
		return a
	}
	a.N, a.MedianAPE = on.N, on.MedianAPE
	kind := architecture(validate.Architecture(r.Card.Model))
	for format, models := range on.Of {
		for of, n := range models {
			if format == r.Scheme {
				a.Format += n
			}
			if of == kind {
				a.Alike += n
			}
		}
	}
	a.Both = on.Of[r.Scheme][kind]
	return a
}

// rests says in a few words what a row rests on.
func (p *Plan) rests(r *plan.Row) string {
	switch a := p.accuracy(r); {
	case a.N > 0:
		return fmt.Sprintf("%d observations on it (%.1f %% off), %d %s, %d %s, %d both",
			a.N, 100**a.MedianAPE, a.Format, r.Scheme, a.Alike, architecture(validate.Architecture(r.Card.Model)), a.Both)
	case a.EngineN > 0:
		return fmt.Sprintf("no observation of this engine on this GPU (%d on others, %.1f %% off)", a.EngineN, 100**a.EngineAPE)
	}
	return "no observation of this engine"
}
