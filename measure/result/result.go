// Package result is the file that a measurement leaves: one process, one
// configuration, whole or absent. Its form is the JSON Schema
// schema/measure.v1.json; a value that was not measured is null, and Reasons
// says why.
package result

import (
	"time"

	"llmprof/measure/stats"
)

// Schema names the form of a result.
const Schema = "llmprof.measure/v1"

// A Result is what one process measured of one configuration.
type Result struct {
	Schema      string      `json:"schema"`
	ID          string      `json:"id"` // of the experiment that it is a process of
	Process     int         `json:"process"`
	Processes   int         `json:"processes"`
	Started     time.Time   `json:"started"`
	Ended       time.Time   `json:"ended"`
	Model       Model       `json:"model"`
	Engine      Engine      `json:"engine"`
	Parallelism Parallelism `json:"parallelism"`
	Workload    Workload    `json:"workload"`

	TTFT       *Times   `json:"ttft_s"`
	TPOT       *Times   `json:"tpot_s"` // one value a pass: (TTLT - TTFT) / (generated - 1)
	TTLT       *Times   `json:"ttlt_s"`
	StepTime   *Times   `json:"step_s"` // every decode step
	Throughput *Rates   `json:"throughput_tok_s"`
	Serving    *Serving `json:"serving"` // of an engine that is asked over HTTP

	Sizes  *Sizes  `json:"sizes_bytes"`
	Energy *Energy `json:"energy"`

	Closure    []Closure         `json:"closure"`
	Machine    Machine           `json:"machine"`
	Conditions []Condition       `json:"conditions"`
	Meter      *Meter            `json:"meter"`
	Provenance Provenance        `json:"provenance"`
	Reasons    map[string]string `json:"reasons"`  // why a key is null
	Marks      []string          `json:"marks"`    // what makes the figures doubtful: "contaminated", "throttled", ...
	Warnings   []string          `json:"warnings"` // the same, and lesser things, in sentences
}

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

// Workload is what it was given. The lengths are tokens of each sequence.
type Workload struct {
	Batch     int    `json:"batch"`
	PromptLen int    `json:"prompt_len"`
	GenLen    int    `json:"gen_len"`
	Weights   string `json:"weights"`
	KV        string `json:"kv"`
	Act       string `json:"act"`
	Prompts   string `json:"prompts"` // "random", or the file that they came from
	Seed      uint64 `json:"seed"`
	Elana     bool   `json:"elana"` // ELANA's protocol: frozen context, logits of all positions
}

// Times are repeats of one duration, in seconds.
type Times struct {
	stats.Summary
	Samples []float64 `json:"samples"`
	Device  *float64  `json:"device_median"` // the same by the device's events
	Warmups int       `json:"warmups"`       // repeats before the first sample
	Steady  bool      `json:"steady"`        // the warm-up ended because the times were steady
}

// Rates are tokens a second, of all sequences together.
type Rates struct {
	Generated float64  `json:"generated"` // over the whole request
	Decode    *float64 `json:"decode"`    // over its decode steps
	Prompt    *float64 `json:"prompt"`    // over its prefill
}

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

// Energy is what the phases used. Scope says whose: the GPUs, with CPU, DRAM or
// a board's rails beside them in the phases' domains.
type Energy struct {
	Scope      string     `json:"scope"`
	PerPrompt  *float64   `json:"per_prompt_j"` // one sequence's share, gross
	PerToken   *float64   `json:"per_token_j"`
	PerRequest *float64   `json:"per_request_j"`
	Net        *NetEnergy `json:"net"` // of idle with the weights resident
	Prefill    *Window    `json:"prefill"`
	Decode     *Window    `json:"decode"`
	Request    *Window    `json:"request"`
	Idle       *Window    `json:"idle"`        // before the engine started
	IdleLoaded *Window    `json:"idle_loaded"` // with the weights resident
	CO2        *CO2       `json:"co2"`
}

// NetEnergy is energy less what idling as long would have used.
type NetEnergy struct {
	PerPrompt  *float64 `json:"per_prompt_j"`
	PerToken   *float64 `json:"per_token_j"`
	PerRequest *float64 `json:"per_request_j"`
}

// CO2 is what the energy of a request stands for.
type CO2 struct {
	GramsPerKWh float64 `json:"g_per_kwh"`
	PerRequest  float64 `json:"per_request_g"`
	Source      string  `json:"source"`
}

// A Window is what the meters saw while one phase repeated.
type Window struct {
	Seconds float64  `json:"seconds"`
	Passes  float64  `json:"passes"` // a pass that straddles an edge counts by its share of time
	Steps   float64  `json:"steps"`
	Domains []Domain `json:"domains"`
}

// A Domain is one thing that energy was measured of.
type Domain struct {
	Name      string   `json:"name"`     // "GPU 0", "package-0", "VDD_IN"
	Kind      string   `json:"kind"`     // "gpu", "cpu", "dram", "module", "board", "rail"
	ID        string   `json:"id"`       // the GPU's UUID
	Sensor    string   `json:"sensor"`   // "nvml counter", "rapl", "ina3221", ...
	Includes  []string `json:"includes"` // of a rail that feeds several
	Summed    bool     `json:"summed"`   // it counts towards the total; a part of another domain does not
	EnergyJ   float64  `json:"energy_j"` // best figure: the counter's where there is one
	CounterJ  *float64 `json:"counter_j"`
	IntegralJ *float64 `json:"integral_j"` // of instantaneous power over the same edges
	MeanW     float64  `json:"mean_w"`
	Seconds   float64  `json:"seconds"` // between its own edges
	Samples   int      `json:"samples"`
	Coarse    bool     `json:"coarse"` // a sensor that averages or seldom answers
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
	PowerLimitW *float64 `json:"power_limit_w"`
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
	Utilization *stats.Summary     `json:"utilization"`
	MemoryUtil  *stats.Summary     `json:"memory_utilization"`
	ThrottledS  map[string]float64 `json:"throttled_s"` // reason to seconds
	MemoryUsed  *int64             `json:"memory_used_bytes"`
	OtherPIDs   []int              `json:"other_pids"`
}

// Meter is what metering itself cost.
type Meter struct {
	PeriodS  float64  `json:"period_s"`
	ReadS    float64  `json:"read_s"`        // of one reading of all sensors
	Overhead *float64 `json:"tpot_overhead"` // TPOT with it over TPOT without, less 1; null if not tried
}

// Provenance is what it takes to do it again.
type Provenance struct {
	Version string   `json:"version"` // of llmprof
	Command []string `json:"command"`
	Seed    uint64   `json:"seed"`
	Hash    string   `json:"config_hash"` // of the experiment's settings
	Config  string   `json:"config"`      // the experiment file
}

// Serving is what a server's clients saw.
type Serving struct {
	Endpoint    string         `json:"endpoint"` // without user, key or query
	API         string         `json:"api"`      // "chat" or "completions"
	Concurrency int            `json:"concurrency"`
	RateHz      *float64       `json:"request_rate_hz"` // of Poisson arrivals; null in a closed loop
	Requests    int            `json:"requests"`
	Completed   int            `json:"completed"`
	Failures    map[string]int `json:"failures"` // kind to number
	FirstChunk  *Times         `json:"first_chunk_s"`
	TTFO        *Times         `json:"ttfo_s"` // first token that is no reasoning
	ChunkGap    *Times         `json:"chunk_gap_s"`
	Usage       *UsageCheck    `json:"usage"`
	Duration    float64        `json:"duration_s"`
	RequestRate float64        `json:"completed_hz"`
	Records     []Record       `json:"records"`
}

// UsageCheck sets the tokens that the server says against the chunks that came.
type UsageCheck struct {
	Tokens         int     `json:"tokens"`
	Chunks         int     `json:"chunks"`
	TokensPerChunk float64 `json:"tokens_per_chunk"`
	Missing        int     `json:"missing"`    // requests whose server gave no usage
	Discrepant     int     `json:"discrepant"` // requests whose tokens are not what was asked for
}

// A Record is one request. Times are seconds from when it was sent.
type Record struct {
	Index        int      `json:"index"`
	SentS        float64  `json:"sent_s"` // from the start of the run
	HeadersS     *float64 `json:"headers_s"`
	FirstChunkS  *float64 `json:"first_chunk_s"`
	FirstTokenS  *float64 `json:"first_token_s"`
	FirstOutputS *float64 `json:"first_output_s"`
	LastTokenS   *float64 `json:"last_token_s"`
	DoneS        *float64 `json:"done_s"`
	Prompt       *int     `json:"prompt_tokens"`
	Generated    *int     `json:"generated_tokens"`
	Chunks       int      `json:"chunks"`
	Status       int      `json:"status"`
	Failure      string   `json:"failure"` // "" if it was completed
	Output       string   `json:"output,omitempty"`
}
