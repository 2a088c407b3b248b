package result

import "llmprof/measure/stats"

// Times are repeats of one duration, in seconds.
type Times struct {
	stats.Summary
	Samples []float64 `json:"samples"`
	Device  *float64  `json:"device_median"` // median by the device's events
	Warmups int       `json:"warmups"`       // repeats before the first sample
	Steady  bool      `json:"steady"`        // the warm-up ended because the times were steady
}

// Rates are tokens a second, of all sequences together.
type Rates struct {
	Generated *float64 `json:"generated"` // over the whole request
	Decode    *float64 `json:"decode"`    // over its decode steps
	Prompt    *float64 `json:"prompt"`    // over its prefill
}
