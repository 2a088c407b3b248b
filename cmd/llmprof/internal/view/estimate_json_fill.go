package view

import (
	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/analytic/sensitivity"
	"llmprof/models"
	"llmprof/roofline"
)

// Document is the estimate for programs.
func (e *Estimate) Document() *EstimateDocument {
	j := e.Figures()
	e.sensitivityOf(j)
	return j
}

// Figures is the document without the sensitivity, which takes several further predictions.
func (e *Estimate) Figures() *EstimateDocument {
	w, s, c := &e.Workload, &e.Scheme, &e.Machine.Cal
	k := &c.Constants
	j := &EstimateDocument{
		Schema: EstimateSchema, Model: modelOf(e.Model),
		GPU: gpuJSON{e.Machine.GPU.Name, e.Machine.GPU.Key, e.GPUName, e.GPUs, e.Machine.GPU.Source},
		Workload: workloadJSON{
			Workload: *w, Chunk: OrNull(w.Chunk), CachedPrefix: w.CachedPrefix,
			AllLogits: w.AllLogits, Weights: s.Weights, Act: s.Act, KV: s.KV, Computes: e.Computes(),
			Scheme: s.Name, SchemeReason: e.SchemeReason,
		},
		Engine: e.Machine.Engine.Profile().Name, EngineWhy: e.EngineReason,
		Calibration: calibrationJSON{
			Name: c.Name, Source: c.Source, PrefillError: c.PrefillError, DecodeError: c.DecodeError,
			ComputeEff: k[roofline.GEMMCompute], SustainedEff: k[roofline.GEMMSustained], WaitingShare: k[roofline.PowerWaiting], MemoryEff: k[roofline.GEMMMemory],
			LinkEff: k[roofline.LinkShare], InterNodeEff: k[roofline.InterNodeShare],
		},
		Memory:   memoryOf(&e.Memory),
		Prefill:  e.phaseOf(&e.Prefill, e.PrefillOps),
		TTFT:     &e.TTFT,
		TTLT:     &e.TTLT,
		Verdict:  e.Verdict(),
		MFU:      e.MFU,
		Count:    e.Count,
		Load:     e.Load.document(),
		Warnings: append([]string{}, e.Warnings...),
	}
	p := &e.Parallel
	j.Parallelism = splitJSON{p.TP, p.PP, p.EP, expertTP(e.Model, e.Parallel), p.DP, p.SP, p.MicroBatches, p.GPUsPerNode}
	e.decodeOf(j)
	if j.Verdict.Possible {
		j.Throughput = &throughputJSON{e.Throughput, e.Throughput / float64(e.GPUs), e.InputRate}
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

// sensitivityOf fills in what each change of one thing would bring.
func (e *Estimate) sensitivityOf(j *EstimateDocument) {
	for _, c := range append(sensitivity.Resources(&e.Case), sensitivity.Choices(&e.Case)...) {
		j.Sensitivity = append(j.Sensitivity, changeJSON{
			c.Name, OrNull(c.Flags), c.TTFT.Expected, c.TPOT.Expected, c.TTLT.Expected, c.PerGPU(),
		})
	}
}

// decodeOf fills in what exists only where more than one token is generated.
func (e *Estimate) decodeOf(j *EstimateDocument) {
	energy := &e.Energy
	j.Energy = energyJSON{PerPrompt: energy.PerPrompt, PerRequest: energy.PerRequest, IdleKnown: energy.IdleKnown}
	j.Power = powerJSON{Prefill: energy.Prefill}
	if e.Tokens == 0 {
		return
	}
	j.Decode = e.phaseOf(&e.Decode, e.DecodeOps)
	j.Decode.Context = &e.Context
	j.TPOT, j.MBU = &e.TPOT, &e.MBU
	j.Energy.PerToken, j.Power.Decode = &energy.PerToken, &energy.Decode
}

func modelOf(m *models.Model) modelJSON {
	return modelJSON{
		Name: m.Name, Source: m.Source, Family: m.Family, ParamsTotal: m.Params(), ParamsActive: m.ActiveParams(),
		Layers: m.NumLayers(), LayerKinds: kinds(m), MaxContext: OrNull(m.MaxContext),
	}
}

func memoryOf(m *analytic.Memory) memoryJSON {
	j := memoryJSON{
		Weights: m.Weights, KV: m.KV, State: m.State, Activations: m.Activations, Reserve: m.Reserve,
		Total: m.Total, Capacity: m.Capacity, Usable: m.Usable, Fits: m.Fits(),
		MaxBatch: m.MaxBatch, MaxPrefillBatch: m.MaxPrefillBatch, MaxDecodeBatch: m.MaxDecodeBatch,
	}
	if !m.Unbounded {
		j.MaxTokens = &m.MaxTokens
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
			Name: l.Name, Layer: l.Layer, Layers: l.Layers, FLOPs: l.FLOPs, Vector: l.Vector,
			Weights: l.Weights, KV: l.KV, State: l.State, Acts: l.Acts, Wire: l.Wire, Intensity: finite(l.Intensity()),
			Bound: l.Bound, Floor: l.Floor, Expected: l.Expected, Share: l.Share, Energy: l.Energy, In: l.In,
		}
	}
	return j
}
