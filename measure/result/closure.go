package result

// A Closure is a test that parts make up a whole, as a relative difference.
type Closure struct {
	Name   string  `json:"name"`
	Whole  float64 `json:"whole"`
	Parts  float64 `json:"parts"`
	Off    float64 `json:"off"` // parts / whole - 1
	Limit  float64 `json:"limit"`
	Passed bool    `json:"passed"`
}

// Meter is what metering itself cost.
type Meter struct {
	PeriodS  float64  `json:"period_s"`
	ReadS    float64  `json:"read_s"`        // time of one reading of all sensors
	Overhead *float64 `json:"tpot_overhead"` // TPOT with it over TPOT without, less 1; null if not tried
}
