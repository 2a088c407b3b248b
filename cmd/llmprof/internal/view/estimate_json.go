package view

import (
	"llmprof/analytic"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
	"llmprof/workload"
)

// EstimateSchema names the form of an estimate's JSON, which
// schema/estimate.v1.json describes.
const EstimateSchema = "llmprof.estimate/v1"

// An EstimateDocument is an estimate for programs: SI numbers, null where there is
// no value.
type EstimateDocument struct {
	Schema      string           `json:"schema"`
	Model       modelJSON        `json:"model"`
	GPU         gpuJSON          `json:"gpu"`
	Parallelism splitJSON        `json:"parallelism"`
	Workload    workloadJSON     `json:"workload"`
	Engine      string           `json:"engine"`
	EngineWhy   string           `json:"engine_reason"`
	Calibration calibrationJSON  `json:"calibration"`
	Verdict     Verdict          `json:"verdict"`
	Memory      memoryJSON       `json:"memory"`
	Prefill     *phaseJSON       `json:"prefill"`
	Decode      *phaseJSON       `json:"decode"`
	TTFT        *analytic.Span   `json:"ttft_s"`
	TPOT        *analytic.Span   `json:"tpot_s"`
	TTLT        *analytic.Span   `json:"ttlt_s"`
	Throughput  *throughputJSON  `json:"throughput_tok_s"` // null: it cannot run
	MFU         float64          `json:"mfu"`
	MBU         *float64         `json:"mbu"`
	Energy      energyJSON       `json:"energy_j"`
	Power       powerJSON        `json:"power_w"`
	Cost        *costJSON        `json:"cost_usd"`
	Sensitivity []changeJSON     `json:"sensitivity"`
	Count       models.FLOPCount `json:"flops_count"`
	Load        *loadJSON        `json:"load,omitempty"`
	Warnings    []string         `json:"warnings"`
}

type modelJSON struct {
	Name         string      `json:"name"`
	Source       string      `json:"source"`
	Family       string      `json:"family"`
	ParamsTotal  int64       `json:"params_total"`
	ParamsActive int64       `json:"params_active"`
	Layers       int         `json:"layers"`
	LayerKinds   []layerJSON `json:"layer_kinds"`
	MaxContext   *int        `json:"max_context"`
}

type layerJSON struct {
	Name   string `json:"name"`
	Count  int    `json:"count"`
	Params int64  `json:"params_each"`
}

type gpuJSON struct {
	Name     string `json:"name"`
	Key      string `json:"key"`
	AskedFor string `json:"asked_for"`
	Count    int    `json:"count"`
	Source   string `json:"source"`
}

type splitJSON struct {
	TP           int  `json:"tp"`
	PP           int  `json:"pp"`
	EP           int  `json:"ep"`
	MoETP        *int `json:"moe_tp"`
	DP           int  `json:"dp"`
	SP           bool `json:"sp"`
	MicroBatches int  `json:"micro_batches"`
	GPUsPerNode  int  `json:"gpus_per_node"`
}

type workloadJSON struct {
	workload.Workload
	Chunk        *int        `json:"chunk"`
	CachedPrefix int         `json:"cached_prefix"`
	AllLogits    bool        `json:"all_logits"`
	Weights      unit.Format `json:"weights"`
	Act          unit.Format `json:"act"`
	KV           unit.Format `json:"kv"`
	Computes     unit.Format `json:"computes_in"`
	Scheme       string      `json:"scheme"`
	SchemeReason string      `json:"scheme_reason"`
}

type calibrationJSON struct {
	Name         string  `json:"name"`
	Source       string  `json:"source"`
	PrefillError float64 `json:"prefill_error"`
	DecodeError  float64 `json:"decode_error"`
	ComputeEff   float64 `json:"compute_eff"`
	SustainedEff float64 `json:"sustained_eff"`
	MemoryEff    float64 `json:"memory_eff"`
	LinkEff      float64 `json:"link_eff"`
	InterNodeEff float64 `json:"inter_node_eff"`
	WaitingShare float64 `json:"waiting_power"`
}

// A memoryJSON is of one GPU.
type memoryJSON struct {
	Weights         unit.Bytes `json:"weights_bytes"`
	KV              unit.Bytes `json:"kv_bytes"`
	State           unit.Bytes `json:"state_bytes"`
	Activations     unit.Bytes `json:"activations_bytes"`
	Reserve         unit.Bytes `json:"reserve_bytes"`
	Total           unit.Bytes `json:"total_bytes"`
	Capacity        unit.Bytes `json:"capacity_bytes"`
	Usable          unit.Bytes `json:"usable_bytes"`
	Fits            bool       `json:"fits"`
	MaxBatch        int        `json:"max_batch"`
	MaxPrefillBatch int        `json:"max_prefill_batch"`
	MaxDecodeBatch  int        `json:"max_decode_batch"`
	MaxTokens       *int       `json:"max_tokens"` // null: the cache does not grow
}

type phaseJSON struct {
	Context *float64 `json:"context"` // context of the decode step in ops; null in prefill
	analytic.Phase
	Layers []layerSumJSON `json:"layers"`
	Ops    []opJSON       `json:"ops"`
}

// A layerSumJSON is what the operators of one kind of layer add up to, all
// layers of the kind together; its name is empty for what the model has once.
type layerSumJSON struct {
	Name     string       `json:"name"`
	Count    float64      `json:"count"`
	FLOPs    unit.FLOPs   `json:"flops"`
	Weights  unit.Bytes   `json:"weight_bytes"`
	KV       unit.Bytes   `json:"kv_bytes"`
	State    unit.Bytes   `json:"state_bytes"`
	Acts     unit.Bytes   `json:"act_bytes"`
	Wire     unit.Bytes   `json:"wire_bytes"`
	Floor    unit.Seconds `json:"floor_s"`
	Expected unit.Seconds `json:"expected_s"`
	Each     unit.Seconds `json:"expected_each_s"`
	Share    float64      `json:"share"`
}

type opJSON struct {
	Name      string         `json:"name"`
	Layer     string         `json:"layer"`
	Layers    float64        `json:"layers"`
	FLOPs     unit.FLOPs     `json:"flops"`
	Vector    unit.FLOPs     `json:"vector_flops"`
	Weights   unit.Bytes     `json:"weight_bytes"`
	KV        unit.Bytes     `json:"kv_bytes"`
	State     unit.Bytes     `json:"state_bytes"`
	Acts      unit.Bytes     `json:"act_bytes"`
	Wire      unit.Bytes     `json:"wire_bytes"`
	Intensity *float64       `json:"intensity"`
	Bound     roofline.Bound `json:"bound"`
	Floor     unit.Seconds   `json:"floor_s"`
	Expected  unit.Seconds   `json:"expected_s"`
	Share     float64        `json:"share"`
	Energy    unit.Joules    `json:"energy_j"`
	In        string         `json:"in"`
}

type throughputJSON struct {
	Expected float64 `json:"expected"`
	PerGPU   float64 `json:"per_gpu"`
	Prefill  float64 `json:"prefill"`
}

type energyJSON struct {
	PerPrompt  unit.Joules  `json:"per_prompt"`
	PerToken   *unit.Joules `json:"per_token"`
	PerRequest unit.Joules  `json:"per_request"`
	IdleKnown  bool         `json:"idle_power_known"`
}

type powerJSON struct {
	Prefill unit.Watts  `json:"prefill"`
	Decode  *unit.Watts `json:"decode"`
}

type costJSON struct {
	PerGPUHour unit.DollarsPerHour `json:"per_gpu_hour"`
	analytic.Money
	PriceSource string `json:"price_source"`
}

// A changeJSON is the answer where one thing is changed.
type changeJSON struct {
	Name       string       `json:"change"`
	Flags      *string      `json:"flags"` // null for a resource that is made faster by 10 %
	TTFT       unit.Seconds `json:"ttft_s"`
	TPOT       unit.Seconds `json:"tpot_s"`
	TTLT       unit.Seconds `json:"ttlt_s"`
	Throughput float64      `json:"throughput_tok_s_per_gpu"`
}

func kinds(m *models.Model) []layerJSON {
	list := make([]layerJSON, len(m.Layers))
	for i := range m.Layers {
		l := &m.Layers[i]
		list[i] = layerJSON{Name: l.Name, Count: l.Count}
		for _, b := range l.Blocks {
			list[i].Params += b.Params()
		}
	}
	return list
}
