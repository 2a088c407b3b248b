package result

import (
	"encoding/json"

	"llmprof/internal/stats"
)

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
	LoadS    *float64          `json:"load_s" jsonschema:"minimum=0"`
	Notes    []string          `json:"notes"`
}

// Parallelism is how it was split. What is not known of a server is 0 here and null
// in a file.
type Parallelism struct {
	TP       int `json:"tp" jsonschema:"nullable"`
	PP       int `json:"pp" jsonschema:"nullable"`
	EP       int `json:"ep" jsonschema:"nullable"`
	DP       int `json:"dp" jsonschema:"nullable"`
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

// Machine is where it ran.
type Machine struct {
	Host        string `json:"host"` // "" unless asked for: a name may be private
	OS          string `json:"os"`
	CPU         string `json:"cpu"`
	Cores       int    `json:"cores"`
	MemoryBytes *int64 `json:"memory_bytes"`
	Driver      string `json:"driver"`
	CUDA        string `json:"cuda"`
	GPUs        []GPU  `json:"gpus"`
}

// GPU is one that was used.
type GPU struct {
	Key         string   `json:"key"` // in the table of GPUs; "" if it is not there
	Name        string   `json:"name"`
	UUID        string   `json:"uuid"`
	MemoryBytes *int64   `json:"memory_bytes"`
	PowerLimitW *float64 `json:"power_limit_w" jsonschema:"minimum=0"`
	Persistence *bool    `json:"persistence"`
	MIG         *bool    `json:"mig"`
	ECC         *bool    `json:"ecc"`
}

// A Condition is the state of one GPU during one phase.
type Condition struct {
	Phase       string             `json:"phase"`
	UUID        string             `json:"uuid"`
	SMClockHz   *stats.Summary     `json:"sm_clock_hz"`
	MemClockHz  *stats.Summary     `json:"memory_clock_hz"`
	Temperature *stats.Summary     `json:"temperature_c"`
	Utilization *stats.Summary     `json:"utilization"`        // share of the time that a kernel ran, 0 to 1
	MemoryUtil  *stats.Summary     `json:"memory_utilization"` // share of the time that memory was read or written, 0 to 1
	ThrottledS  map[string]float64 `json:"throttled_s"`        // reason to seconds, as "hw_thermal" or "sw_power_cap"
	MemoryUsed  *int64             `json:"memory_used_bytes"`
	OtherPIDs   []int              `json:"other_pids"`

	Seconds            *float64 `json:"seconds" late:"true" jsonschema:"minimum=0"`             // time in which the GPU was watched
	SMClockMaxHz       *float64 `json:"sm_clock_max_hz" late:"true" jsonschema:"minimum=0"`     // the greatest that the GPU has
	MemClockMaxHz      *float64 `json:"memory_clock_max_hz" late:"true" jsonschema:"minimum=0"` // highest memory clock
	PowerLimitW        *float64 `json:"power_limit_w" late:"true" jsonschema:"minimum=0"`       // power limit in force
	PowerLimitDefaultW *float64 `json:"power_limit_default_w" late:"true" jsonschema:"minimum=0"`
}
