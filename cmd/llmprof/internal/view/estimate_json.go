package view

import (
	"cmp"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/operator"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/deployment"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// EstimateSchema names the form of an estimate's JSON, which
// "llmprof schema estimate" shows.
const EstimateSchema = "llmprof.estimate/v1"

// An EstimateDocument is an estimate for programs: SI numbers, null where there is
// no value.
type EstimateDocument struct {
	Schema      string       `json:"schema"`
	Model       modelJSON    `json:"model"`         // the model
	GPU         gpuJSON      `json:"gpu"`           // the GPUs
	Parallelism splitJSON    `json:"parallelism"`   // how the model is split
	Workload    workloadJSON `json:"workload"`      // what is asked
	Engine      string       `json:"engine"`        // the engine that was predicted
	EngineWhy   string       `json:"engine_reason"` // why it was taken by default; empty where it was asked for
	Eager       bool         `json:"enforce_eager"` // no CUDA graphs are captured
	// most tokens of a step in a CUDA graph; null for the engine's own
	Captures    *int               `json:"max_cudagraph_capture_size" jsonschema:"minimum=1"`
	Calibration calibrationJSON    `json:"calibration"` // what the GPU reaches in practice
	Verdict     deployment.Verdict `json:"verdict"`     // whether the workload can run at all; where it cannot, throughput and cost are null
	Memory      memoryJSON         `json:"memory"`      // of one GPU, the fullest
	Prefill     *phaseJSON         `json:"prefill" jsonschema:"required"`
	Decode      *phaseJSON         `json:"decode"`
	TTFT        *analytic.Span     `json:"ttft_s" jsonschema:"required"`
	TPOT        *analytic.Span     `json:"tpot_s"`
	TTLT        *analytic.Span     `json:"ttlt_s" jsonschema:"required"`
	Throughput  *throughputJSON    `json:"throughput_tok_s"` // null: it cannot run
	// FLOPs of the model over the peak of the format that each product runs in, in prefill
	MFU float64 `json:"mfu" jsonschema:"minimum=0,maximum=1"`
	// bytes that must move over the bandwidth, in decode; null if one token is generated
	MBU    *float64   `json:"mbu" jsonschema:"minimum=0,maximum=1"`
	Energy energyJSON `json:"energy_j"` // of all GPUs, for one sequence
	Power  powerJSON  `json:"power_w"`  // mean of one GPU
	Cost   *costJSON  `json:"cost_usd"`
	// the answer where one thing is changed: each resource made faster by 10 %, then each choice of flags that fits
	Sensitivity []changeJSON     `json:"sensitivity"`
	Count       models.FLOPCount `json:"flops_count"`    // how FLOPs were counted
	Load        *loadJSON        `json:"load,omitempty"` // steady state under the load of --rate or --concurrency; means
	// what of the model lies in the memory of the host, where flags ask for it or the GPU has no room
	Home *deployment.Home `json:"home,omitempty"`
	// the figures as a list: with their unit, 90 % interval, floor and bound; a value is null for a reason
	Metrics  []MetricDocument   `json:"metrics"`
	Warnings []string           `json:"warnings"`       // what a reader has to know
	Coded    []*WarningDocument `json:"warnings_coded"` // the warnings as data, in the same order
}

// A WarningDocument is a warning as data.
type WarningDocument struct {
	Code      string   `json:"code" jsonschema:"pattern=^[a-z_]+$"`
	Arguments []string `json:"arguments"`
}

// Coded is a warning as data; nil for none.
func Coded(w *unit.Warning) *WarningDocument {
	if w == nil {
		return nil
	}
	j := &WarningDocument{w.Code, []string{}}
	for _, a := range w.Arguments() {
		j.Arguments = append(j.Arguments, unit.Say("%v", a).In(settings.Flag))
	}
	return j
}

func coded(all []unit.Warning) []*WarningDocument {
	list := make([]*WarningDocument, len(all))
	for i := range all {
		list[i] = Coded(&all[i])
	}
	return list
}

// A MetricDocument is a figure of an answer; its value is null for a reason.
type MetricDocument struct {
	Key    string   `json:"key" jsonschema:"pattern=^[a-z0-9_]+$"`
	Unit   string   `json:"unit"`
	Value  *float64 `json:"value"`
	Low    *float64 `json:"low"`
	High   *float64 `json:"high"`
	Floor  *float64 `json:"floor"`
	Bound  *string  `json:"bound"`
	Reason *string  `json:"reason"`
}

func metricDocuments(all []unit.Metric) []MetricDocument {
	list := make([]MetricDocument, len(all))
	for i := range all {
		m := &all[i]
		list[i] = MetricDocument{m.Key, m.Unit, unit.OrNull(m.Value), unit.OrNull(m.Low), unit.OrNull(m.High), unit.OrNull(m.Floor),
			unit.OrNull(m.Bound),
			unit.OrNull(m.Reason)}
	}
	return list
}

// A modelJSON is the shape of a model, and where it was read.
type modelJSON struct {
	Name        string `json:"name"`
	Source      string `json:"source"` // where its shape was read
	Family      string `json:"family"` // model_type of Hugging Face
	ParamsTotal int64  `json:"params_total" jsonschema:"minimum=1"`
	// parameters with those of towers of vision and audio and of their projectors; null where these are not known
	WithEncoders *int64      `json:"params_with_encoders" jsonschema:"minimum=1"`
	ParamsActive int64       `json:"params_active" jsonschema:"minimum=1"` // parameters that one token takes part in
	Layers       int         `json:"layers" jsonschema:"minimum=1"`
	LayerKinds   []layerJSON `json:"layer_kinds"`
	MaxContext   *int        `json:"max_context" jsonschema:"minimum=1"` // tokens the model was made for; null if its positions set no limit
}

// A layerJSON is a kind of layer of a model.
type layerJSON struct {
	Name   string `json:"name"`
	Count  int    `json:"count" jsonschema:"minimum=1"` // of such layers
	Params int64  `json:"params_each"`                  // parameters of one layer
}

// A gpuJSON is a kind of GPU and how many of it there are.
type gpuJSON struct {
	Name     string `json:"name"`
	Key      string `json:"key"`       // in the table
	AskedFor string `json:"asked_for"` // the name on the command line
	Count    int    `json:"count" jsonschema:"minimum=1"`
	Source   string `json:"source"` // of its figures
	// of each, where one is set (--power-limit, or tdp in a hardware file)
	Limit unit.Watts `json:"power_limit_w,omitempty" jsonschema:"exclusiveMinimum=0"`
	// highest of the multiprocessors, where one is set (--clock, or clock in a hardware file)
	Clock unit.Hertz `json:"clock_hz,omitempty" jsonschema:"exclusiveMinimum=0"`
}

// A splitJSON is how a model is split over GPUs.
type splitJSON struct {
	TP           int  `json:"tp" jsonschema:"minimum=1"`     // tensor parallelism
	PP           int  `json:"pp" jsonschema:"minimum=1"`     // pipeline stages
	EP           int  `json:"ep" jsonschema:"minimum=1"`     // expert parallelism
	MoETP        *int `json:"moe_tp" jsonschema:"minimum=1"` // tensor parallelism within one expert; null where the model has no experts
	DP           int  `json:"dp" jsonschema:"minimum=1"`
	SP           bool `json:"sp"` // sequence parallelism
	MicroBatches int  `json:"micro_batches" jsonschema:"minimum=1"`
	GPUsPerNode  int  `json:"gpus_per_node" jsonschema:"minimum=1"` // GPUs of a node
}

// A workloadJSON is what is asked of a deployment.
type workloadJSON struct {
	operator.Workload
	MediaTokens  int         `json:"media_tokens"`                 // those of prompt_len that are of images and audio
	Chunk        *int        `json:"chunk" jsonschema:"minimum=1"` // most tokens of a prefill step; null for one step
	CachedPrefix int         `json:"cached_prefix"`                // tokens of the prompt in the cache already
	AllLogits    bool        `json:"all_logits"`                   // the LM head runs on all positions of the prompt
	Weights      unit.Format `json:"weights"`
	Act          unit.Format `json:"act"`
	KV           unit.Format `json:"kv"`            // of the KV cache
	Computes     unit.Format `json:"computes_in"`   // that products run in on this GPU
	Scheme       string      `json:"scheme"`        // name of the quantization
	SchemeReason string      `json:"scheme_reason"` // why it was chosen
}

// A calibrationJSON is what the GPU reaches in practice.
type calibrationJSON struct {
	Name   string `json:"name"`
	Source string `json:"source"` // where and when it was measured
	// upper half of the 90 % interval of the kernels' time, as a share
	PrefillError float64 `json:"prefill_error" jsonschema:"exclusiveMinimum=0"`
	// upper half of the 90 % interval of the kernels' time, as a share
	DecodeError float64 `json:"decode_error" jsonschema:"exclusiveMinimum=0"`
	// of the peak, in matrix products, in bursts at full clocks
	ComputeEff float64 `json:"compute_eff" jsonschema:"minimum=0,maximum=1"`
	// of the peak, in a large matrix product held at the power limit; compute_eff where the limit does not hold it back or that is not known
	SustainedEff float64 `json:"sustained_eff" jsonschema:"exclusiveMinimum=0,maximum=1"`
	MemoryEff    float64 `json:"memory_eff" jsonschema:"minimum=0,maximum=1"` // of the bandwidth, in matrix products
	LinkEff      float64 `json:"link_eff" jsonschema:"minimum=0,maximum=1"`
	InterNodeEff float64 `json:"inter_node_eff" jsonschema:"minimum=0,maximum=1"`
	// of what lies between idle power and power limit, drawn at full clocks while the GPU waits for its host
	WaitingShare float64 `json:"waiting_power" jsonschema:"minimum=0,maximum=1"`
}

// A memoryJSON is what the memory of one GPU holds, and how much more fits.
type memoryJSON struct {
	Weights     unit.Bytes `json:"weights_bytes" jsonschema:"exclusiveMinimum=0"`
	KV          unit.Bytes `json:"kv_bytes"`          // KV cache of the batch at its longest
	State       unit.Bytes `json:"state_bytes"`       // state of scans and convolutions
	Activations unit.Bytes `json:"activations_bytes"` // peak of the prefill
	Reserve     unit.Bytes `json:"reserve_bytes"`     // CUDA context, communication buffers, the engine's own
	Total       unit.Bytes `json:"total_bytes" jsonschema:"exclusiveMinimum=0"`
	Capacity    unit.Bytes `json:"capacity_bytes" jsonschema:"exclusiveMinimum=0"` // there is
	// part of the capacity that the engine takes, with activations that lie beside it (SGLang)
	Usable unit.Bytes `json:"usable_bytes"`
	// share of the capacity that the engine takes (--memory-utilization); SGLang's is of weights and caches alone
	Share           float64 `json:"utilization" jsonschema:"exclusiveMinimum=0,maximum=1"`
	Fits            bool    `json:"fits"`
	MaxBatch        int     `json:"max_batch"`         // sequences of one replica that fit
	MaxPrefillBatch int     `json:"max_prefill_batch"` // that fit while the prompt runs
	MaxDecodeBatch  int     `json:"max_decode_batch"`  // that fit while they decode
	MaxTokens       *int    `json:"max_tokens"`        // null: the cache does not grow
	// tokens of KV cache as the engine's log states them at start-up; null where that is not known
	LoggedTokens *float64 `json:"logged_tokens" jsonschema:"minimum=0"`
	// requests of the longest length at once as the log of vLLM states them, the most running requests as that of SGLang does; null where
	// that is not known
	LoggedRequests *float64 `json:"logged_requests" jsonschema:"minimum=0"`
}

// A phaseJSON is a phase: the whole prefill, or the mean step of decode.
type phaseJSON struct {
	Context *float64 `json:"context" jsonschema:"exclusiveMinimum=0"` // context of the decode step in ops; null in prefill
	analytic.Phase
	Layers []layerSumJSON `json:"layers"` // operators summed by the kind of layer they belong to
	Ops    []opJSON       `json:"ops"`    // in the order they run
}

// A layerSumJSON is what the operators of one kind of layer add up to, all
// layers of the kind together; its name is empty for what the model has once.
type layerSumJSON struct {
	Name     string       `json:"name"`                                            // the kind of layer; empty for what the model has once
	Count    float64      `json:"count" jsonschema:"exclusiveMinimum=0"`           // layers of the kind
	FLOPs    unit.FLOPs   `json:"flops"`                                           // matrix products
	Weights  unit.Bytes   `json:"weight_bytes"`                                    // weights read
	KV       unit.Bytes   `json:"kv_bytes"`                                        // cache read and written
	State    unit.Bytes   `json:"state_bytes"`                                     // recurrent state read and written
	Acts     unit.Bytes   `json:"act_bytes"`                                       // activations read and written
	Wire     unit.Bytes   `json:"wire_bytes"`                                      // sent to other GPUs
	Floor    unit.Seconds `json:"floor_s"`                                         // sum of the operators' floors
	Expected unit.Seconds `json:"expected_s" jsonschema:"exclusiveMinimum=0"`      // sum of the operators' expected times
	Each     unit.Seconds `json:"expected_each_s" jsonschema:"exclusiveMinimum=0"` // expected time of one layer
	Share    float64      `json:"share" jsonschema:"minimum=0"`                    // of the phase's expected time
}

// An opJSON is what an operator costs in a phase.
type opJSON struct {
	Name   string  `json:"name"`                                   // as engines call it
	Layer  string  `json:"layer"`                                  // kind of layer; empty for what the model has once
	Layers float64 `json:"layers" jsonschema:"exclusiveMinimum=0"` // occurrences of the layer
	roofline.Work
	Intensity *float64       `json:"intensity" jsonschema:"minimum=0"` // FLOP per byte of memory traffic; null where nothing is moved
	Bound     roofline.Bound `json:"bound"`                            // what takes most of the time
	Floor     unit.Seconds   `json:"floor_s"`                          // at the peaks of the data sheet
	Expected  unit.Seconds   `json:"expected_s"`
	Share     float64        `json:"share" jsonschema:"minimum=0,maximum=1"` // of the expected time of the phase
	// of all ranks of the replica, what they draw while they wait left out
	Energy unit.Joules `json:"energy_j"`
	// the operator within whose kernel the engine does it, without a launch or memory traffic of its own; empty for a kernel of its own
	In string `json:"in"`
}

// A throughputJSON is rates in tokens a second.
type throughputJSON struct {
	Expected float64 `json:"expected" jsonschema:"exclusiveMinimum=0"` // generated, all replicas
	PerGPU   float64 `json:"per_gpu" jsonschema:"exclusiveMinimum=0"`  // generated, each GPU
	Prefill  float64 `json:"prefill" jsonschema:"exclusiveMinimum=0"`  // of prompts, while prefilling, all replicas
}

// An energyJSON is the energy of all GPUs, for one sequence.
type energyJSON struct {
	PerPrompt  unit.Joules   `json:"per_prompt" jsonschema:"exclusiveMinimum=0"`
	PerToken   *unit.Joules  `json:"per_token" jsonschema:"exclusiveMinimum=0"`   // each token after the first; null if there is none
	PerRequest unit.Joules   `json:"per_request" jsonschema:"exclusiveMinimum=0"` // prompt and all tokens
	Prompt     intervalJSON  `json:"per_prompt_interval"`                         // 90 % interval of per_prompt, of time and power
	Token      *intervalJSON `json:"per_token_interval"`                          // 90 % interval of per_token; null if there is none
	Request    intervalJSON  `json:"per_request_interval"`                        // 90 % interval of per_request
	IdleKnown  bool          `json:"idle_power_known"`                            // a source gives the idle power
}

// An intervalJSON is an interval of 90 %.
type intervalJSON struct {
	Low  unit.Joules `json:"low"`  // lower end
	High unit.Joules `json:"high"` // upper end
}

// A powerJSON is the mean power of one GPU.
type powerJSON struct {
	Prefill unit.Watts  `json:"prefill" jsonschema:"exclusiveMinimum=0"` // in prefill
	Decode  *unit.Watts `json:"decode" jsonschema:"exclusiveMinimum=0"`  // in decode; null if one token is generated
}

// A costJSON is what a deployment costs.
type costJSON struct {
	PerGPUHour unit.DollarsPerHour `json:"per_gpu_hour" jsonschema:"exclusiveMinimum=0"`
	analytic.Money
	PriceSource string `json:"price_source"` // who asks it, and when
}

// A changeJSON is the answer where one thing is changed.
type changeJSON struct {
	Name       string       `json:"change"`
	Flags      *string      `json:"flags"` // null for a resource that is made faster by 10 %
	TTFT       unit.Seconds `json:"ttft_s" jsonschema:"exclusiveMinimum=0"`
	TPOT       unit.Seconds `json:"tpot_s"` // 0 where one token is generated
	TTLT       unit.Seconds `json:"ttlt_s" jsonschema:"exclusiveMinimum=0"`
	Throughput float64      `json:"throughput_tok_s_per_gpu" jsonschema:"exclusiveMinimum=0"`
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

// Document is the estimate for programs.
func (e *Estimate) Document() *EstimateDocument {
	j := e.Figures()
	for _, c := range e.Changes() {
		j.Sensitivity = append(j.Sensitivity, changeJSON{
			c.Name, unit.OrNull(c.By.In(settings.Flag)), c.TTFT.Expected, c.TPOT.Expected, c.TTLT.Expected, c.PerGPU(),
		})
	}
	return j
}

// Figures is the document without the sensitivity, which takes several further predictions.
func (e *Estimate) Figures() *EstimateDocument {
	w, s, c := &e.Workload, &e.Scheme, &e.Machine.Cal
	k := &c.Constants
	j := &EstimateDocument{
		Schema: EstimateSchema, Model: modelOf(e.Model),
		GPU: gpuJSON{
			e.Machine.GPU.Name, e.Machine.GPU.Key, e.Request.GPU, e.GPUs, e.Machine.GPU.Source, e.Machine.Cap().Limit, e.Machine.Cap().Clock,
		},
		Workload: workloadJSON{
			Workload: *w, MediaTokens: e.MediaTokens, Chunk: unit.OrNull(w.Chunk), CachedPrefix: w.CachedPrefix,
			AllLogits: w.AllLogits, Weights: s.Weights, Act: s.Act, KV: s.KV, Computes: e.Computes(),
			Scheme: s.Name, SchemeReason: e.SchemeReason,
		},
		Engine: e.Machine.Engine.Profile().Name, EngineWhy: e.EngineReason,
		Eager: e.Request.Eager, Captures: e.Request.Captures,
		Calibration: calibrationJSON{
			Name: c.Name, Source: c.Source, PrefillError: e.Prefill.KernelHigh, DecodeError: e.decodeOrPrefill().KernelHigh,
			ComputeEff: k[roofline.GEMMCompute], SustainedEff: k[roofline.GEMMSustained], WaitingShare: k[roofline.PowerWaiting],
			MemoryEff: k[roofline.GEMMMemory],
			LinkEff:   k[roofline.LinkShare], InterNodeEff: k[roofline.InterNodeShare],
		},
		Memory:  memoryOf(&e.Memory),
		Prefill: e.phaseOf(&e.Prefill, e.PrefillOps),
		TTFT:    &e.TTFT,
		TTLT:    &e.TTLT,
		Verdict: e.Verdict(),
		MFU:     e.MFU,
		Count:   e.Count,
		Load:    (&Load{e.Load}).document(),
		Home:    e.Home,
		Metrics: metricDocuments(e.Metrics()), Warnings: Texts(e.Warnings), Coded: coded(e.Warnings),
	}
	p := &e.Parallel
	j.Parallelism = splitJSON{p.TP, p.PP, p.EP, expertTP(e.Model, e.Parallel), p.DP, p.SP, p.MicroBatches, p.GPUsPerNode}
	e.decodeOf(j)
	if j.Verdict.Possible {
		j.Throughput = &throughputJSON{e.Throughput, e.Metric("tok_s_gpu").Value, e.InputRate}
		if e.Price > 0 {
			j.Cost = &costJSON{PerGPUHour: e.Price, Money: e.Money, PriceSource: e.priceSource()}
		}
	}
	return j
}

// expertTP is the tensor parallelism within one expert; nil where the model has none.
func expertTP(m *models.Model, p analytic.Parallelism) *int {
	if !m.HasExperts() {
		return nil
	}
	return new(p.ExpertTP())
}

// decodeOf fills in what exists only where more than one token is generated.
func (e *Estimate) decodeOf(j *EstimateDocument) {
	energy := &e.Energy
	j.Energy = energyJSON{
		PerPrompt: energy.PerPrompt, PerRequest: energy.PerRequest, IdleKnown: energy.IdleKnown, Prompt: intervalJSON(energy.Prompt),
		Request: intervalJSON(energy.Request),
	}
	j.Power = powerJSON{Prefill: energy.Prefill}
	if e.Tokens == 0 {
		return
	}
	j.Decode = e.phaseOf(&e.Decode, e.DecodeOps)
	j.Decode.Context = &e.Context
	j.TPOT, j.MBU = &e.TPOT, &e.MBU
	token := intervalJSON(energy.Token)
	j.Energy.PerToken, j.Energy.Token, j.Power.Decode = &energy.PerToken, &token, &energy.Decode
}

func modelOf(m *models.Model) modelJSON {
	return modelJSON{
		Name: m.Name, Source: m.Source, Family: m.Family, ParamsTotal: m.Params(), WithEncoders: withEncoders(m), ParamsActive: m.ActiveParams(),
		Layers: m.NumLayers(), LayerKinds: kinds(m), MaxContext: unit.OrNull(m.MaxContext),
	}
}

func memoryOf(m *analytic.Memory) memoryJSON {
	j := memoryJSON{
		Weights: m.Weights, KV: m.KV, State: m.State, Activations: m.Activations, Reserve: m.Reserve,
		Total: m.Total, Capacity: m.Capacity, Usable: m.Usable, Share: m.Share, Fits: m.Fits(),
		MaxBatch: m.MaxBatch, MaxPrefillBatch: m.MaxPrefillBatch, MaxDecodeBatch: m.MaxDecodeBatch,
	}
	if !m.Unbounded {
		j.MaxTokens = &m.MaxTokens
	}
	if m.Logged.Tokens > 0 {
		j.LoggedTokens, j.LoggedRequests = &m.Logged.Tokens, &m.Logged.Requests
	}
	return j
}

func (e *Estimate) phaseOf(p *analytic.Phase, lines []breakdown.Operator) *phaseJSON {
	shown, _ := top(lines, e.Top)
	j := &phaseJSON{Phase: *p, Ops: make([]opJSON, len(shown))}
	for _, l := range breakdown.Layers(lines) {
		j.Layers = append(j.Layers, layerSumJSON{
			Name: l.Name, Count: l.Count, FLOPs: l.FLOPs, Weights: l.Weights, KV: l.KV, State: l.State, Acts: l.Acts, Wire: l.Wire,
			Floor: l.Floor, Expected: l.Expected, Each: l.Expected.Times(1 / l.Count), Share: l.Share,
		})
	}
	for i := range shown {
		l := &shown[i]
		j.Ops[i] = opJSON{
			Name: l.Name, Layer: l.Layer, Layers: l.Layers, Work: l.Work, Intensity: finite(l.Intensity()), Bound: l.Bound, Floor: l.Floor,
			Expected: l.Expected, Share: l.Share, Energy: l.Energy, In: l.In,
		}
	}
	return j
}

// priceSource is who asks the price, or the flag that gave it.
func (e *Estimate) priceSource() string { return cmp.Or(e.PriceSource, settings.Flag("price")) }
