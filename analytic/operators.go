package analytic

import (
	"iter"
	"math/bits"
	"slices"

	"llmprof/analytic/energy"
	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

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

	kind   int          // number of the kind of layer of the step that was counted last
	slower unit.Seconds // additional time where the power limit slows its arithmetic
	busy   energy.Busy  // what its energy is worked out from
}

// Explain is the estimate of one workload by operator: of the whole prompts, and of the mean decode step.
func (p *Predictor) Explain(w *Workload) (e Estimate, prefill, decode []Operator, err error) {
	e, first, rest, err := p.predict(w, operators, false)
	if err != nil {
		return e, nil, nil, err
	}
	for i := range rest.operators {
		rest.operators[i].scale(1 / float64(e.Tokens))
	}
	prefill = p.finish(first.operators, &e.Prefill)
	if e.Tokens > 0 {
		decode = p.finish(rest.operators, &e.Decode)
	}
	return e, prefill, decode, nil
}

// times are the times of an operator that grow with the number of steps.
func (o *Operator) times() []*unit.Seconds {
	return []*unit.Seconds{&o.Floor, &o.Expected, &o.Compute, &o.Memory, &o.Network, &o.Fixed, &o.slower}
}

// scale multiplies the sums of an operator.
func (o *Operator) scale(n float64) {
	o.Work, o.busy = o.Scale(n), o.busy.Times(n)
	for _, t := range o.times() {
		*t = t.Times(n)
	}
}

// add adds n times the sums of an operator of the same name.
func (o *Operator) add(u *Operator, n float64) {
	if o.Layers == 0 {
		o.Kind, o.Block, o.In, o.Format = u.Kind, u.Block, u.In, u.Format
	}
	o.Layers = max(o.Layers, u.Layers)
	o.Add(&u.Work, n)
	o.busy.Add(&u.busy, n)
	from := u.times()
	for i, t := range o.times() {
		*t += from[i].Times(n)
	}
}

// sumOf returns the sum with a name and a kind of layer, and appends a new one if there is none. A layer's
// operators with the same name, such as its two norms, have one sum. Sums of a kind of layer stand together.
func sumOf(sum []Operator, name, layer string) ([]Operator, *Operator) {
	at := len(sum)
	for i := range sum {
		o := &sum[i]
		if o.Name == name && o.Layer == layer {
			return sum, o
		}
		if o.Layer == layer && layer != "" {
			at = i + 1
		}
	}
	sum = slices.Insert(sum, at, Operator{Name: name, Layer: layer})
	return sum, &sum[at]
}

// charge adds the operators of a part to the sums of the step, and what the kernels take that do them.
func (w *walk) charge(sum []Operator) []Operator {
	for i := range w.Ops {
		sum = w.work(sum, &w.Ops[i])
	}
	for i := range w.Kernels {
		w.chargeKernel(sum, &w.Kernels[i], &w.costs[i])
	}
	return sum
}

// work adds the work of an operator to its sum.
func (w *walk) work(sum []Operator, o *operator.Op) []Operator {
	sum, l := sumOf(sum, o.Name, o.Layer)
	if l.kind != w.kind { // layers of another kind may have the same name
		if l.kind == 0 {
			l.Kind, l.Block = o.Type.Kind(), int(o.At)
		}
		l.kind = w.kind
		l.Layers += o.Count
	}
	if o.Work.FLOPs > 0 {
		l.Format, _ = w.p.machine.Runs(o.Format)
	}
	l.Add(&o.Work, o.Count)
	l.Wire, l.NodeWire = l.Wire+l.NodeWire, 0
	var f roofline.Floor
	o.AddFloor(&f, w.p.machine.Peaks(), o.Count)
	l.Floor += f.Time()
	return sum
}

// busy yields the operators of a kernel with how long each keeps each resource busy at the peaks. The
// activations of the kernel's main operator move through memory; the activations of the
// operators that are fused into it stay on the chip.
func (w *walk) busy(k *Kernel) iter.Seq2[int, roofline.Floor] {
	return func(yield func(int, roofline.Floor) bool) {
		peaks := w.p.machine.Peaks()
		for set := k.Ops; set != 0; set &= set - 1 {
			i := bits.TrailingZeros64(set)
			var f roofline.Floor
			if w.Ops[i].AddFloor(&f, peaks, 1); i == k.Main {
				f.Memory = w.Ops[i].Work.Traffic().Over(peaks.Memory)
			}
			if !yield(i, f) {
				return
			}
		}
	}
}

// chargeKernel divides the time of a kernel among its operators: the time of each resource in
// proportion to how long they keep it busy at the peaks, and the fixed time to the main
// operator.
func (w *walk) chargeKernel(sum []Operator, k *Kernel, c *roofline.Cost) {
	var whole roofline.Floor
	for _, f := range w.busy(k) {
		whole.Add(&f, 1)
	}
	for i, f := range w.busy(k) {
		o, main := &w.Ops[i], 0.0
		if i == k.Main {
			main = 1
		}
		share := func(part, whole unit.Seconds) float64 {
			if whole == 0 {
				return main
			}
			return float64(part / whole)
		}
		_, line := sumOf(sum, o.Name, o.Layer)
		line.charge(w.p.machine, c, shares{
			compute: share(f.Matrix+f.Vector, whole.Matrix+whole.Vector), memory: share(f.Memory, whole.Memory),
			network: share(f.Link+f.Node, whole.Link+whole.Node), fixed: main,
		})
		if line.In = k.Phase; line.In == "" && main == 0 {
			line.In = w.Ops[k.Main].Name
		}
	}
}

// shares are the parts of the times of a kernel that one of its operators has.
type shares struct{ compute, memory, network, fixed float64 }

// charge adds the operator's part of a kernel.
func (o *Operator) charge(m *Machine, c *roofline.Cost, s shares) {
	part := s.memory
	switch c.Bound {
	case roofline.ByCompute:
		part = s.compute
	case roofline.ByNetwork:
		part = s.network
	}
	fixed, busy := c.Times[roofline.Fixed], m.BusyOf(c)
	o.Compute += c.Compute().Times(s.compute)
	o.Memory += (c.Times[roofline.Memory] + c.Times[roofline.Serial]).Times(s.memory)
	o.Network += c.Times[roofline.Network].Times(s.network)
	o.Fixed += fixed.Times(s.fixed)
	o.Expected += (c.Time - fixed).Times(part) + fixed.Times(s.fixed)
	o.slower += m.Slows(c, s.compute, part)
	o.busy.Compute += busy.Compute.Times(s.compute)
	o.busy.Network += busy.Network.Times(s.network)
	o.busy.Memory += busy.Memory.Times(s.memory)
	o.busy.Chip += busy.Chip.Times(s.memory)
	o.busy.Fixed += busy.Fixed.Times(s.fixed)
}

// finish sets the bounds, the shares and the energy of the operators of a phase. It lists the time of the host as
// one more operator, so that the times add up to that of the phase.
func (p *Predictor) finish(ops []Operator, phase *Phase) []Operator {
	p.energy(ops, phase)
	sum := p.limits(ops, phase)
	if host := phase.Expected - sum; host > sum.Times(1e-9) {
		ops = append(ops, Operator{Name: "host", Layers: 1, Kind: operator.Element, Fixed: host, Expected: host})
	}
	for i := range ops {
		o := &ops[i]
		times := roofline.Times{roofline.Matrix: o.Compute, roofline.Memory: o.Memory, roofline.Network: o.Network, roofline.Fixed: o.Fixed}
		o.Bound = times.Bound()
		o.Share = float64(o.Expected) / float64(phase.Expected)
	}
	return ops
}

// energy sets the energy of the operators. Their sum is at most what the power limit allows.
func (p *Predictor) energy(ops []Operator, phase *Phase) {
	ranks, passes := float64(p.Par.TP), float64(p.Par.MicroBatches)
	var all unit.Joules
	for i := range ops {
		o := &ops[i]
		o.Energy = p.machine.Active(&o.busy, phase.clocks).Times(ranks * passes)
		all += o.Energy
	}
	if most := (p.machine.Most() - p.machine.Waiting).For(phase.Expected).Times(ranks); all > most {
		for i := range ops {
			ops[i].Energy = ops[i].Energy.Times(float64(most) / float64(all))
		}
	}
}

// limits spreads over the operators of a micro-batch the time that the power limit costs, and that by which a step is clamped to
// the time of one of a smaller batch, and turns all into shares of the time of all micro-batches, which overlap in the pipeline. It
// returns the sum.
func (p *Predictor) limits(ops []Operator, phase *Phase) unit.Seconds {
	var sum, slower unit.Seconds
	for i := range ops {
		sum += ops[i].Expected
		slower += ops[i].slower
	}
	passes := float64(p.Par.MicroBatches)
	throttled, clamped := phase.Throttled, phase.Clamped
	if passes > 1 { // the pipeline multiplies these times as it does the rest
		throttled = sum.Times(float64(throttled) / float64(phase.Expected-throttled))
	}
	if slower == 0 {
		throttled = 0
	}
	ratio := 1.0
	if sum+throttled > 0 {
		ratio += float64(clamped / (sum + throttled))
	}
	all := (sum + throttled).Times(ratio)
	for i := range ops {
		o := &ops[i]
		if throttled > 0 {
			o.Expected += throttled.Times(float64(o.slower) / float64(slower))
			o.Compute = o.Compute.Times(phase.Clock)
			o.Fixed = o.Fixed.Times(phase.clocks.At / phase.clocks.Own)
		}
		o.Expected = o.Expected.Times(ratio)
		if passes > 1 {
			for _, t := range o.times() {
				*t = t.Times(float64(phase.Expected / all))
			}
			o.Work = o.Scale(passes)
		}
	}
	if passes > 1 {
		return phase.Expected
	}
	return all
}
