package main

import (
	"llmprof/analytic"
	"llmprof/models"
	"llmprof/roofline"
)

// json is the estimate for programs.
func (ans *answer) json() any {
	w, s, c := &ans.Workload, &ans.Scheme, &ans.Machine.Cal
	k := &c.Constants
	runs, _ := ans.Machine.Runs(s.Act)
	j := &estimateJSON{
		Schema: estimateSchema, Model: modelOf(ans.Model),
		GPU: gpuJSON{ans.gpu.Name, ans.gpu.Key, ans.q.gpu, ans.GPUs, ans.gpu.Source},
		Workload: workloadJSON{
			Batch: w.Batch, PromptLen: w.Prompt, GenLen: w.Gen, Chunk: orNull(w.Chunk), CachedPrefix: w.CachedPrefix,
			AllLogits: w.AllLogits, Weights: s.Weights, Act: s.Act, KV: s.KV, Computes: runs,
			Scheme: s.Name, SchemeReason: ans.schemeWhy,
		},
		Engine: ans.Machine.Engine.Profile().Name,
		Calibration: calibrationJSON{
			Name: c.Name, Source: c.Source, PrefillError: c.PrefillError, DecodeError: c.DecodeError,
			ComputeEff: k[roofline.GEMMCompute], SustainedEff: k[roofline.GEMMSustained], WaitingShare: k[roofline.PowerWaiting], MemoryEff: k[roofline.GEMMMemory],
			LinkEff: k[roofline.LinkShare], InterNodeEff: k[roofline.InterNodeShare],
		},
		Memory:     memoryOf(&ans.Memory),
		Prefill:    ans.phaseOf(&ans.Prefill, ans.PrefillOps),
		TTFT:       spanOf(ans.TTFT),
		TTLT:       spanOf(ans.TTLT),
		Throughput: throughputJSON{ans.Throughput, ans.Throughput / float64(ans.GPUs), ans.InputRate},
		MFU:        ans.MFU,
		Count:      countJSON{ans.Count.Method, ans.Count.Confidence, ans.Count.Reason},
		Warnings:   append([]string{}, ans.Warnings...),
	}
	p := &ans.Parallel
	j.Parallelism = splitJSON{p.TP, p.PP, p.EP, p.DP, p.SP, p.MicroBatches, p.GPUsPerNode}
	ans.decodeOf(j)
	ans.costOf(j)
	return j
}

// decodeOf fills in what exists only where more than one token is generated.
func (ans *answer) decodeOf(j *estimateJSON) {
	e := &ans.Energy
	j.Energy = energyJSON{PerPrompt: e.PerPrompt, PerRequest: e.PerRequest, IdleKnown: e.IdleKnown}
	j.Power = powerJSON{Prefill: e.Prefill}
	if ans.Tokens == 0 {
		return
	}
	j.Decode = ans.phaseOf(&ans.Decode, ans.DecodeOps)
	j.Decode.Context = &ans.Context
	j.TPOT, j.MBU = spanOf(ans.TPOT), &ans.MBU
	j.Energy.PerToken, j.Power.Decode = &e.PerToken, &e.Decode
}

func (ans *answer) costOf(j *estimateJSON) {
	if ans.Price <= 0 {
		return
	}
	d := &ans.Money
	j.Cost = &costJSON{
		PerGPUHour: ans.Price, PerHour: d.PerHour, PerRequest: d.PerRequest,
		PerMillionGenerated: d.PerMillionGenerated, PerMillionTokens: d.PerMillionTokens, PriceSource: ans.priceWhy,
	}
}

func modelOf(m *models.Model) modelJSON {
	return modelJSON{
		Name: m.Name, Source: m.Source, Family: m.Family, ParamsTotal: m.Params(), ParamsActive: m.ActiveParams(),
		Layers: m.NumLayers(), LayerKinds: kinds(m), MaxContext: orNull(m.MaxContext),
	}
}

func memoryOf(m *analytic.Memory) memoryJSON {
	j := memoryJSON{
		Weights: m.Weights, KV: m.KV, State: m.State, Activations: m.Activations, Reserve: m.Reserve,
		Total: m.Total, Capacity: m.Capacity, Fits: m.Fits(),
		MaxBatch: m.MaxBatch, MaxPrefillBatch: m.MaxPrefillBatch, MaxDecodeBatch: m.MaxDecodeBatch,
	}
	if !m.Unbounded {
		j.MaxTokens = &m.MaxTokens
	}
	return j
}

func (ans *answer) phaseOf(p *analytic.Phase, lines []analytic.Line) *phaseJSON {
	shown, _ := top(lines, ans.q.top)
	j := &phaseJSON{
		FLOPs: p.FLOPs, Executed: p.Executed, Vector: p.Vector, Floor: p.Floor, Expected: p.Expected, Held: p.Throttled, Slowed: p.Clock,
		Bound: p.Bound, Traffic: p.Traffic, Wire: p.Wire, Ops: make([]opJSON, len(shown)),
	}
	for _, l := range analytic.Layers(lines) {
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

func spanOf(s analytic.Span) *spanJSON { return &spanJSON{s.Floor, s.Expected, s.Low, s.High} }
