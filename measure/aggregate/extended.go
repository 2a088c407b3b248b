package aggregate

import (
	"cmp"

	"llmprof/measure/result"
)

// Extended are LLM Energy Measure's extended metrics, in its names and units: ms,
// MiB (its "mb") and percent.
type Extended struct {
	TPOTMs               *float64       `json:"tpot_ms" jsonschema:"minimum=0"`
	TokenEfficiencyIndex *float64       `json:"token_efficiency_index" jsonschema:"minimum=0"`
	PrecisionFactor      *float64       `json:"precision_factor" jsonschema:"minimum=0"`
	Memory               Memory         `json:"memory"`
	GPUUtilisation       Utilisation    `json:"gpu_utilisation"`
	RequestLatency       RequestLatency `json:"request_latency"`
	Batch                Batch          `json:"batch"`
	KVCache              KVCache        `json:"kv_cache"`
}

// Memory is of all processes together, in MiB.
type Memory struct {
	TotalVRAM       *float64 `json:"total_vram_mb" jsonschema:"minimum=0"`
	Model           *float64 `json:"model_memory_mb" jsonschema:"minimum=0"`
	Peak            *float64 `json:"peak_memory_mb" jsonschema:"minimum=0"`
	Inference       *float64 `json:"inference_memory_mb" jsonschema:"minimum=0"`
	KVCache         *float64 `json:"kv_cache_mb" jsonschema:"minimum=0"`
	TokensPerGB     *float64 `json:"tokens_per_gb_vram" jsonschema:"minimum=0"`
	Utilisation     *float64 `json:"model_memory_utilisation" jsonschema:"minimum=0"`
	KVCacheToMemory *float64 `json:"kv_cache_memory_ratio" jsonschema:"minimum=0"`
}

// Utilisation is of the GPUs, in percent of the time.
type Utilisation struct {
	SMMean  *float64 `json:"sm_utilisation_mean" jsonschema:"minimum=0"`
	Samples *int     `json:"sm_utilisation_samples"`
	Memory  *float64 `json:"memory_bandwidth_utilisation" jsonschema:"minimum=0"`
}

// RequestLatency is from submission to last token, over all processes.
type RequestLatency struct {
	Mean    *float64 `json:"e2e_latency_mean_ms" jsonschema:"minimum=0"`
	Median  *float64 `json:"e2e_latency_median_ms" jsonschema:"minimum=0"`
	P95     *float64 `json:"e2e_latency_p95_ms" jsonschema:"minimum=0"`
	P99     *float64 `json:"e2e_latency_p99_ms" jsonschema:"minimum=0"`
	Samples *int     `json:"e2e_latency_samples"`
}

// Batch is how full the batches were.
type Batch struct {
	EffectiveSize *float64 `json:"effective_batch_size" jsonschema:"minimum=0"`
	Utilisation   *float64 `json:"batch_utilisation" jsonschema:"minimum=0"`
	Padding       *float64 `json:"padding_overhead" jsonschema:"minimum=0"`
	Batches       *float64 `json:"num_batches" jsonschema:"minimum=0"`
}

// KVCache is what a server says of its cache.
type KVCache struct {
	HitRate     *float64 `json:"kv_cache_hit_rate" jsonschema:"minimum=0"`
	BlocksUsed  *float64 `json:"kv_cache_blocks_used" jsonschema:"minimum=0"`
	BlocksTotal *float64 `json:"kv_cache_blocks_total" jsonschema:"minimum=0"`
}

// precisionFactor is LLM Energy Measure's table, as its code has it; it has
// none for the 4-bit floating formats.
func precisionFactor(weights string) *float64 {
	factor, ok := map[string]float64{
		"fp32": 1, "fp16": 1, "bf16": 1, "tf32": 1, "fp8": 0.5, "int8": 0.5, "int4": 0.25, "mixed": 0.75,
		"w8a16-fp8": 0.5, "w4a16-g128": 0.25, // fp8 and int4 of the native engine
	}[weights]
	if !ok {
		return nil
	}
	return &factor
}

const mibPerGiB = 1024.0

func (b *builder) extend() {
	e, t := &b.out.Extended, &b.out.Totals
	if tpot := b.out.Latency.TPOT; tpot != nil {
		e.TPOTMs = new(1000 * tpot.Mean)
	}
	e.PrecisionFactor = precisionFactor(b.first().Workload.Weights)
	b.why("extended_metrics.precision_factor", e.PrecisionFactor == nil,
		"LLM Energy Measure has no factor for "+b.first().Workload.Weights+" weights")
	e.TokenEfficiencyIndex = times(times(t.TokensPerS, b.out.Efficiency.TokensPerJoule), e.PrecisionFactor)
	b.memory(&e.Memory)
	b.utilisation(&e.GPUUtilisation)
	b.requestLatency(&e.RequestLatency)
	b.batch(&e.Batch)
	b.why("extended_metrics.kv_cache", true, "a server's counters of its cache are not read")
}

func (b *builder) memory(m *Memory) {
	var vram, model, peak, kv []*float64
	for _, r := range b.results {
		for i := range r.Machine.GPUs {
			vram = append(vram, mebibytes(r.Machine.GPUs[i].MemoryBytes))
		}
		s := cmp.Or(r.Sizes, &result.Sizes{})
		model = append(model, add(mebibytes(s.Params), mebibytes(s.Buffers)))
		peak = append(peak, mebibytes(s.Peak))
		kv = append(kv, mebibytes(s.KV))
	}
	m.TotalVRAM, m.Model, m.Peak, m.KVCache = total(vram), total(model), total(peak), total(kv)
	if m.Peak != nil && m.Model != nil {
		m.Inference = new(*m.Peak - *m.Model)
	}
	m.TokensPerGB = over(b.out.Totals.OutputTokens, over(m.Peak, new(mibPerGiB)))
	m.Utilisation = over(m.Model, m.TotalVRAM)
	m.KVCacheToMemory = over(m.KVCache, m.Peak)
	b.why("extended_metrics.memory", m.Peak == nil || m.TotalVRAM == nil || m.Model == nil || m.KVCache == nil || m.TokensPerGB == nil,
		b.reason("sizes_bytes", "the memory of a GPU, or what the model takes of it, was not measured"))
}

// utilisation is the mean over the readings of all GPUs while requests ran.
func (b *builder) utilisation(u *Utilisation) {
	var sm, mem, n, nm float64
	for _, r := range b.results {
		for i := range r.Conditions {
			c := &r.Conditions[i]
			if c.Phase != "request" {
				continue
			}
			if c.Utilization != nil {
				sm += c.Utilization.Mean * float64(c.Utilization.N)
				n += float64(c.Utilization.N)
			}
			if c.MemoryUtil != nil {
				mem += c.MemoryUtil.Mean * float64(c.MemoryUtil.N)
				nm += float64(c.MemoryUtil.N)
			}
		}
	}
	if n > 0 {
		u.SMMean, u.Samples = new(100*sm/n), new(int(n))
	}
	if nm > 0 {
		u.Memory = new(100 * mem / nm)
	}
	b.why("extended_metrics.gpu_utilisation", n == 0 || nm == 0, "no utilization was read while requests ran")
}

func (b *builder) requestLatency(l *RequestLatency) {
	var all []float64
	for i := range b.out.Processes {
		all = append(all, b.out.Processes[i].Inference.latencies...)
	}
	if s := summary(all); s != nil {
		l.Mean, l.Median, l.P95, l.P99, l.Samples = new(1000*s.Mean), new(1000*s.Median), new(1000*s.P95), new(1000*s.P99), &s.N
		return
	}
	b.why("extended_metrics.request_latency", true, b.reason("ttlt_s", "no request was timed to its end"))
}

func (b *builder) batch(out *Batch) {
	var size, full, passes float64
	for i := range b.out.Processes {
		p := &b.out.Processes[i].Inference
		size += p.concurrently
		full += p.batch
		passes += p.passes
	}
	served := b.first().Serving != nil
	if passes == 0 && !served {
		b.why("extended_metrics.batch", true, "no request was run to its end")
		return
	}
	n := float64(len(b.results))
	if size > 0 {
		out.EffectiveSize = new(size / n)
	}
	if served {
		b.why("extended_metrics.batch", true, "a server makes its own batches; effective_batch_size is the requests under way at a time")
		return
	}
	out.Utilisation, out.Batches = new(size/full), new(passes)
	if b.first().Workload.Prompts == "random" {
		out.Padding = new(0.) // prompts of one length
	}
	b.why("extended_metrics.batch.padding_overhead", out.Padding == nil,
		"the lengths of the prompts of "+b.first().Workload.Prompts+" are not recorded")
}
