package result

import "encoding/json"

// Model is what was run.
type Model struct {
	Name          string `json:"name"`
	Source        string `json:"source"`
	Family        string `json:"family"`
	ParamsTotal   int64  `json:"params_total"`
	RandomWeights bool   `json:"random_weights"`
}

// Engine is what ran it.
type Engine struct {
	Name     string            `json:"name"`
	Version  string            `json:"version"`
	Versions map[string]string `json:"versions"` // versions of the libraries of the engine
	Options  map[string]string `json:"options"`  // graph, attention, compile, ...
	Timer    string            `json:"timer"`    // parts of a step that the times include
	LoadS    *float64          `json:"load_s"`
	Notes    []string          `json:"notes"`
}

// Parallelism is how it was split. What is not known of a server is 0 here and null
// in a file.
type Parallelism struct {
	TP       int `json:"tp"`
	PP       int `json:"pp"`
	EP       int `json:"ep"`
	DP       int `json:"dp"`
	Replicas int `json:"replicas"`
}

// MarshalJSON writes null for what is not known.
func (p Parallelism) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		TP       *int `json:"tp"`
		PP       *int `json:"pp"`
		EP       *int `json:"ep"`
		DP       *int `json:"dp"`
		Replicas int  `json:"replicas"`
	}{known(p.TP), known(p.PP), known(p.EP), known(p.DP), p.Replicas})
}

// known is the address of a value, nil of a zero one.
func known[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
