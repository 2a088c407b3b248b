// Package result is the file that a measurement leaves: one process, one
// configuration, whole or absent. Its form is what
// "llmprof schema measure" shows; a value that was not measured is null, and Reasons
// says why.
package result

import (
	"encoding/json"
	"iter"
	"slices"
	"time"

	"llmprof/analytic/operator"
	"llmprof/internal/stats"
)

// Schema names the form of a result.
const Schema = "llmprof.measure/v1"

// A Result is what one process measured of one configuration.
type Result struct {
	Schema string `json:"schema"`
	// identifier of the experiment; its processes share it
	ID          string      `json:"id" jsonschema:"pattern=^[A-Za-z0-9][A-Za-z0-9._-]{0\\,159}$"`
	Process     int         `json:"process"`
	Processes   int         `json:"processes"`
	Cycle       int         `json:"cycle"` // number of the repeat of the configuration, from 0
	Started     time.Time   `json:"started"`
	Ended       time.Time   `json:"ended"`
	Model       Model       `json:"model"`
	Engine      Engine      `json:"engine"`
	Parallelism Parallelism `json:"parallelism"`
	Workload    Workload    `json:"workload"`

	TTFT       *Times   `json:"ttft_s"`
	TPOT       *Times   `json:"tpot_s"` // one value a pass: (TTLT - TTFT) / (generated - 1), or less the tokens of a server's first chunk
	TTLT       *Times   `json:"ttlt_s"`
	StepTime   *Times   `json:"step_s"` // every decode step
	Throughput *Rates   `json:"throughput_tok_s"`
	Serving    *Serving `json:"serving"` // measurement of a server; null of a local engine

	Operators *Operators `json:"operators" late:"true"` // each timed by itself

	Outputs [][]int `json:"outputs,omitempty"` // tokens generated for each sequence of the last request; empty unless they were wanted

	Sizes  *Sizes  `json:"sizes_bytes"`
	Energy *Energy `json:"energy"`

	Closure    []Closure         `json:"closure"`
	Machine    Machine           `json:"machine"`
	Conditions []Condition       `json:"conditions"`
	Meter      *Meter            `json:"meter"`
	Provenance Provenance        `json:"provenance"`
	Reasons    map[string]string `json:"reasons"`  // why a key is null
	Marks      []string          `json:"marks"`    // reasons to doubt the figures: "contaminated", "throttled", ...
	Warnings   []string          `json:"warnings"` // marks and lesser remarks, in sentences
}

// Provenance is what it takes to do it again.
type Provenance struct {
	Version string   `json:"version"` // version of llmprof
	Command []string `json:"command"`
	Seed    uint64   `json:"seed"`
	Hash    string   `json:"config_hash"` // hash of the experiment's settings
	Config  string   `json:"config"`      // the experiment file

	// Settings are all that the hash is of, in canonical JSON: keys sorted, what
	// is zero left out. Null for a measurement without an experiment.
	Settings json.RawMessage `json:"settings" jsonschema:"type=object,nullable"`
}

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
	// median time between two samples of power; null where no sensor gives two
	PeriodS  *float64 `json:"period_s" jsonschema:"exclusiveMinimum=0"`
	ReadS    float64  `json:"read_s" jsonschema:"minimum=0"` // time of one reading of all sensors
	Overhead *float64 `json:"tpot_overhead"`                 // TPOT with it over TPOT without, less 1; null if not tried
}

// Times are repeats of one duration, in seconds.
type Times struct {
	stats.Summary
	Samples []float64 `json:"samples" jsonschema:"minimum=0"`       // empty where there are too many: then they are in the histogram
	Device  *float64  `json:"device_median" jsonschema:"minimum=0"` // median by the device's events
	Warmups int       `json:"warmups"`                              // repeats before the first sample
	Steady  bool      `json:"steady"`                               // the warm-up ended because the times were steady

	Histogram *stats.Histogram `json:"histogram,omitempty"`
}

// Values gives the samples, those of a histogram as precisely as it has them.
func (t *Times) Values() iter.Seq[float64] {
	if t.Histogram != nil {
		return t.Histogram.Values()
	}
	return slices.Values(t.Samples)
}

// InBins is t with its samples in a histogram.
func (t *Times) InBins() *Times {
	if t == nil || t.Histogram != nil {
		return t
	}
	own := *t
	own.Samples, own.Histogram = nil, stats.NewHistogram(t.Samples)
	return &own
}

// Rates are tokens a second, of all sequences together.
type Rates struct {
	Generated *float64 `json:"generated" jsonschema:"minimum=0"` // generated tokens over the time of the whole request
	Decode    *float64 `json:"decode" jsonschema:"minimum=0"`    // generated tokens over the time of decode steps
	Prompt    *float64 `json:"prompt" jsonschema:"minimum=0"`    // prompt tokens over the time of the prefill
}

// Sizes are bytes of memory of all GPUs of a process together. Each is counted by itself after a real
// forward pass, and the analytic figure stands beside it.
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
	Params      float64 `json:"params" jsonschema:"minimum=0"`
	KV          float64 `json:"kv" jsonschema:"minimum=0"`
	State       float64 `json:"state" jsonschema:"minimum=0"`
	Activations float64 `json:"activations_peak" jsonschema:"minimum=0"`
}

// Workload is what it was given. The lengths are tokens of each sequence; those of a
// server's prompts are the mean by its own count, where it counts them. The batch
// and formats that are not known of a server are zero here and null in a file.
type Workload struct {
	operator.Workload `jsonschema:"nullable=batch"`
	Weights           string `json:"weights" jsonschema:"nullable"`
	KV                string `json:"kv" jsonschema:"nullable"`
	Act               string `json:"act" jsonschema:"nullable"`
	Prompts           string `json:"prompts"` // "random", or the file that they came from
	Seed              uint64 `json:"seed"`
	// sampling temperature of a server; 0 for greedy decoding
	Temperature float64 `json:"temperature,omitempty" jsonschema:"exclusiveMinimum=0,maximum=2"`
	// ELANA's protocol: frozen context, logits of all positions
	Elana bool `json:"elana"`
}

// MarshalJSON writes null for what is not known.
func (w Workload) MarshalJSON() ([]byte, error) {
	type plain Workload // a type without this method, which would call itself
	return json.Marshal(struct {
		Batch   *int    `json:"batch"`
		Weights *string `json:"weights"`
		KV      *string `json:"kv"`
		Act     *string `json:"act"`
		plain
	}{known(w.Batch), known(w.Weights), known(w.KV), known(w.Act), plain(w)})
}

// Energy is what the phases used. Scope says whose: the GPUs, with CPU, DRAM or
// a board's rails beside them in the phases' domains.
type Energy struct {
	Scope      string     `json:"scope"`
	PerPrompt  *float64   `json:"per_prompt_j" jsonschema:"minimum=0"` // one sequence's share, gross
	PerToken   *float64   `json:"per_token_j" jsonschema:"minimum=0"`
	PerRequest *float64   `json:"per_request_j" jsonschema:"minimum=0"`
	Net        *NetEnergy `json:"net"` // energy less that of idle with the weights resident
	Prefill    *Window    `json:"prefill"`
	Decode     *Window    `json:"decode"`
	Request    *Window    `json:"request"`
	Idle       *Window    `json:"idle"`        // before the engine started
	IdleLoaded *Window    `json:"idle_loaded"` // idle window with the weights resident
	CO2        *CO2       `json:"co2"`
}

// NetEnergy is energy less what idling as long would have used.
type NetEnergy struct {
	PerPrompt  *float64 `json:"per_prompt_j"`
	PerToken   *float64 `json:"per_token_j"`
	PerRequest *float64 `json:"per_request_j"`
}

// JoulesPerKWh is exact.
const JoulesPerKWh = 3.6e6

// CO2 is what the energy of a request stands for.
type CO2 struct {
	GramsPerKWh float64 `json:"g_per_kwh" jsonschema:"minimum=0"`
	PerRequest  float64 `json:"per_request_g" jsonschema:"minimum=0"`
	Source      string  `json:"source"`
}

// A Window is what the meters saw while one phase repeated.
type Window struct {
	Seconds float64  `json:"seconds" jsonschema:"minimum=0"`
	Passes  float64  `json:"passes" jsonschema:"minimum=0"` // a pass that straddles an edge counts by its share of time
	Steps   float64  `json:"steps" jsonschema:"minimum=0"`
	Domains []Domain `json:"domains"`
}

// A Domain is one thing that energy was measured of.
type Domain struct {
	Name      string   `json:"name"`                            // "GPU 0", "package-0", "VDD_IN"
	Kind      string   `json:"kind"`                            // "gpu", "cpu", "dram", "module", "board", "rail"
	ID        string   `json:"id"`                              // the GPU's UUID
	Sensor    string   `json:"sensor"`                          // "nvml counter", "rapl", "ina3221", ...
	Includes  []string `json:"includes"`                        // parts that a shared rail feeds
	Summed    bool     `json:"summed"`                          // The domain counts towards the total; a part of another domain does not.
	EnergyJ   float64  `json:"energy_j" jsonschema:"minimum=0"` // best figure: the counter's where there is one
	CounterJ  *float64 `json:"counter_j" jsonschema:"minimum=0"`
	IntegralJ *float64 `json:"integral_j" jsonschema:"minimum=0"` // integral of instantaneous power over the same edges
	MeanW     float64  `json:"mean_w" jsonschema:"minimum=0"`
	Seconds   float64  `json:"seconds" jsonschema:"minimum=0"` // between its own edges
	Samples   int      `json:"samples"`
	Coarse    bool     `json:"coarse"` // a sensor that averages or seldom answers
}
