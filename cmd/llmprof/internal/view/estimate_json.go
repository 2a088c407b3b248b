package view

import (
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
// docs/schema/estimate.v1.json describes.
const EstimateSchema = "llmprof.estimate/v1"

// An EstimateDocument is an estimate for programs: SI numbers, null where there is
// no value.
type EstimateDocument struct {
	Schema      string             `json:"schema"`
	Model       modelJSON          `json:"model"`
	GPU         gpuJSON            `json:"gpu"`
	Parallelism splitJSON          `json:"parallelism"`
	Workload    workloadJSON       `json:"workload"`
	Engine      string             `json:"engine"`
	EngineWhy   string             `json:"engine_reason"`
	Calibration calibrationJSON    `json:"calibration"`
	Verdict     deployment.Verdict `json:"verdict"`
	Memory      memoryJSON         `json:"memory"`
	Prefill     *phaseJSON         `json:"prefill"`
	Decode      *phaseJSON         `json:"decode"`
	TTFT        *analytic.Span     `json:"ttft_s"`
	TPOT        *analytic.Span     `json:"tpot_s"`
	TTLT        *analytic.Span     `json:"ttlt_s"`
	Throughput  *throughputJSON    `json:"throughput_tok_s"` // null: it cannot run
	MFU         float64            `json:"mfu"`
	MBU         *float64           `json:"mbu"`
	Energy      energyJSON         `json:"energy_j"`
	Power       powerJSON          `json:"power_w"`
	Cost        *costJSON          `json:"cost_usd"`
	Sensitivity []changeJSON       `json:"sensitivity"`
	Count       models.FLOPCount   `json:"flops_count"`
	Load        *loadJSON          `json:"load,omitempty"`
	Home        *deployment.Home   `json:"home,omitempty"`
	Metrics     []MetricDocument   `json:"metrics"`
	Warnings    []string           `json:"warnings"`
	Coded       []*WarningDocument `json:"warnings_coded"` // the warnings as data, in the same order
}

// A WarningDocument is a warning as data.
type WarningDocument struct {
	Code      string   `json:"code"`
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
	Key    string   `json:"key"`
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
		list[i] = MetricDocument{m.Key, m.Unit, OrNull(m.Value), OrNull(m.Low), OrNull(m.High), OrNull(m.Floor), OrNull(m.Bound),
			OrNull(m.Reason)}
	}
	return list
}

type modelJSON struct {
	Name         string      `json:"name"`
	Source       string      `json:"source"`
	Family       string      `json:"family"`
	ParamsTotal  int64       `json:"params_total"`
	WithEncoders *int64      `json:"params_with_encoders"`
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
	Name     string     `json:"name"`
	Key      string     `json:"key"`
	AskedFor string     `json:"asked_for"`
	Count    int        `json:"count"`
	Source   string     `json:"source"`
	Limit    unit.Watts `json:"power_limit_w,omitempty"`
	Clock    unit.Hertz `json:"clock_hz,omitempty"`
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
	operator.Workload
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

// A memoryJSON is what the memory of one GPU holds, and how much more fits.
type memoryJSON struct {
	Weights         unit.Bytes `json:"weights_bytes"`
	KV              unit.Bytes `json:"kv_bytes"`
	State           unit.Bytes `json:"state_bytes"`
	Activations     unit.Bytes `json:"activations_bytes"`
	Reserve         unit.Bytes `json:"reserve_bytes"`
	Total           unit.Bytes `json:"total_bytes"`
	Capacity        unit.Bytes `json:"capacity_bytes"`
	Usable          unit.Bytes `json:"usable_bytes"`
	Share           float64    `json:"utilization"`
	Fits            bool       `json:"fits"`
	MaxBatch        int        `json:"max_batch"`
	MaxPrefillBatch int        `json:"max_prefill_batch"`
	MaxDecodeBatch  int        `json:"max_decode_batch"`
	MaxTokens       *int       `json:"max_tokens"` // null: the cache does not grow
	LoggedTokens    *float64   `json:"logged_tokens"`
	LoggedRequests  *float64   `json:"logged_requests"`
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
	Name   string  `json:"name"`
	Layer  string  `json:"layer"`
	Layers float64 `json:"layers"`
	roofline.Work
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
	PerPrompt  unit.Joules   `json:"per_prompt"`
	PerToken   *unit.Joules  `json:"per_token"`
	PerRequest unit.Joules   `json:"per_request"`
	Prompt     intervalJSON  `json:"per_prompt_interval"`
	Token      *intervalJSON `json:"per_token_interval"`
	Request    intervalJSON  `json:"per_request_interval"`
	IdleKnown  bool          `json:"idle_power_known"`
}

// An intervalJSON is an interval of 90 %.
type intervalJSON struct {
	Low  unit.Joules `json:"low"`
	High unit.Joules `json:"high"`
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

// Document is the estimate for programs.
func (e *Estimate) Document() *EstimateDocument {
	j := e.Figures()
	for _, c := range e.Changes() {
		j.Sensitivity = append(j.Sensitivity, changeJSON{
			c.Name, OrNull(c.By.In(settings.Flag)), c.TTFT.Expected, c.TPOT.Expected, c.TTLT.Expected, c.PerGPU(),
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
			Workload: *w, Chunk: OrNull(w.Chunk), CachedPrefix: w.CachedPrefix,
			AllLogits: w.AllLogits, Weights: s.Weights, Act: s.Act, KV: s.KV, Computes: e.Computes(),
			Scheme: s.Name, SchemeReason: e.SchemeReason,
		},
		Engine: e.Machine.Engine.Profile().Name, EngineWhy: e.EngineReason,
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
			j.Cost = &costJSON{PerGPUHour: e.Price, Money: e.Money, PriceSource: e.PriceSource}
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
		Layers: m.NumLayers(), LayerKinds: kinds(m), MaxContext: OrNull(m.MaxContext),
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
