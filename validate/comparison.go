package validate

import (
	"llmprof/hardware"
	"llmprof/measure/result"
)

// A Comparison is a grid's predictions beside its measurements.
type Comparison struct {
	GPU     hardware.GPU
	Results string // folder of the result files
	Planned int    // runs of points, each cycle counted

	Predictions *Predictions
	Kept        Kept // the file of the predictions
	Scorer      *Scorer

	Observations int // all, those not scored included
	Score        *Score
	Operators    []ResultOperators

	Runs    result.Summary
	Older   int // results that are older than the predictions
	Missing []MissingPoint
}

// A MissingPoint has no result.
type MissingPoint struct {
	ID     string `json:"id"`
	Name   string `json:"name"` // the configuration
	Reason string `json:"reason"`
}
