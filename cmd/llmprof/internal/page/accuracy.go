package page

import "llmprof/validate"

// An Observed is a measured time with what is predicted for it: what the page shows of
// the observations that come with the program.
type Observed struct {
	Model     string  `json:"model"`
	GPU       string  `json:"gpu"`
	Engine    string  `json:"engine"`
	Mode      string  `json:"mode"`
	TP        int     `json:"tp"`
	Batch     int     `json:"batch"`
	Prompt    int     `json:"prompt"`
	Gen       int     `json:"gen"`
	Weights   string  `json:"weights"`
	KV        string  `json:"kv"`
	Load      string  `json:"load"`
	Metric    string  `json:"metric"`
	Value     float64 `json:"value"`
	Predicted float64 `json:"predicted"`
	Error     float64 `json:"error"`
	Fitted    bool    `json:"fitted"` // a constant was fitted on it
	Source    string  `json:"source"`
}

// NewAccuracy lists the observed times of a score.
func NewAccuracy(s *validate.Score) []Observed {
	var all []Observed
	for i := range s.Rows {
		r := &s.Rows[i]
		if r.Metric.Energy() {
			continue
		}
		all = append(all, Observed{
			Model: r.Model, GPU: r.GPU, Engine: r.Engine, Mode: r.Mode, TP: r.TP, Batch: r.Batch, Prompt: r.Prompt, Gen: r.Gen, Weights: r.Weights, KV: r.KV,
			Load: string(r.Load), Metric: string(r.Metric), Value: r.Value, Predicted: r.Predicted, Error: r.Error, Fitted: r.Fitted != "", Source: r.Source,
		})
	}
	return all
}
