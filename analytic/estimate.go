package analytic

import (
	"fmt"

	"llmprof/models"
	"llmprof/unit"
)

// A Case is one question: what does this workload cost with this model, split in
// this way, on this machine.
type Case struct {
	Model    *models.Model
	Machine  *Machine
	Workload Workload
	Parallel Parallelism
	Scheme   Scheme
	Price    unit.DollarsPerHour // of one GPU; 0 if not known
}

// A Span is a time with its floor, and the interval that holds it in nine cases
// of ten.
type Span struct{ Floor, Expected, Low, High unit.Seconds }

// A Phase is the sum of the steps of prefill, or the mean step of decode.
type Phase struct {
	Floor, Expected unit.Seconds
	Bound           Bound
	Bounds          [numBounds]unit.Seconds // expected time by what bounds it
	FLOPs           unit.FLOPs              // matrix products that the model needs, one replica
	Executed        unit.FLOPs              // matrix products that one rank of each stage computes
	Vector          unit.FLOPs              // everything else that it computes
	Traffic         unit.Bytes              // between memory and one rank of each stage
	Must            unit.Bytes              // of it, weights, cache and state
	Wire            unit.Bytes              // that one rank of each stage sends
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
	switch {
	case c.Model == nil:
		return fmt.Errorf("no model is given")
	case c.Machine == nil:
		return fmt.Errorf("no machine is given")
	}
	if err := c.Workload.check(); err != nil {
		return err
	}
	if err := c.Scheme.check(); err != nil {
		return err
	}
	if err := c.Parallel.check(c.Workload.Batch); err != nil {
		return err
	}
	par := c.Parallel.whole()
	if err := par.checkModel(c.Model); err != nil {
		return err
	}
	g := c.Machine.GPU
	if par.GPUs() > 1 && c.Machine.link == 0 {
		return fmt.Errorf("%d GPUs: %s has no link to another", par.GPUs(), g.Name)
	}
	if par.Nodes() > 1 && g.NIC == 0 && max(par.TP*par.PP, par.EP) > par.GPUsPerNode {
		return fmt.Errorf("%d GPUs over %d nodes of %d: no network is listed for the nodes of %s; give gpus-per-node, or a nic in a hardware file",
			par.GPUs(), par.Nodes(), par.GPUsPerNode, g.Name)
	}
	return nil
}

// stackOps is room for the operators of a model with few kinds of layers.
const stackOps = 40

// Predict answers the case. It allocates nothing for models of up to about two
// kinds of layers.
func Predict(c *Case) (Estimate, error) {
	if err := c.Check(); err != nil {
		return Estimate{}, err
	}
	var room [stackOps]Op
	par := c.Parallel.whole()
	dense, plain := c.Scheme.parts()
	p := pricer{machine: c.Machine, model: c.Model, ops: room[:0], budget: maxSteps}
	st := Step{Par: &par, Scheme: &c.Scheme, Dense: &dense, Plain: &plain}
	prefill, decode := c.tallies(&p, &st)
	return c.assemble(&par, &st, &prefill, &decode), nil
}

// maxSteps is how many steps a run may price before the rest is taken as linear;
// only windows of a few tokens under answers of millions come near it.
const maxSteps = 20000

// parts returns the scheme of the dense matrices and that of what is never
// quantized.
func (s *Scheme) parts() (dense, plain Scheme) {
	plain = Scheme{Name: "stream", Weights: s.stream(), Act: s.stream(), KV: s.KV}
	if s.Experts {
		return plain, plain
	}
	return *s, plain
}

// tallies sums the steps of prefill and of decode.
func (c *Case) tallies(p *pricer, st *Step) (prefill, decode tally) {
	w := &c.Workload
	layers := c.Model.NumLayers()
	st.Batch = float64(w.Batch) / float64(st.Par.MicroBatches)
	prefill = c.prefill(p, *st)
	prefill.pipeline(st.Par, layers, true)
	if w.Gen > 1 {
		one := *st
		one.New, one.Past, one.Logits = 1, float64(w.Prompt), 1
		decode = p.run(one, 1, float64(w.Gen-1))
		decode.pipeline(st.Par, layers, false)
	}
	return prefill, decode
}

// prefill sums the chunks of the prompt; the LM head runs in the last.
func (c *Case) prefill(p *pricer, st Step) (sum tally) {
	w := &c.Workload
	fresh, chunk := w.Prompt-w.CachedPrefix, w.chunk()
	whole := (fresh - 1) / chunk // chunks before the last
	st.Past, st.New = float64(w.CachedPrefix), float64(chunk)
	if w.AllLogits {
		st.Logits = st.New
	}
	if whole > 0 {
		sum = p.run(st, st.New, float64(whole))
	}
	st.Past += float64(whole * chunk)
	st.New = float64(fresh - whole*chunk)
	st.Logits = 1
	if w.AllLogits {
		st.Logits = st.New
	}
	last := p.step(&st)
	sum.plus(&last, &last, 1)
	return sum
}

// assemble turns the sums into the answer.
func (c *Case) assemble(par *Parallelism, st *Step, prefill, decode *tally) Estimate {
	w, cal := &c.Workload, &c.Machine.Cal
	e := Estimate{GPUs: par.GPUs(), Tokens: w.Gen - 1}
	e.Memory = c.memory(st)
	e.Prefill = phase(prefill, 1)
	e.TTFT = span(prefill.floor, prefill.expected, cal.PrefillError)
	e.TTLT = e.TTFT
	dp := float64(par.DP)
	batch := float64(w.Batch) * dp
	if w.Gen > 1 {
		n := float64(w.Gen - 1)
		e.Decode = phase(decode, 1/n)
		e.TPOT = span(e.Decode.Floor, e.Decode.Expected, cal.DecodeError)
		all := span(decode.floor, decode.expected, cal.DecodeError)
		e.TTLT.Floor += all.Floor
		e.TTLT.Expected += all.Expected
		e.TTLT.Low += all.Low
		e.TTLT.High += all.High
		gpuTime := float64(decode.expected) * float64(par.PP)
		e.MBU = float64(decode.must) / (gpuTime * float64(c.Machine.GPU.Bandwidth))
	}
	e.Throughput = batch * float64(w.Gen) / float64(e.TTLT.Expected)
	e.InputRate = batch * float64(w.Prompt-w.CachedPrefix) / float64(e.TTFT.Expected)
	_, peak := c.Machine.Runs(c.Scheme.Act)
	e.MFU = float64(prefill.model) / (float64(prefill.expected) * float64(peak) * float64(par.TP*par.PP))
	e.Energy = c.energy(par, prefill, decode)
	e.Money = c.money(&e, batch)
	return e
}

// money shares the GPUs' price among the requests that run together.
func (c *Case) money(e *Estimate, batch float64) (d Money) {
	if c.Price <= 0 {
		return d
	}
	w := &c.Workload
	d.PerHour = unit.Dollars(float64(c.Price) * float64(e.GPUs))
	d.PerRequest = c.Price.For(e.TTLT.Expected.Times(float64(e.GPUs) / batch))
	d.PerMillionGenerated = unit.Dollars(float64(d.PerRequest) * 1e6 / float64(w.Gen))
	d.PerMillionTokens = unit.Dollars(float64(d.PerRequest) * 1e6 / float64(w.Prompt+w.Gen))
	return d
}

// phase is share of a tally.
func phase(t *tally, share float64) Phase {
	p := Phase{
		Floor: t.floor.Times(share), Expected: t.expected.Times(share),
		FLOPs: t.model.Times(share), Executed: t.flops.Times(share), Vector: t.vector.Times(share),
		Traffic: t.traffic.Times(share), Must: t.must.Times(share), Wire: t.wire.Times(share),
	}
	for i := range t.bound {
		p.Bounds[i] = t.bound[i].Times(share)
		if p.Bounds[i] > p.Bounds[p.Bound] {
			p.Bound = Bound(i)
		}
	}
	return p
}

// span is the expected time with its interval, which the floor cuts off.
func span(floor, expected unit.Seconds, err float64) Span {
	return Span{
		Floor: floor, Expected: max(expected, floor),
		Low: max(expected.Times(1-err), floor), High: max(expected.Times(1+err), floor),
	}
}
