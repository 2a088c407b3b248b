package analytic

import (
	"fmt"

	"llmprof/analytic/energy"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Case is what is estimated: what a workload costs with a model, split over GPUs in some way,
// on a machine.
type Case struct {
	Model    *models.Model
	Machine  *Machine
	Workload Workload
	Parallel Parallelism
	Scheme   models.Scheme
	Price    unit.DollarsPerHour // price of one GPU; 0 if not known

	Popularity *operator.Popularity // how often each expert is chosen; nil if all are chosen equally often
	Offload    *operator.Offload    // what of the model lies in the memory of the host; nil for nothing
	Encoders   []operator.Encoder   // encoders that run for each request; nil where requests are text
	Settings   operator.Settings    // how the server is started
}

// Workload is what the engine is asked to do.
type Workload = operator.Workload

// Parallelism is how the model is split.
type Parallelism = operator.Parallelism

// Memory is what is stored on one GPU.
type Memory = operator.Memory

// A Phase is the sum of the steps of prefill, or the mean step of decode.
type Phase struct {
	// FLOPs of matrix products that the model needs, of one replica.
	FLOPs unit.FLOPs `json:"flops" jsonschema:"exclusiveMinimum=0"`
	// FLOPs of matrix products that one rank of each stage computes.
	Executed  unit.FLOPs   `json:"executed_flops_per_rank" jsonschema:"exclusiveMinimum=0"`
	Vector    unit.FLOPs   `json:"vector_flops"`                            // all other FLOPs of one rank of each stage
	Floor     unit.Seconds `json:"floor_s" jsonschema:"exclusiveMinimum=0"` // at the peaks of the data sheet, all resources at once
	Expected  unit.Seconds `json:"expected_s" jsonschema:"exclusiveMinimum=0"`
	Throttled unit.Seconds `json:"throttled_s"` // part of Expected that the GPU's power limit costs
	// Part of Expected by which the time of a batch is clamped to that of a smaller one.
	Clamped unit.Seconds `json:"-"`
	// Factor by which the power limit, or a lower clock, lengthens arithmetic; 1 below the limit.
	Clock  float64                          `json:"throttle_factor" jsonschema:"minimum=1"`
	Bound  roofline.Bound                   `json:"bound"` // what takes most of the time
	Bounds [roofline.NumBounds]unit.Seconds `json:"-"`     // expected time by what bounds it
	// bytes between memory and one rank of each stage
	Traffic unit.Bytes `json:"traffic_bytes" jsonschema:"exclusiveMinimum=0"`
	// part of the traffic that is weights, KV cache and state
	Compulsory unit.Bytes `json:"-"`
	// bytes that one rank of each stage sends
	Wire    unit.Bytes `json:"wire_bytes"`
	Depends Dependence `json:"-"`
	clocks  energy.Clocks
	// Distances of both ends of the 90 % interval that constants and laws of the kernels leave, as shares of Expected; the host widens it.
	KernelLow, KernelHigh float64 `json:"-"`
}

// A Lever is what a faster machine may have more of.
type Lever uint8

// The levers.
const (
	Compute Lever = iota
	MemoryBandwidth
	NetworkBandwidth
	PowerLimit
	LaunchLatency // fixed times of kernels and collectives
	HostSpeed     // times of the host that show
	HostBandwidth // reads of weights from the memory of the host
	HostCores     // work of the host's threads
	HostLink      // copies of weights from the memory of the host
	NumLevers
)

// A Dependence is the derivative of a phase's time by the logarithm of what each lever takes: a resource that is a percent slower lengthens
// the phase by a percent of it. That of the power limit is by a lower limit.
type Dependence [NumLevers]unit.Seconds

// An Estimate is what a Case costs.
type Estimate struct {
	GPUs    int
	Memory  Memory
	Prefill Phase // the whole prompt
	Decode  Phase // mean decode step; zero if only one token is generated
	Tokens  int   // tokens generated after the first, over which TPOT is a mean

	TTFT, TPOT, TTLT Span
	Throughput       float64 // generated tokens a second, all replicas
	InputRate        float64 // prompt tokens a second while prefilling, all replicas
	// Prefill: the model's FLOPs as a share of the GPUs' peak in that time, each product's peak in the format that it runs in.
	MFU           float64
	FLOPsPerToken unit.FLOPs // FLOPs of matrix products for a generated token of a sequence; 0 if only one is generated
	KVPerToken    unit.Bytes // KV cache of a token, in all layers of a replica
	MBU           float64    // decode: compulsory bytes as a share of the GPUs' bandwidth in that time

	Energy energy.Energy
	Money  Money
}

// Money is what a request costs; zero where no price is known.
type Money struct {
	PerHour    unit.Dollars `json:"per_hour" jsonschema:"exclusiveMinimum=0"`    // all GPUs
	PerRequest unit.Dollars `json:"per_request" jsonschema:"exclusiveMinimum=0"` // a request
	// Price of a million generated tokens, the cost of the prompts included.
	PerMillionGenerated unit.Dollars `json:"per_million_generated_tokens" jsonschema:"exclusiveMinimum=0"`
	// price of a million tokens of prompts and answers
	PerMillionTokens unit.Dollars `json:"per_million_tokens" jsonschema:"exclusiveMinimum=0"`
}

// Check returns what is wrong with the case, if anything is.
func (c *Case) Check() error {
	if err := c.check(); err != nil {
		return err
	}
	return c.Workload.Check(c.Parallel.Whole().MicroBatches)
}

// check is Check without the workload.
func (c *Case) check() error {
	if err := operator.Check(c.Model, c.Parallel, c.Scheme, c.Popularity); err != nil {
		return err
	}
	if c.Machine == nil {
		return fmt.Errorf("no machine is given")
	}
	par, g := c.Parallel.Whole(), c.Machine.GPU
	talking := par.TP * par.PP * par.ExpertReplicas() // GPUs that communicate
	if near := min(talking, par.GPUsPerNode); near > 1 && g.LinkAmong(near) == 0 {
		return fmt.Errorf("%d GPUs: %s has no link to another", par.GPUs(), g.Name)
	}
	if talking > par.GPUsPerNode && g.NIC == 0 {
		return fmt.Errorf(
			"%d GPUs over %d nodes of %d: no network is listed for the nodes of %s; give gpus-per-node, or a nic in a hardware file",
			par.GPUs(), par.Nodes(), par.GPUsPerNode, g.Name)
	}
	return nil
}

// Predict is the estimate of a case. For many workloads of one case make a Predictor.
func Predict(c *Case) (Estimate, error) {
	p, err := NewPredictor(c)
	if err != nil {
		return Estimate{}, err
	}
	return p.Predict(&c.Workload)
}

// Predict is the estimate of one workload.
func (p *Predictor) Predict(w *Workload) (e Estimate, err error) {
	e, _, _, err = p.predict(w, estimate, false)
	return e, err
}

// Memory is the memory of a workload on each GPU, which takes no walk.
func (p *Predictor) Memory(w *Workload) operator.Memory {
	return p.Footprint.Memory(w, p.machine.Budget)
}

// Fitting is Predict. An estimate that does not fit in memory has its memory and GPUs alone, which take no work.
func (p *Predictor) Fitting(w *Workload) (e Estimate, err error) {
	e, _, _, err = p.predict(w, estimate, true)
	return e, err
}

// predict is the estimate of one workload, with the sums over both phases; of one that has to fit and does not, its memory alone.
func (p *Predictor) predict(w *Workload, d detail, fitting bool) (e Estimate, prefill, decode total, err error) {
	if err := w.Check(p.Par.MicroBatches); err != nil {
		return e, prefill, decode, err
	}
	e.GPUs, e.Memory = p.Par.GPUs(), p.Memory(w)
	if fitting && !e.Memory.Fits() {
		return e, prefill, decode, nil
	}
	r := runner{p: p, detail: d, budget: maxSteps}
	r.prefill(&prefill, w)
	prefill.limited = p.machine.LimitSlope(&prefill.Load)
	parts := float64(p.Par.MicroBatches)
	p.limit(&prefill, parts, true)
	if w.GenLen > 1 {
		r.sum(&decode, &operator.Run{First: p.FirstDecode(w), Steps: w.GenLen - 1, Times: 1})
		decode.limited = p.machine.LimitSlope(&decode.Load)
		p.limit(&decode, parts, false)
	}
	if prefill.clock.Unmet || decode.clock.Unmet {
		return e, prefill, decode, fmt.Errorf("a power limit of %v: %s draws more than that even at its lowest clock; give a higher one",
			p.machine.Most(), p.machine.GPU.Name)
	}
	each := float64(p.Par.TP*p.Par.PP) / float64(w.Batch)
	e.Energy = energy.Of(prefill.draws(p.machine, p.Par), decode.draws(p.machine, p.Par), prefill.Expected, decode.Expected, w.GenLen-1, each)
	_, e.Energy.IdleKnown = p.machine.GPU.Idle()
	p.assemble(&e, w, &prefill, &decode)
	return e, prefill, decode, nil
}

// prefill sums the steps of the prompts of a micro-batch.
func (r *runner) prefill(all *total, w *Workload) {
	for _, run := range r.p.Prefill(w) {
		if run.Steps > 0 {
			r.sum(all, &run)
		}
	}
	request := r.p.requestTime()
	all.waitsForHost(request, &all.slopes)
	all.exposed += request.sum()
}

// assemble turns the sums into the estimate.
func (p *Predictor) assemble(e *Estimate, w *Workload, prefill, decode *total) {
	par := p.Par
	e.Tokens, e.KVPerToken = w.GenLen-1, p.Model.KVBytesPerToken(p.Scheme.KV)
	e.Prefill = phase(prefill, 1)
	off := p.within(prefill, p.machine.Cal.PrefillError)
	e.Prefill.KernelLow, e.Prefill.KernelHigh = off.low, off.high
	e.TTFT = p.span(prefill.least, prefill.Expected, p.hostError(prefill, off))
	e.TTLT = e.TTFT
	if w.GenLen > 1 {
		e.Decode = phase(decode, 1/float64(w.GenLen-1))
		off := p.within(decode, p.machine.Cal.DecodeError)
		e.Decode.KernelLow, e.Decode.KernelHigh = off.low, off.high
		off = p.hostError(decode, off)
		e.TPOT = p.span(e.Decode.Floor, e.Decode.Expected, off)
		all := p.span(decode.least, decode.Expected, off)
		e.TTLT = Span{e.TTFT.Floor + all.Floor, e.TTFT.Expected + all.Expected, e.TTFT.Low + all.Low, e.TTFT.High + all.High}
		gpuTime := float64(decode.Expected) * float64(par.PP)
		e.FLOPsPerToken = e.Decode.FLOPs.Times(1 / float64(w.Batch))
		e.MBU = float64(decode.Work.Compulsory()) / (gpuTime * float64(p.machine.GPU.Bandwidth))
	}
	e.Energy.Prompt = p.energyWithin(e.Energy.PerPrompt, e.TTFT)
	e.Energy.Request = e.Energy.Prompt
	if e.Tokens > 0 {
		e.Energy.Token = p.energyWithin(e.Energy.PerToken, e.TPOT)
		e.Energy.Request = e.Energy.Prompt.Plus(e.Energy.Token, float64(e.Tokens))
	}
	batch := float64(w.Batch) * float64(par.DP)
	e.Throughput = batch * float64(w.GenLen) / float64(e.TTLT.Expected)
	e.InputRate = batch * float64(w.PromptLen-w.CachedPrefix) / float64(e.TTFT.Expected)
	// Padding and replicated products are not the model's.
	done := float64(prefill.Model) / (float64(prefill.Work.FLOPs) * float64(par.TP*par.PP))
	e.MFU = done * float64(prefill.floor.Matrix) / float64(prefill.Expected)
	e.Money = p.money(e, w, batch)
}

// money shares the GPUs' price among the requests of a batch.
func (p *Predictor) money(e *Estimate, w *Workload, batch float64) (d Money) {
	if p.price <= 0 {
		return d
	}
	d.PerHour = unit.Dollars(float64(p.price) * float64(e.GPUs))
	d.PerRequest = p.price.For(e.TTLT.Expected.Times(float64(e.GPUs) / batch))
	d.PerMillionGenerated = unit.Dollars(float64(d.PerRequest) * 1e6 / float64(w.GenLen))
	d.PerMillionTokens = unit.Dollars(float64(d.PerRequest) * 1e6 / float64(w.PromptLen+w.GenLen))
	return d
}

func phase(t *total, share float64) Phase {
	p := Phase{
		Floor: t.least.Times(share), Expected: t.Expected.Times(share), Throttled: t.throttled.Times(share), Clock: t.clock.At,
		Clamped: t.clamped.Times(share), clocks: t.clock,
		FLOPs: t.Model.Times(share), Executed: t.Work.FLOPs.Times(share), Vector: t.Work.Vector.Times(share),
		Traffic: t.Work.Traffic().Times(share), Compulsory: t.Work.Compulsory().Times(share),
		Wire: (t.Work.Wire + t.Work.NodeWire).Times(share),
	}
	for i, d := range t.depends() {
		p.Depends[i] = d.Times(share)
	}
	for i := range t.bound {
		p.Bounds[i] = t.bound[i].Times(share)
		if p.Bounds[i] > p.Bounds[p.Bound] {
			p.Bound = roofline.Bound(i)
		}
	}
	return p
}

// RequestTime is the time that the first token of a request takes besides the steps of its
// prompt: the request's way to the engine, and the token's way back.
func (p *Predictor) RequestTime() unit.Seconds { return p.requestTime().sum() }
