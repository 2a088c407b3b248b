package aggregate

import "llmprof/measure/result"

func (b *builder) column(of func(*Process) *float64) []*float64 {
	list := make([]*float64, len(b.out.Processes))
	for i := range b.out.Processes {
		list[i] = of(&b.out.Processes[i])
	}
	return list
}

// totals sums over the processes.
func (b *builder) totals() {
	t := &b.out.Totals
	t.Tokens = total(b.column(func(p *Process) *float64 { return p.Inference.Total }))
	t.InputTokens = total(b.column(func(p *Process) *float64 { return p.Inference.Input }))
	t.OutputTokens = total(b.column(func(p *Process) *float64 { return p.Inference.Output }))
	t.Requests = total(b.column(func(p *Process) *float64 { return p.Inference.Requests }))
	t.InferenceS = total(b.column(func(p *Process) *float64 { return p.Inference.TimeS }))
	t.FLOPs = total(b.column(func(p *Process) *float64 { return p.Compute.FLOPs }))
	rates := b.column(func(p *Process) *float64 { return p.Inference.TokensPerS })
	t.AvgTokensPerS = mean(rates)
	t.EffectiveRate = times(t.AvgTokensPerS, new(float64(len(rates))))
	if b.attributed() {
		t.EnergyJ = total(b.column(func(p *Process) *float64 { return p.Energy.Total }))
	}
	together := "the processes did not run at the same time: see aggregation.warnings"
	if b.out.Method.Overlap {
		t.TokensPerS = total(rates)
		together = b.reason("ttlt_s", "no tokens were counted")
	}
	t.AvgEnergyToken = over(t.EnergyJ, t.Tokens)
	untimed := b.reason("ttlt_s", "the server did not say the tokens of every request")
	for key, v := range map[string]*float64{
		"total_tokens": t.Tokens, "total_input_tokens": t.InputTokens, "total_output_tokens": t.OutputTokens, "total_requests": t.Requests,
		"total_inference_time_sec": t.InferenceS, "avg_tokens_per_second": t.AvgTokensPerS, "effective_batch_throughput": t.EffectiveRate,
	} {
		b.why("totals."+key, v == nil, untimed)
	}
	b.why("totals.tokens_per_second", t.TokensPerS == nil, together)
	b.why("totals.total_flops", t.FLOPs == nil, b.flopsReason())
	noEnergy := b.energyReason("no energy was metered while requests ran")
	b.why("totals.total_energy_j", t.EnergyJ == nil, noEnergy)
	b.why("totals.avg_energy_per_token_j", t.AvgEnergyToken == nil, noEnergy)
	b.unmeasured(noEnergy)
}

func (b *builder) flopsReason() string {
	for i := range b.out.Processes {
		if why := b.out.Processes[i].Compute.why; why != "" {
			return why
		}
	}
	return b.reason("ttlt_s", "no tokens were counted")
}

// unmeasured says why figures of single processes are missing.
func (b *builder) unmeasured(noEnergy string) {
	for i := range b.out.Processes {
		p := &b.out.Processes[i]
		in, e, c := &p.Inference, &p.Energy, &p.Compute
		b.why("process_results.inference_metrics", in.Total == nil || in.PerTokenMs == nil || in.TokensPerS == nil || in.Requests == nil,
			b.reason("tpot_s", b.reason("ttlt_s", "the server did not say the tokens of every request")))
		b.why("process_results.energy_metrics", e.Total == nil || e.PerToken == nil, noEnergy)
		b.why("process_results.energy_metrics.gpu_energy_j", e.GPU == nil, noEnergy)
		b.why("process_results.energy_metrics.gpu_power_w", e.GPUPower == nil, noEnergy)
		b.why("process_results.energy_metrics.cpu_energy_j", e.CPU == nil, b.reason("energy", "the CPU's energy was not read"))
		b.why("process_results.energy_metrics.cpu_power_w", e.CPUPower == nil, b.reason("energy", "the CPU's energy was not read"))
		b.why("process_results.energy_metrics.ram_energy_j", e.RAM == nil, b.reason("energy", "the memory's energy was not read"))
		b.why("process_results.energy_metrics.ram_power_w", e.RAMPower == nil, b.reason("energy", "the memory's energy was not read"))
		b.why("process_results.energy_metrics.emissions_kg_co2", e.EmissionsKg == nil,
			b.reason("energy", "the grid's carbon intensity was not given"))
		b.why("process_results.compute_metrics", c.FLOPs == nil, b.flopsReason())
		b.why("process_results.compute_metrics.peak_memory_mb", c.PeakMemoryMB == nil, b.reason("sizes_bytes", "the peak was not measured"))
		b.why("process_results.compute_metrics.model_memory_mb", c.ModelMemoryMB == nil, b.reason("sizes_bytes", "the weights were not measured"))
	}
}

// latency summarizes the samples of all processes.
func (b *builder) latency() {
	all := func(key string, of func(*result.Result) *result.Times) []float64 {
		samples := samplesOf(b.results, of)
		b.why("latency."+key, len(samples) == 0, b.reason(key, "not measured"))
		return samples
	}
	l := &b.out.Latency
	l.TTFT = summary(all("ttft_s", func(r *result.Result) *result.Times { return r.TTFT }))
	l.TPOT = summary(all("tpot_s", func(r *result.Result) *result.Times { return r.TPOT }))
	l.TTLT = summary(all("ttlt_s", func(r *result.Result) *result.Times { return r.TTLT }))
	l.Step = summary(all("step_s", func(r *result.Result) *result.Times { return r.StepTime }))
	b.why("extended_metrics.tpot_ms", l.TPOT == nil, b.reason("tpot_s", "not measured"))
}

// efficiency divides the totals. Power is the sum over the processes of the mean
// power in each one's window.
func (b *builder) efficiency() {
	e, t := &b.out.Efficiency, &b.out.Totals
	e.TokensPerJoule, e.JoulesPerToken = over(t.Tokens, t.EnergyJ), over(t.EnergyJ, t.Tokens)
	e.FLOPsPerJoule, e.FLOPsPerToken = over(t.FLOPs, t.EnergyJ), over(t.FLOPs, t.Tokens)
	e.FLOPsPerInput = over(total(b.column(func(p *Process) *float64 { return p.Compute.prefill })), t.InputTokens)
	e.FLOPsPerOutput = over(total(b.column(func(p *Process) *float64 { return p.Compute.decode })), t.OutputTokens)
	e.MJPerTokTotal = times(over(t.EnergyJ, t.OutputTokens), new(1000.))
	e.MJPerTokAdj = times(over(b.out.Breakdown.AdjustedJ, t.OutputTokens), new(1000.))
	if b.out.Method.Overlap {
		e.FLOPsPerSecond = total(b.column(func(p *Process) *float64 { return p.Compute.FLOPsPerSecond }))
		if b.attributed() {
			watts := total(b.column(func(p *Process) *float64 { return over(p.Energy.Total, p.Energy.DurationS) }))
			e.WattsPerTokRate = over(watts, t.TokensPerS)
		}
	}
	for key, v := range map[string]*float64{
		"tokens_per_joule": e.TokensPerJoule, "joules_per_token": e.JoulesPerToken, "watts_per_token_per_second": e.WattsPerTokRate,
		"mj_per_tok_total": e.MJPerTokTotal, "mj_per_tok_adjusted": e.MJPerTokAdj,
	} {
		b.why("efficiency."+key, v == nil, b.energyReason("the energy, the tokens or the power of idling were not measured"))
	}
	workless := "the energy or the time of the processes together is not known"
	if t.FLOPs == nil {
		workless = b.flopsReason()
	}
	for key, v := range map[string]*float64{
		"flops_per_joule": e.FLOPsPerJoule, "flops_per_token": e.FLOPsPerToken, "flops_per_second": e.FLOPsPerSecond,
		"flops_per_input_token": e.FLOPsPerInput, "flops_per_output_token": e.FLOPsPerOutput,
	} {
		b.why("efficiency."+key, v == nil, workless)
	}
	b.why("extended_metrics.token_efficiency_index", e.TokensPerJoule == nil || t.TokensPerS == nil ||
		precisionFactor(b.first().Workload.Weights) == nil,
		b.energyReason("the rate, the energy or the precision factor is missing"))
}

// aiperf computes AIPerf's energy metrics.
func (b *builder) aiperf() {
	a, t := &b.out.AIPerf, &b.out.Totals
	var requests []float64
	users := 0.
	for i := range b.out.Processes {
		in := &b.out.Processes[i].Inference
		requests = append(requests, in.latencies...)
		users += in.concurrently
		if s := b.results[i].Serving; s != nil && s.Concurrency > 0 {
			users += float64(s.Concurrency) - in.concurrently
		}
	}
	if b.attributed() {
		a.TotalGPUEnergy = total(b.column(func(p *Process) *float64 { return p.Energy.GPU }))
		if b.out.Method.Overlap {
			a.AverageGPUPower = total(b.column(func(p *Process) *float64 { return p.Energy.GPUPower }))
		}
	}
	a.TokensPerJoule, a.PerOutputToken = over(t.OutputTokens, a.TotalGPUEnergy), over(a.TotalGPUEnergy, t.OutputTokens)
	a.PerUser = over(a.TotalGPUEnergy, new(users))
	a.PerTotalToken, a.PerRequest = over(a.TotalGPUEnergy, t.Tokens), over(a.TotalGPUEnergy, t.Requests)
	if b.out.Method.Overlap {
		rate := total(b.column(func(p *Process) *float64 { return over(p.Inference.Requests, p.Inference.TimeS) }))
		a.PerformancePerWatt = over(rate, a.AverageGPUPower)
		a.OutputTPSPerWatt = over(t.TokensPerS, a.AverageGPUPower)
	}
	if s := summary(requests); s != nil {
		a.EnergyDelayProduct = times(a.PerRequest, &s.Mean)
	}
	b.why("aiperf", a.TotalGPUEnergy == nil || a.AverageGPUPower == nil || a.PerTotalToken == nil || a.EnergyDelayProduct == nil ||
		a.OutputTPSPerWatt == nil,
		b.energyReason("the GPUs' energy, the tokens or the times of requests were not measured, or the processes did not run together"))
	b.why("aiperf.goodput_per_watt", true, "no objective for latency was given that good requests would meet")
}
