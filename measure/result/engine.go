package result

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
	Versions map[string]string `json:"versions"` // of what it is built on
	Options  map[string]string `json:"options"`  // graph, attention, compile, ...
	Timer    string            `json:"timer"`    // what the times include
	LoadS    *float64          `json:"load_s"`
	Notes    []string          `json:"notes"`
}

// Parallelism is how it was split.
type Parallelism struct {
	TP       int `json:"tp"`
	PP       int `json:"pp"`
	EP       int `json:"ep"`
	DP       int `json:"dp"`
	Replicas int `json:"replicas"`
}
