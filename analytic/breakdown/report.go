// Package breakdown shares the time and the energy of an estimate among the operators of
// the model, and says what a reader has to know before trusting it. It walks the kernels
// that package analytic prices.
package breakdown

import (
	"fmt"
	"math/bits"
	"slices"

	"llmprof/analytic"
	"llmprof/analytic/energy"
	"llmprof/analytic/operator"
	"llmprof/models"
	"llmprof/roofline"
	"llmprof/unit"
)

// A Report is an Estimate with its operators, and with what a reader has to know before
// trusting it.
type Report struct {
	analytic.Estimate
	PrefillOps []Operator // operators of the whole prompt
	DecodeOps  []Operator // operators of one step at the mean context
	Context    float64    // mean context of a decode step, the new token included
	Count      models.FLOPCount
	Warnings   []string
}

// An Operator sums all occurrences of an operator of the model in a phase, on one rank of
// the tensor-parallel group, over all stages of the pipeline.
type Operator struct {
	Name   string
	Layer  string // kind of layer; "" outside of the layers
	Layers float64
	Kind   operator.Kind
	Block  int         // number in the layer of the first block that has it
	In     string      // operator whose kernel computes it too; "" if it has a separate kernel
	Format unit.Format // format that its GEMMs run in; NoFormat without any

	roofline.Work            // work of the operator; Wire includes what is sent to other nodes
	Bound                    roofline.Bound
	Floor, Expected          unit.Seconds
	Compute, Memory, Network unit.Seconds // expected times of the resources, which overlap
	Fixed                    unit.Seconds
	Share                    float64     // share of the phase's expected time
	Energy                   unit.Joules // energy of all ranks of the replica, without their waiting power

	kind   int     // number of the kind of layer of a step that was counted last
	inStep float64 // layers of a step that were counted

	slower unit.Seconds // additional time where the power limit slows its arithmetic
	busy   energy.Busy  // for its energy
}

// Explain answers the case operator by operator.
func Explain(c *analytic.Case) (Report, error) {
	p, err := analytic.NewPredictor(c)
	if err != nil {
		return Report{}, err
	}
	e, err := p.Predict(&c.Workload)
	if err != nil {
		return Report{}, err
	}
	b := breakdown{c: c, p: p}
	r := Report{Estimate: e, Count: c.Model.FLOPCount(), PrefillOps: b.finish(b.prefill(), &e.Prefill)}
	if e.Tokens > 0 {
		one := p.FirstDecode(&c.Workload)
		one.Past += float64(e.Tokens-1) / 2
		r.Context = one.Past + 1
		r.DecodeOps = b.finish(b.add(nil, &one, 1), &e.Decode)
	}
	r.Warnings = warnings(c, &e, r.Computes())
	return r, nil
}

// Computes is the format in which most products with weights run in the prefill: engines round activations to it, and a
// GPU without a unit for it has another.
func (r *Report) Computes() (f unit.Format) {
	most := unit.FLOPs(0)
	for i := range r.PrefillOps {
		if o := &r.PrefillOps[i]; o.Weights > 0 && o.FLOPs > most {
			f, most = o.Format, o.FLOPs
		}
	}
	return f
}

// A breakdown shares the time and energy of an estimate among its operators.
type breakdown struct {
	c *analytic.Case
	p *analytic.Predictor
}

// maxChunks is how many prefill steps are listed one by one; more are sampled.
const maxChunks = 64

// prefill sums the operators over the steps that compute the prompts.
func (b *breakdown) prefill() (sum []Operator) {
	for _, run := range b.p.Prefill(&b.c.Workload) {
		samples := min(run.Steps, maxChunks)
		each := float64(run.Steps) / float64(samples)
		for i := range samples {
			step := run.First
			step.Past += step.New * ((float64(i)+0.5)*each - 0.5) // middle of one of the equal parts of the run that the samples stand for
			sum = b.add(sum, &step, each*run.Times)
		}
	}
	return sum
}

func (b *breakdown) add(sum []Operator, st *operator.Step, times float64) []Operator {
	for i := range sum {
		sum[i].kind, sum[i].inStep = 0, 0
	}
	kind := 0
	b.p.Walk(st, func(l *analytic.Lowering, costs []roofline.Cost) {
		kind++
		for i := range l.Ops {
			sum = b.work(sum, &l.Ops[i], times, kind)
		}
		for i := range l.Kernels {
			b.charge(sum, l, &l.Kernels[i], &costs[i], times)
		}
	})
	return sum
}

func (b *breakdown) work(sum []Operator, o *operator.Op, times float64, kind int) []Operator {
	sum, l := sumOf(sum, o)
	if l.kind != kind { // layers of another kind may have the same name
		l.kind, l.inStep = kind, l.inStep+o.Count
		l.Layers = max(l.Layers, l.inStep)
	}
	if o.Work.FLOPs > 0 {
		l.Format, _ = b.c.Machine.Runs(o.Format)
	}
	l.Add(&o.Work, o.Count*times)
	l.Wire, l.NodeWire = l.Wire+l.NodeWire, 0
	var f roofline.Floor
	o.AddFloor(&f, b.c.Machine.Peaks(), o.Count*times)
	l.Floor += f.Time()
	return sum
}

// busy is how long an operator of a kernel keeps each resource busy at the peaks. The
// activations of the kernel's main operator move through memory; the activations of the
// operators that are fused into it stay on the chip.
func (b *breakdown) busy(o *operator.Op, main bool) (f roofline.Floor) {
	peaks := b.c.Machine.Peaks()
	o.AddFloor(&f, peaks, 1)
	if main {
		f.Memory = o.Work.Traffic().Over(peaks.Memory)
	}
	return f
}

// charge divides the time of a kernel among its operators: the time of each resource in
// proportion to how long they keep it busy at the peaks, and the fixed time to the main
// operator.
func (b *breakdown) charge(sum []Operator, l *analytic.Lowering, k *analytic.Kernel, cost *roofline.Cost, times float64) {
	var whole roofline.Floor
	for set := k.Ops; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		f := b.busy(&l.Ops[i], i == k.Main)
		whole.Add(&f, 1)
	}
	busy := cost.Time - cost.Times[roofline.Fixed]
	slower := cost.Slower(b.c.Machine.Throttle) - cost.Time
	for set := k.Ops; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		o := &l.Ops[i]
		_, line := sumOf(sum, o)
		main := i == k.Main
		f := b.busy(o, main)
		compute := share(f.Matrix+f.Vector, whole.Matrix+whole.Vector, main)
		memory := share(f.Memory, whole.Memory, main)
		network := share(f.Link+f.Node, whole.Link+whole.Node, main)
		part := memory
		switch cost.Bound {
		case roofline.ByCompute:
			part = compute
		case roofline.ByNetwork:
			part = network
		}
		line.Compute += cost.Compute().Times(compute * times)
		line.Memory += (cost.Times[roofline.Memory] + cost.Times[roofline.Serial]).Times(memory * times)
		line.Network += cost.Times[roofline.Network].Times(network * times)
		line.Expected += busy.Times(part * times)
		line.slower += slower.Times(compute * times)
		draws := b.c.Machine.BusyOf(cost)
		line.busy.Compute += draws.Compute.Times(compute * times)
		line.busy.Network += draws.Network.Times(network * times)
		line.busy.Draw.Add(draws.Draw, memory*times)
		if main {
			line.busy.Fixed += draws.Fixed.Times(times)
			line.Fixed += cost.Times[roofline.Fixed].Times(times)
			line.Expected += cost.Times[roofline.Fixed].Times(times)
			line.In = k.Phase
			continue
		}
		if line.In = k.Phase; line.In == "" {
			line.In = l.Ops[k.Main].Name
		}
	}
}

// share is a part divided by its whole. Where the whole is 0, the kernel's main operator has
// all of it.
func share(part, whole unit.Seconds, main bool) float64 {
	switch {
	case whole > 0:
		return float64(part / whole)
	case main:
		return 1
	}
	return 0
}

// sumOf returns the sum that o belongs to, and appends a new one if there is none. A layer's
// operators with the same name, such as its two norms, have one sum. Sums of a kind of layer stand together.
func sumOf(sum []Operator, o *operator.Op) ([]Operator, *Operator) {
	at := len(sum)
	for i := range sum {
		l := &sum[i]
		if l.Name == o.Name && l.Layer == o.Layer {
			return sum, l
		}
		if l.Layer == o.Layer && o.Layer != "" {
			at = i + 1
		}
	}
	sum = slices.Insert(sum, at, Operator{Name: o.Name, Layer: o.Layer, Kind: o.Type.Kind(), Block: int(o.At)})
	return sum, &sum[at]
}

// finish sets the bounds and the shares of the operators. It lists the time of the host as
// one more operator, so that the times add up to that of the phase.
func (b *breakdown) finish(ops []Operator, p *analytic.Phase) []Operator {
	b.energy(ops, p)
	var sum unit.Seconds
	for i := range ops {
		sum += ops[i].Expected
	}
	b.throttle(ops, &sum, p)
	b.raise(ops, &sum, p)
	b.scale(ops, &sum, p)
	host := p.Expected - sum
	if host > sum.Times(1e-9) {
		ops = append(ops, Operator{Name: "host", Layers: 1, Kind: operator.Element, Fixed: host, Expected: host})
	}
	for i := range ops {
		l := &ops[i]
		times := roofline.Times{roofline.Matrix: l.Compute, roofline.Memory: l.Memory, roofline.Network: l.Network, roofline.Fixed: l.Fixed}
		l.Bound = times.Bound()
		l.Share = float64(l.Expected) / float64(p.Expected)
	}
	return ops
}

// raise spreads Phase.Raised over the operators: the time by which a step is longer because
// it is taken to be no faster than a step of a smaller batch.
func (b *breakdown) raise(ops []Operator, sum *unit.Seconds, p *analytic.Phase) {
	if p.Raised == 0 || *sum == 0 {
		return
	}
	ratio := 1 + float64(p.Raised / *sum)
	for i := range ops {
		ops[i].Expected = ops[i].Expected.Times(ratio)
	}
	*sum += p.Raised
}

// energy sets the energy of the operators. Their sum is at most what the power limit allows.
func (b *breakdown) energy(ops []Operator, p *analytic.Phase) {
	ranks, passes := float64(max(b.c.Parallel.TP, 1)), float64(max(b.c.Parallel.MicroBatches, 1))
	var all unit.Joules
	for i := range ops {
		l := &ops[i]
		l.Energy = b.c.Machine.Active(&l.busy, p.Clock).Times(ranks * passes)
		all += l.Energy
	}
	if most := b.c.Machine.Rest.For(p.Expected).Times(ranks); all > most {
		for i := range ops {
			ops[i].Energy = ops[i].Energy.Times(float64(most) / float64(all))
		}
	}
}

// throttle divides the time that the power limit costs among the operators.
func (b *breakdown) throttle(ops []Operator, sum *unit.Seconds, p *analytic.Phase) {
	var slower unit.Seconds
	for i := range ops {
		slower += ops[i].slower
	}
	if p.Throttled == 0 || slower == 0 {
		return
	}
	more := p.Throttled
	if b.c.Parallel.MicroBatches > 1 { // the pipeline multiplies this time as it does the rest
		more = sum.Times(float64(p.Throttled) / float64(p.Expected-p.Throttled))
	}
	for i := range ops {
		l := &ops[i]
		l.Expected += more.Times(float64(l.slower) / float64(slower))
		l.Compute = l.Compute.Times(p.Clock)
	}
	*sum += more
}

// scale turns the times of one micro-batch into shares of the time of all micro-batches.
// Micro-batches overlap in the pipeline.
func (b *breakdown) scale(ops []Operator, sum *unit.Seconds, p *analytic.Phase) {
	m := float64(max(b.c.Parallel.MicroBatches, 1))
	if m == 1 {
		return
	}
	ratio := float64(p.Expected) / float64(*sum)
	for i := range ops {
		l := &ops[i]
		for _, t := range []*unit.Seconds{&l.Floor, &l.Expected, &l.Compute, &l.Memory, &l.Network, &l.Fixed} {
			*t = t.Times(ratio)
		}
		l.Work = l.Scale(m)
	}
	*sum = p.Expected
}

// warnings lists what a reader has to know: they do not stop the estimate.
func warnings(c *analytic.Case, e *analytic.Estimate, computes unit.Format) []string {
	var w []string
	add := func(format string, args ...any) { w = append(w, fmt.Sprintf(format, args...)) }
	m, g, par := &e.Memory, c.Machine.GPU, c.Parallel.Whole()
	if !m.Fits() {
		add("does not fit: %v needed of the %v that %s takes of one %s, %v short", m.Total, m.Usable, c.Machine.Engine.Profile().Name, g.Name,
			m.Total-m.Usable)
	}
	if limit, need := c.Model.MaxContext, c.Workload.Context(); limit > 0 && need > limit {
		add("context of %d tokens is over the %d that %s was made for", need, limit, c.Model.Name)
	}
	warnFormats(c, computes, add)
	if weights := m.Weights; weights < g.L2 {
		add("the weights (%v) fit into the L2 cache (%v): a step may read them faster than the floor, which takes them from memory", weights,
			g.L2)
	}
	if par.PP > 1 && par.MicroBatches == 1 {
		add("one micro-batch keeps one of the %d pipeline stages busy at a time; more fill the others", par.PP)
	}
	if par.PP > 1 && par.MicroBatches > 1 && par.MicroBatches < par.PP {
		add("%d micro-batches leave %d of %d pipeline stages idle in decode", par.MicroBatches, par.PP-par.MicroBatches, par.PP)
	}
	if !e.Energy.IdleKnown {
		idle := c.Machine.Cal.Constants[roofline.PowerIdle]
		add("no source gives the idle power of %s: %v assumed, %.0f %% of its limit", g.Name, unit.Watts(idle*float64(g.TDP)), 100*idle)
	}
	if c.Model.HasExperts() && c.Popularity.Even() {
		add("experts are taken as chosen evenly and at random: skewed routing reads fewer of them and waits for the busiest")
	}
	return append(w, c.Model.Notes...)
}

// warnFormats names the formats that run in another than was asked for.
func warnFormats(c *analytic.Case, computes unit.Format, add func(string, ...any)) {
	s, g := &c.Scheme, c.Machine.GPU
	if run, _ := c.Machine.Runs(s.Act); run != s.Act && run == computes {
		add("%s has no unit for %v: products run in %v", g.Name, s.Act, run)
	}
	if stream := s.Stream(); stream != s.Act {
		if run, _ := c.Machine.Runs(stream); run != stream {
			add("%s has no unit for %v: attention and the LM head run in %v", g.Name, stream, run)
		}
	}
	if s.Weights == unit.FP16 && !g.Has(unit.BF16) {
		add("fp16 in place of bf16, which %s has no unit for", g.Name)
	}
}
