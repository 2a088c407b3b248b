package page

import (
	"reflect"
	"strconv"

	"llmprof/validate"
)

// An Observed is a measured time with what is predicted for it: what the page shows of
// the observations that come with the program.
type Observed struct {
	Model     string  `json:"model"`
	GPU       string  `json:"gpu"`
	Engine    string  `json:"engine"`
	TP        int     `json:"tp"`
	Batch     int     `json:"batch"`
	Prompt    int     `json:"prompt"`
	Gen       int     `json:"gen"`
	Weights   string  `json:"weights"`
	Load      string  `json:"load"`
	Metric    string  `json:"metric"`
	Value     float64 `json:"value"`
	Predicted float64 `json:"predicted"`
	Error     float64 `json:"error"`
	Fitted    bool    `json:"fitted"` // a constant was fitted on it
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
			Model: r.Model, GPU: r.GPU, Engine: r.Engine, TP: r.TP, Batch: r.Batch, Prompt: r.Prompt, Gen: r.Gen, Weights: r.Weights,
			Load: string(r.Load), Metric: string(r.Metric), Value: r.Value, Predicted: r.Predicted, Error: r.Error, Fitted: r.Fitted != "",
		})
	}
	return all
}

// Columns are observed times by the key of each property, without their errors, which follow: a third of the size of rows once both
// are compressed.
func Columns(all []Observed) map[string][]any {
	columns := map[string][]any{}
	for i := range all {
		o := reflect.ValueOf(all[i])
		for _, property := range reflect.VisibleFields(o.Type()) {
			value := o.FieldByIndex(property.Index).Interface()
			if v, ok := value.(float64); ok {
				value = plotted(v)
			}
			key := property.Tag.Get("json")
			columns[key] = append(columns[key], value)
		}
	}
	delete(columns, "error")
	return columns
}

// plotted is a time with the digits that a chart can show.
func plotted(v float64) float64 {
	v, _ = strconv.ParseFloat(strconv.FormatFloat(v, 'g', 5, 64), 64)
	return v
}
