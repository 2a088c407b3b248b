package aggregate

import (
	"errors"
	"fmt"
	"time"

	"llmprof/internal/stats"
	"llmprof/measure/result"
)

// Schema names the form of a report.
const Schema = "llmprof.aggregate/v1"

// A Report is all that was aggregated.
type Report struct {
	Schema      string      `json:"schema"`
	Experiments []Aggregate `json:"experiments"`
	Cycles      []Cycles    `json:"cycles"` // spread over repeats of a configuration
}

// An Aggregate is the processes of one experiment together.
type Aggregate struct {
	ID            string             `json:"id"`
	Cycle         int                `json:"cycle"`
	ConfigName    string             `json:"config_name"` // the experiment file; "" without one
	Hash          string             `json:"measurement_config_hash"`
	ModelName     string             `json:"model_name"`
	Engine        string             `json:"engine"`
	EngineVersion string             `json:"engine_version"`
	GPUs          []string           `json:"gpus"` // names of the GPUs
	Workload      result.Workload    `json:"workload"`
	Parallelism   result.Parallelism `json:"parallelism"`
	Start         time.Time          `json:"start_time"`
	End           time.Time          `json:"end_time"`

	Method     Method     `json:"aggregation"`
	Totals     Totals     `json:"totals"`
	Latency    Latency    `json:"latency"`
	Efficiency Efficiency `json:"efficiency"`
	AIPerf     AIPerf     `json:"aiperf"`
	Extended   Extended   `json:"extended_metrics"`
	Breakdown  Breakdown  `json:"energy_breakdown"`
	Throttle   Throttle   `json:"thermal_throttle"`

	Processes []Process         `json:"process_results"`
	Marks     []string          `json:"marks"`
	Warnings  []string          `json:"measurement_warnings"`
	Reasons   map[string]string `json:"reasons"` // why a key, or all below it, is null
}

// Method is how the processes were put together, and whether they may be.
type Method struct {
	Method       string   `json:"method"`
	NumProcesses int      `json:"num_processes"`
	Missing      []int    `json:"missing_processes"`
	Overlap      bool     `json:"temporal_overlap_verified"`
	OverlapS     float64  `json:"overlap_s" jsonschema:"minimum=0"`  // time in which all processes ran together
	ShortestS    float64  `json:"shortest_s" jsonschema:"minimum=0"` // time of the shortest process
	Attribution  *bool    `json:"gpu_attribution_verified"`
	Mixed        bool     `json:"mixed_configurations"`
	Warnings     []string `json:"warnings"`
}

// Totals are sums over the processes, and LLM Energy Measure's means.
type Totals struct {
	Tokens         *float64 `json:"total_tokens" jsonschema:"minimum=0"`
	InputTokens    *float64 `json:"total_input_tokens" jsonschema:"minimum=0"`
	OutputTokens   *float64 `json:"total_output_tokens" jsonschema:"minimum=0"`
	Requests       *float64 `json:"total_requests" jsonschema:"minimum=0"`
	EnergyJ        *float64 `json:"total_energy_j" jsonschema:"minimum=0"`
	InferenceS     *float64 `json:"total_inference_time_sec" jsonschema:"minimum=0"`
	FLOPs          *float64 `json:"total_flops" jsonschema:"minimum=0"`
	TokensPerS     *float64 `json:"tokens_per_second" jsonschema:"minimum=0"`     // all processes together
	AvgTokensPerS  *float64 `json:"avg_tokens_per_second" jsonschema:"minimum=0"` // the mean over processes: one process's rate
	EffectiveRate  *float64 `json:"effective_batch_throughput" jsonschema:"minimum=0"`
	AvgEnergyToken *float64 `json:"avg_energy_per_token_j" jsonschema:"minimum=0"`
}

// Latency is over the samples of all processes.
type Latency struct {
	TTFT *stats.Summary `json:"ttft_s"`
	TPOT *stats.Summary `json:"tpot_s"`
	TTLT *stats.Summary `json:"ttlt_s"`
	Step *stats.Summary `json:"step_s"`
}

// Efficiency is ratios of the totals.
type Efficiency struct {
	TokensPerJoule  *float64 `json:"tokens_per_joule" jsonschema:"minimum=0"`
	JoulesPerToken  *float64 `json:"joules_per_token" jsonschema:"minimum=0"`
	FLOPsPerJoule   *float64 `json:"flops_per_joule" jsonschema:"minimum=0"`
	FLOPsPerToken   *float64 `json:"flops_per_token" jsonschema:"minimum=0"`
	FLOPsPerSecond  *float64 `json:"flops_per_second" jsonschema:"minimum=0"`
	FLOPsPerInput   *float64 `json:"flops_per_input_token" jsonschema:"minimum=0"`
	FLOPsPerOutput  *float64 `json:"flops_per_output_token" jsonschema:"minimum=0"`
	WattsPerTokRate *float64 `json:"watts_per_token_per_second" jsonschema:"minimum=0"`
	MJPerTokTotal   *float64 `json:"mj_per_tok_total" jsonschema:"minimum=0"`
	MJPerTokAdj     *float64 `json:"mj_per_tok_adjusted"`
}

// AIPerf is AIPerf's set of energy metrics, of the GPUs alone.
type AIPerf struct {
	TotalGPUEnergy     *float64 `json:"total_gpu_energy_j" jsonschema:"minimum=0"`
	AverageGPUPower    *float64 `json:"average_gpu_power_w" jsonschema:"minimum=0"`
	TokensPerJoule     *float64 `json:"output_tokens_per_joule" jsonschema:"minimum=0"`
	PerUser            *float64 `json:"energy_per_user_j" jsonschema:"minimum=0"`
	PerOutputToken     *float64 `json:"energy_per_output_token_j" jsonschema:"minimum=0"`
	PerTotalToken      *float64 `json:"energy_per_total_token_j" jsonschema:"minimum=0"`
	PerRequest         *float64 `json:"energy_per_request_j" jsonschema:"minimum=0"`
	PerformancePerWatt *float64 `json:"performance_per_watt" jsonschema:"minimum=0"` // requests a second for each watt
	OutputTPSPerWatt   *float64 `json:"output_tps_per_watt" jsonschema:"minimum=0"`
	GoodputPerWatt     *float64 `json:"goodput_per_watt" jsonschema:"minimum=0"`
	EnergyDelayProduct *float64 `json:"energy_delay_product_js" jsonschema:"minimum=0"`
}

// Breakdown is energy with and without what idling would have used.
type Breakdown struct {
	RawJ           *float64           `json:"raw_j" jsonschema:"minimum=0"`
	AdjustedJ      *float64           `json:"adjusted_j"` // raw_j - baseline_power_w × the time of each process
	BaselinePowerW *float64           `json:"baseline_power_w" jsonschema:"minimum=0"`
	BaselineMethod *string            `json:"baseline_method"`
	PerDevice      map[string]float64 `json:"energy_per_device_j"` // energy by the id of the GPU, else by the name of the domain
}

// Throttle is how long clocks were held back, over all GPUs.
type Throttle struct {
	Thermal     *bool              `json:"thermal"`
	Power       *bool              `json:"power"`
	DurationS   *float64           `json:"throttle_duration_sec" jsonschema:"minimum=0"`
	MaxTempC    *float64           `json:"max_temperature_c" jsonschema:"minimum=0"`
	ByReasonS   map[string]float64 `json:"reasons_s"`
	Temperature *float64           `json:"temperature_drift_c" jsonschema:"minimum=0"` // the hottest less the coolest reading of one GPU
}

// Make aggregates each experiment among the results, in the order in which
// they first appear. One that cannot be is an error beside the others' report.
func Make(results []*result.Result, o Options) (*Report, error) {
	byID := map[string][]*result.Result{}
	var order []string
	for _, r := range results {
		if byID[r.ID] == nil {
			order = append(order, r.ID)
		}
		byID[r.ID] = append(byID[r.ID], r)
	}
	report := &Report{Schema: Schema, Experiments: []Aggregate{}}
	var errs []error
	for _, id := range order {
		a, err := build(byID[id], o)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		report.Experiments = append(report.Experiments, *a)
	}
	var err error
	if report.Cycles, err = cyclesOf(report.Experiments); err != nil {
		errs = append(errs, fmt.Errorf("comparing cycles: %w", err))
	}
	return report, errors.Join(errs...)
}
