package analytic

import (
	"fmt"

	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
	"llmprof/workload"
)

// A Case is one question: what does this workload cost with this model, split in
// this way, on this machine.
type Case struct {
	Model    *models.Model
	Machine  *Machine
	Workload Workload
	Parallel Parallelism
	Scheme   models.Scheme
	Price    unit.DollarsPerHour // of one GPU; 0 if not known
}

// A Workload is what is asked of the engine.
type Workload = workload.Workload

// A Span is a time with its floor, and the interval that holds it in nine cases
// of ten.
type Span struct{ Floor, Expected, Low, High unit.Seconds }

// A Phase is the sum of the steps of prefill, or the mean step of decode.
type Phase struct {
	Floor, Expected unit.Seconds
	Throttled       unit.Seconds // of Expected, what the GPU's power limit costs
	Raised          unit.Seconds // of Expected, what the batch takes no less than a smaller one
	Clock           float64      // how many times longer arithmetic takes for it than in a burst; 1 where the limit is not reached
	Bound           roofline.Bound
	Bounds          [roofline.NumBounds]unit.Seconds // expected time by what bounds it
	FLOPs           unit.FLOPs                       // matrix products that the model needs, one replica
	Executed        unit.FLOPs                       // matrix products that one rank of each stage computes
	Vector          unit.FLOPs                       // everything else that it computes
	Traffic         unit.Bytes                       // between memory and one rank of each stage
	Compulsory      unit.Bytes                       // of it, weights, cache and state
	Wire            unit.Bytes                       // that one rank of each stage sends
}

// An Estimate is the answer to a Case.
type Estimate struct {
	GPUs    int
	Memory  Memory
	Prefill Phase // the whole prompt
	Decode  Phase // a token at the mean context; zero if only one token is generated
	Tokens  int   // generated after the first, which is what TPOT is a mean of

	TTFT, TPOT, TTLT Span
	Throughput       float64 // generated tokens a second, all replicas
	InputRate        float64 // prompt tokens a second while prefilling, all replicas
	MFU              float64 // of the prefill: the model's FLOPs over the GPUs' peak in that time
	MBU              float64 // of the decode: bytes that must move over the GPUs' bandwidth in that time

	Energy Energy
	Money  Money
}

// Money is what a request costs; zero where no price is known.
type Money struct {
	PerHour             unit.Dollars // all GPUs
	PerRequest          unit.Dollars
	PerMillionGenerated unit.Dollars // generated tokens, the prompt's cost in them
	PerMillionTokens    unit.Dollars // prompt and generated tokens
}

// Check tells what is wrong with the case, if anything is.
func (c *Case) Check() error {
	if err := c.check(); err != nil {
		return err
	}
	return c.Workload.Check(c.Parallel.Whole().MicroBatches)
}

// checkSplit is Check without the machine and the workload.
func (c *Case) checkSplit() error {
	if c.Model == nil {
		return fmt.Errorf("no model is given")
	}
	if err := c.Scheme.Check(); err != nil {
		return err
	}
	if err := c.Parallel.check(); err != nil {
		return err
	}
	par := c.Parallel.Whole()
	return par.checkModel(c.Model)
}

// check is Check without the workload.
func (c *Case) check() error {
	if err := c.checkSplit(); err != nil {
		return err
	}
	if c.Machine == nil {
		return fmt.Errorf("no machine is given")
	}
	par, g := c.Parallel.Whole(), c.Machine.GPU
	together := par.TP * par.PP * par.expertReplicas() // GPUs that talk to each other
	if near := min(together, par.GPUsPerNode); near > 1 && g.LinkAmong(near) == 0 {
		return fmt.Errorf("%d GPUs: %s has no link to another", par.GPUs(), g.Name)
	}
	if together > par.GPUsPerNode && g.NIC == 0 {
		return fmt.Errorf("%d GPUs over %d nodes of %d: no network is listed for the nodes of %s; give gpus-per-node, or a nic in a hardware file",
			par.GPUs(), par.Nodes(), par.GPUsPerNode, g.Name)
	}
	return nil
}

// Predict answers the case. For many workloads of one case make a Predictor.
func Predict(c *Case) (Estimate, error) {
	p, err := NewPredictor(c)
	if err != nil {
		return Estimate{}, err
	}
	return p.Predict(&c.Workload)
}

// Predict answers for one workload.
func (p *Predictor) Predict(w *Workload) (e Estimate, err error) {
	if err := w.Check(p.par.MicroBatches); err != nil {
		return e, err
	}
	prefill, decode := p.phases(w)
	p.limit(&prefill, true)
	if w.Gen > 1 {
		p.limit(&decode, false)
	}
	e.Memory = p.memory(w)
	e.Energy = p.energy(w, &prefill, &decode)
	p.assemble(&e, w, &prefill, &decode)
	return e, nil
}

// phases sums the steps of prefill and of decode, of one micro-batch.
func (p *Predictor) phases(w *Workload) (prefill, decode total) {
	r := run{p: p, budget: maxSteps}
	prefill = r.prefill(w)
	if w.Gen > 1 {
		decode = r.sum(p.FirstDecode(w), 1, float64(w.Gen-1))
	}
	return prefill, decode
}

// limit turns the sum over the steps of a micro-batch into a phase of all of them, no
// GPU of which draws more than its power limit.
func (p *Predictor) limit(t *total, prefill bool) {
	p.machine.limit(&t.timing)
	for i := range t.stage {
		p.machine.limit(&t.stage[i])
	}
	t.pipeline(float64(p.par.MicroBatches), prefill)
}

// prefill sums the steps of the prompts.
func (r *run) prefill(w *Workload) (all total) {
	for _, group := range r.p.Prefill(w) {
		if group.Steps > 0 {
			sum := r.sum(group.First, group.First.New, float64(group.Steps))
			all.add(&sum, group.Times)
		}
	}
	all.waitsForHost(r.p.request())
	return all
}

// assemble turns the sums into the answer.
func (p *Predictor) assemble(e *Estimate, w *Workload, prefill, decode *total) {
	cal, par := &p.machine.Cal, &p.par
	e.GPUs, e.Tokens = par.GPUs(), w.Gen-1
	e.Prefill = phase(prefill, 1)
	e.TTFT = p.span(prefill.least, prefill.expected, cal.PrefillError+p.engineError(prefill))
	e.TTLT = e.TTFT
	if w.Gen > 1 {
		e.Decode = phase(decode, 1/float64(w.Gen-1))
		off := cal.DecodeError + p.engineError(decode)
		e.TPOT = p.span(e.Decode.Floor, e.Decode.Expected, off)
		all := p.span(decode.least, decode.expected, off)
		e.TTLT.Floor += all.Floor
		e.TTLT.Expected += all.Expected
		e.TTLT.Low += all.Low
		e.TTLT.High += all.High
		gpuTime := float64(decode.expected) * float64(par.PP)
		e.MBU = float64(decode.work.Compulsory()) / (gpuTime * float64(p.machine.GPU.Bandwidth))
	}
	batch := float64(w.Batch) * float64(par.DP)
	e.Throughput = batch * float64(w.Gen) / float64(e.TTLT.Expected)
	e.InputRate = batch * float64(w.Prompt-w.CachedPrefix) / float64(e.TTFT.Expected)
	_, peak := p.machine.Runs(p.scheme.Act)
	e.MFU = float64(prefill.model) / (float64(prefill.expected) * float64(peak) * float64(par.TP*par.PP))
	e.Money = p.money(e, w, batch)
}

// money shares the GPUs' price among the requests that run together.
func (p *Predictor) money(e *Estimate, w *Workload, batch float64) (d Money) {
	if p.price <= 0 {
		return d
	}
	d.PerHour = unit.Dollars(float64(p.price) * float64(e.GPUs))
	d.PerRequest = p.price.For(e.TTLT.Expected.Times(float64(e.GPUs) / batch))
	d.PerMillionGenerated = unit.Dollars(float64(d.PerRequest) * 1e6 / float64(w.Gen))
	d.PerMillionTokens = unit.Dollars(float64(d.PerRequest) * 1e6 / float64(w.Prompt+w.Gen))
	return d
}

// phase is share of a total.
func phase(t *total, share float64) Phase {
	p := Phase{
		Floor: t.least.Times(share), Expected: t.expected.Times(share), Throttled: t.throttled.Times(share), Clock: t.clock, Raised: t.raised.Times(share),
		FLOPs: t.model.Times(share), Executed: t.work.FLOPs.Times(share), Vector: t.work.Vector.Times(share),
		Traffic: t.work.Traffic().Times(share), Compulsory: t.work.Compulsory().Times(share),
		Wire: (t.work.Wire + t.work.NodeWire).Times(share),
	}
	for i := range t.bound {
		p.Bounds[i] = t.bound[i].Times(share)
		if p.Bounds[i] > p.Bounds[p.Bound] {
			p.Bound = roofline.Bound(i)
		}
	}
	return p
}

// engineError is what the engine adds to the error of a phase: what a slower host would
// add to it. A host that the GPU's work hides adds nothing until it takes longer.
func (p *Predictor) engineError(t *total) float64 {
	e := p.machine.Engine.Profile()
	if p.machine.hostKnown { // it was measured where it runs
		return 0
	}
	return e.Error + max(float64(t.host.Times(1+e.HostError)/t.expected)-1, 0)
}

// request is what the first token takes beyond the steps of its prompt.
func (p *Predictor) request() unit.Seconds {
	if p.machine == nil {
		return 0
	}
	return p.machine.seconds(roofline.HostAsync) + p.machine.seconds(roofline.HostRequest)
}

// span is the expected time with its interval, which the floor cuts off.
func (p *Predictor) span(floor, expected unit.Seconds, off float64) Span {
	return Span{
		Floor: floor, Expected: max(expected, floor),
		Low: max(expected.Times(1-off), floor), High: max(expected.Times(1+off+p.machine.Engine.Profile().Older), floor),
	}
}
