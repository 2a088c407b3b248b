package aggregate

import (
	"slices"
	"time"

	"llmprof/internal/stats"
	"llmprof/measure/result"
)

// A Process is the result of one, in the words of LLM Energy Measure's
// RawProcessResult.
type Process struct {
	Index      int              `json:"process_index"`
	GPUIDs     []string         `json:"gpu_ids"`
	Timestamps Timestamps       `json:"timestamps"`
	Inference  InferenceMetrics `json:"inference_metrics"`
	Energy     EnergyMetrics    `json:"energy_metrics"`
	Compute    ComputeMetrics   `json:"compute_metrics"`
}

// Timestamps are when a process ran.
type Timestamps struct {
	Start    time.Time `json:"start"`
	End      time.Time `json:"end"`
	Duration float64   `json:"duration_sec" jsonschema:"minimum=0"`
}

// InferenceMetrics are what it got done in the passes that were metered.
type InferenceMetrics struct {
	Total        *float64 `json:"total_tokens" jsonschema:"minimum=0"`
	Input        *float64 `json:"input_tokens" jsonschema:"minimum=0"`
	Output       *float64 `json:"output_tokens" jsonschema:"minimum=0"`
	Requests     *float64 `json:"requests" jsonschema:"minimum=0"`
	TimeS        *float64 `json:"inference_time_sec" jsonschema:"minimum=0"`
	TokensPerS   *float64 `json:"tokens_per_second" jsonschema:"minimum=0"` // generated
	PerTokenMs   *float64 `json:"latency_per_token_ms" jsonschema:"minimum=0"`
	Source       string   `json:"source"` // passes that the figures come from
	batch        float64
	passes       float64
	latencies    []float64 // end to end, of each request or pass
	concurrently float64   // requests under way at a time
}

// EnergyMetrics are what it used for them.
type EnergyMetrics struct {
	Total       *float64 `json:"total_energy_j" jsonschema:"minimum=0"`
	GPU         *float64 `json:"gpu_energy_j" jsonschema:"minimum=0"`
	CPU         *float64 `json:"cpu_energy_j" jsonschema:"minimum=0"`
	RAM         *float64 `json:"ram_energy_j" jsonschema:"minimum=0"`
	GPUPower    *float64 `json:"gpu_power_w" jsonschema:"minimum=0"`
	CPUPower    *float64 `json:"cpu_power_w" jsonschema:"minimum=0"`
	RAMPower    *float64 `json:"ram_power_w" jsonschema:"minimum=0"`
	DurationS   *float64 `json:"duration_sec" jsonschema:"minimum=0"`
	EmissionsKg *float64 `json:"emissions_kg_co2" jsonschema:"minimum=0"`
	PerToken    *float64 `json:"energy_per_token_j" jsonschema:"minimum=0"`
	baseline    *float64 // W
	devices     map[string]float64
}

// ComputeMetrics are the work and the memory.
type ComputeMetrics struct {
	FLOPs          *float64 `json:"flops_total" jsonschema:"minimum=0"`
	FLOPsPerToken  *float64 `json:"flops_per_token" jsonschema:"minimum=0"`
	FLOPsPerSecond *float64 `json:"flops_per_second" jsonschema:"minimum=0"`
	PeakMemoryMB   *float64 `json:"peak_memory_mb" jsonschema:"minimum=0"` // MiB, as LLM Energy Measure counts
	ModelMemoryMB  *float64 `json:"model_memory_mb" jsonschema:"minimum=0"`
	Method         *string  `json:"flops_method"`
	Confidence     *string  `json:"flops_confidence"`
	Precision      string   `json:"compute_precision"`
	prefill        *float64 // FLOPs of the prompts
	decode         *float64
	why            string // flops_total is null
}

// inference counts the tokens of a process and the time they took: of a served
// run its requests; else of the window in which energy was metered, and without
// one of the timed passes.
func inference(r *result.Result) InferenceMetrics {
	if r.Serving != nil {
		return served(r)
	}
	m := InferenceMetrics{batch: float64(r.Workload.Batch), concurrently: float64(r.Workload.Batch),
		Source: "nothing was run from submission to last token"}
	if r.TTLT != nil {
		m.latencies = slices.Collect(r.TTLT.Values())
	}
	switch {
	case r.Energy != nil && r.Energy.Request != nil && r.Energy.Request.Passes > 0:
		m.passes, m.TimeS = r.Energy.Request.Passes, &r.Energy.Request.Seconds
		m.Source = "the passes in the window that energy was metered in"
	case r.TTLT != nil:
		m.passes = float64(r.TTLT.N)
		seconds := 0.
		for _, s := range m.latencies {
			seconds += s
		}
		m.TimeS, m.Source = &seconds, "the timed passes"
	default:
		return m
	}
	sequences := m.batch * m.passes
	m.Requests = &sequences
	m.Input, m.Output = new(sequences*float64(r.Workload.PromptLen)), new(sequences*float64(r.Workload.GenLen))
	m.rates(r)
	return m
}

// served counts the requests that were completed. One whose tokens the server
// did not say leaves the sums unknown.
func served(r *result.Result) InferenceMetrics {
	s := r.Serving
	m := InferenceMetrics{Source: "the completed requests", TimeS: &s.Duration, Requests: new(float64(s.Completed))}
	if len(s.Records) == 0 {
		m.summed(r)
		return m
	}
	var input, output []*float64
	busy := 0.
	for i := range s.Records {
		q := &s.Records[i]
		if q.Failure != "" {
			continue
		}
		input, output = append(input, count(q.Prompt)), append(output, count(q.Generated))
		if q.LastTokenS != nil {
			m.latencies = append(m.latencies, *q.LastTokenS)
			busy += *q.LastTokenS
		}
	}
	if s.Duration > 0 {
		m.concurrently = busy / s.Duration // Little's law
	}
	m.Input, m.Output = total(input), total(output)
	m.rates(r)
	return m
}

// summed takes the sums from summaries, of a result that has no records of its requests.
func (m *InferenceMetrics) summed(r *result.Result) {
	s := r.Serving
	all := func(of *stats.Summary) *float64 {
		if of == nil || of.N != s.Completed {
			return nil
		}
		return new(of.Mean * float64(of.N))
	}
	m.Input, m.Output = all(s.PromptTokens), all(s.GeneratedTokens)
	if r.TTLT != nil {
		m.latencies = slices.Collect(r.TTLT.Values())
		if s.Duration > 0 {
			m.concurrently = r.TTLT.Mean * float64(s.Completed) / s.Duration // Little's law
		}
	}
	m.rates(r)
}

func count(n *int) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n))
}

func (m *InferenceMetrics) rates(r *result.Result) {
	m.Total = add(m.Input, m.Output)
	m.TokensPerS = over(m.Output, m.TimeS)
	if r.TPOT != nil {
		m.PerTokenMs = new(1000 * r.TPOT.Mean)
	}
}
