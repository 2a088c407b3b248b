package result

// Sizes are bytes of memory, counted after a real forward, each apart, with the
// analytic figure beside it.
type Sizes struct {
	Params      *int64         `json:"params"`
	Buffers     *int64         `json:"buffers"`
	KV          *int64         `json:"kv"`
	State       *int64         `json:"state"`
	Activations *int64         `json:"activations_peak"`
	Peak        *int64         `json:"peak"`
	Reserved    *int64         `json:"reserved"`
	Analytic    *AnalyticSizes `json:"analytic"`
}

// AnalyticSizes is what the theory says of the same.
type AnalyticSizes struct {
	Params      float64 `json:"params"`
	KV          float64 `json:"kv"`
	State       float64 `json:"state"`
	Activations float64 `json:"activations_peak"`
}
