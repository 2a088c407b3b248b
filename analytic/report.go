package analytic

import (
	"math/bits"

	"llmprof/roofline"
	"llmprof/unit"
)

// A Report is an Estimate with the operators it is the sum of, and what a reader
// has to know before trusting it.
type Report struct {
	Estimate
	PrefillOps []Line  // of the whole prompt
	DecodeOps  []Line  // of one step at the mean context
	Context    float64 // that mean context, the new token included
	Count      FLOPCount
	Warnings   []string
}

// A Line is one operator over all its occurrences in a phase, on one rank of the
// tensor-parallel group, through all stages of the pipeline.
type Line struct {
	Name   string
	Layer  string // the kind of layer, "" for what the model has once
	Layers float64
	Kind   Kind
	In     string      // the operator within whose kernel it is done, "" for a kernel of its own
	Format unit.Format // that its products run in, NoFormat if it has none

	roofline.Work            // Wire is all that is sent, within the node and beyond
	Bound                    roofline.Bound
	Floor, Expected          unit.Seconds
	Compute, Memory, Network unit.Seconds // expected, overlapping
	Fixed                    unit.Seconds
	Share                    float64     // of the phase's expected time
	Energy                   unit.Joules // of all ranks of the replica, what they draw while they wait left out

	slower unit.Seconds // by how much more it takes where products are held at the power limit
	draw   draw
}

// FLOPCount says how FLOPs were counted and how far the count is to be trusted.
type FLOPCount struct {
	Method     string
	Confidence string // "high", "medium" or "low"
	Reason     string
}

// Explain answers the case operator by operator.
func Explain(c *Case) (Report, error) {
	p, err := NewPredictor(c)
	if err != nil {
		return Report{}, err
	}
	e, err := p.Predict(&c.Workload)
	if err != nil {
		return Report{}, err
	}
	st := p.template()
	st.Batch, st.Cache = float64(c.Workload.Batch)/float64(p.par.MicroBatches), float64(c.Workload.context())
	r := Report{Estimate: e, Count: c.countFLOPs()}
	r.PrefillOps = c.finish(c.prefillLines(p, st), &e.Prefill)
	if e.Tokens > 0 {
		one := st
		one.Past = float64(c.Workload.Prompt) + float64(e.Tokens-1)/2
		r.Context = one.Past + 1
		r.DecodeOps = c.finish(c.lines(p, nil, &one, 1), &e.Decode)
	}
	r.Warnings = c.warnings(&p.par, &e)
	return r, nil
}

// maxChunks is how many prefill steps are listed one by one; more are sampled.
const maxChunks = 64

// prefillLines sums the operators over the chunks of the prompt.
func (c *Case) prefillLines(p *Predictor, st Step) []Line {
	w := &c.Workload
	fresh, chunk := w.Prompt-w.CachedPrefix, w.chunk()
	whole := (fresh - 1) / chunk
	st.New, st.Past = float64(chunk), float64(w.CachedPrefix)
	st.Logits = 0
	if w.AllLogits {
		st.Logits = st.New
	}
	var sum []Line
	samples := min(whole, maxChunks)
	for i := range samples {
		// The middle of each of the samples' equal parts of the run.
		at := (float64(i)+0.5)*float64(whole)/float64(samples) - 0.5
		step := st
		step.Past += st.New * at
		sum = c.lines(p, sum, &step, float64(whole)/float64(samples))
	}
	last := st
	last.Past = float64(w.CachedPrefix + whole*chunk)
	last.New = float64(fresh - whole*chunk)
	last.Logits = 1
	if w.AllLogits {
		last.Logits = last.New
	}
	return c.lines(p, sum, &last, 1)
}

// lines adds times times the operators of a step to those of sum.
func (c *Case) lines(p *Predictor, sum []Line, st *Step, times float64) []Line {
	p.walk(st, func(l *Lowering, costs []roofline.Cost) {
		for i := range l.Ops {
			sum = c.work(sum, &l.Ops[i], times)
		}
		for i := range l.Kernels {
			c.charge(sum, l, &l.Kernels[i], &costs[i], times)
		}
	})
	return sum
}

// work adds what an operator does to its line.
func (c *Case) work(sum []Line, o *Op, times float64) []Line {
	sum, l := lineOf(sum, o)
	l.Layers = max(l.Layers, o.Count)
	if o.Work.FLOPs > 0 {
		l.Format, _ = c.Machine.Runs(o.Format)
	}
	l.Add(&o.Work, o.Count*times)
	l.Wire, l.NodeWire = l.Wire+l.NodeWire, 0
	f := c.Machine.prices.Peaks.FloorOf(&o.Work, o.Format, o.Shape.Ranks, o.Count*times)
	l.Floor += f.Time()
	return sum
}

// busy is how long an operator of a kernel keeps each resource busy at the peaks. The
// activations of the operator that the kernel is named after go through memory; those
// of the others stay on the chip.
func (c *Case) busy(o *Op, main bool) roofline.Floor {
	peaks := &c.Machine.prices.Peaks
	f := peaks.FloorOf(&o.Work, o.Format, o.Shape.Ranks, 1)
	if main {
		f.Memory = o.Work.Traffic().Over(peaks.Memory)
	}
	return f
}

// charge shares what a kernel takes among the operators that it does: each resource by
// how long they keep it busy at the peaks, and what is fixed to the operator that the
// kernel is named after.
func (c *Case) charge(sum []Line, l *Lowering, k *Kernel, cost *roofline.Cost, times float64) {
	var whole roofline.Floor
	for set := k.Ops; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		f := c.busy(&l.Ops[i], i == k.Main)
		whole.Add(&f, 1)
	}
	busy := cost.Time - cost.Times[roofline.Fixed]
	slower := cost.Slower(c.Machine.throttle) - cost.Time
	for set := k.Ops; set != 0; set &= set - 1 {
		i := bits.TrailingZeros64(set)
		o := &l.Ops[i]
		_, line := lineOf(sum, o)
		main := i == k.Main
		f := c.busy(o, main)
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
		d := c.Machine.drawOf(cost)
		line.draw.add(d, memory*times)
		if main {
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

// share is the part of a whole; where there is none, the kernel's main operator has it.
func share(part, whole unit.Seconds, main bool) float64 {
	switch {
	case whole > 0:
		return float64(part / whole)
	case main:
		return 1
	}
	return 0
}

// lineOf returns the line of o, a new one at the end if there is none. An operator
// that a layer has twice, as its norms, is one line.
func lineOf(sum []Line, o *Op) ([]Line, *Line) {
	for i := range sum {
		if l := &sum[i]; l.Name == o.Name && l.Layer == o.Layer {
			return sum, l
		}
	}
	sum = append(sum, Line{Name: o.Name, Layer: o.Layer, Kind: o.Type.Kind()})
	return sum, &sum[len(sum)-1]
}

// finish gives the lines their bounds and shares, and the time that is no
// operator's a line of its own, so that the lines add up to the phase.
func (c *Case) finish(lines []Line, p *Phase) []Line {
	c.energy(lines, p)
	var sum unit.Seconds
	for i := range lines {
		sum += lines[i].Expected
	}
	c.throttle(lines, &sum, p)
	c.raise(lines, &sum, p)
	c.scale(lines, &sum, p)
	host := p.Expected - sum
	if host > sum.Times(1e-9) {
		lines = append(lines, Line{Name: "host", Layers: 1, Kind: Element, Fixed: host, Expected: host})
	}
	for i := range lines {
		l := &lines[i]
		times := roofline.Times{roofline.Matrix: l.Compute, roofline.Memory: l.Memory, roofline.Network: l.Network, roofline.Fixed: l.Fixed}
		l.Bound = times.Bound()
		l.Share = float64(l.Expected) / float64(p.Expected)
	}
	return lines
}

// raise spreads over the lines what the phase takes more for kernels that are no faster
// than those of a smaller batch.
func (c *Case) raise(lines []Line, sum *unit.Seconds, p *Phase) {
	if p.raised == 0 || *sum == 0 {
		return
	}
	ratio := 1 + float64(p.raised / *sum)
	for i := range lines {
		lines[i].Expected = lines[i].Expected.Times(ratio)
	}
	*sum += p.raised
}

// energy gives the lines their energy, all of them together no more than the power
// limit allows.
func (c *Case) energy(lines []Line, p *Phase) {
	ranks, passes := float64(max(c.Parallel.TP, 1)), float64(max(c.Parallel.MicroBatches, 1))
	var all unit.Joules
	for i := range lines {
		l := &lines[i]
		l.Energy = c.Machine.active(l.Compute, l.draw, l.Network, l.Fixed, p.Clock).Times(ranks * passes)
		all += l.Energy
	}
	if most := c.Machine.rest.For(p.Expected).Times(ranks); all > most {
		for i := range lines {
			lines[i].Energy = lines[i].Energy.Times(float64(most) / float64(all))
		}
	}
}

// throttle gives the lines their parts of the time that the power limit costs.
func (c *Case) throttle(lines []Line, sum *unit.Seconds, p *Phase) {
	var slower unit.Seconds
	for i := range lines {
		slower += lines[i].slower
	}
	if p.Throttled == 0 || slower == 0 {
		return
	}
	more := p.Throttled
	if c.Parallel.MicroBatches > 1 { // which the pipeline multiplies as it does the rest
		more = sum.Times(float64(p.Throttled) / float64(p.Expected-p.Throttled))
	}
	for i := range lines {
		l := &lines[i]
		l.Expected += more.Times(float64(l.slower) / float64(slower))
		l.Compute = l.Compute.Times(p.Clock)
	}
	*sum += more
}

// scale makes the lines of one micro-batch share the time of all of them, which
// overlap in the pipeline.
func (c *Case) scale(lines []Line, sum *unit.Seconds, p *Phase) {
	m := float64(max(c.Parallel.MicroBatches, 1))
	if m == 1 {
		return
	}
	ratio := float64(p.Expected) / float64(*sum)
	for i := range lines {
		l := &lines[i]
		for _, t := range []*unit.Seconds{&l.Floor, &l.Expected, &l.Compute, &l.Memory, &l.Network, &l.Fixed} {
			*t = t.Times(ratio)
		}
		l.Work = l.Scale(m)
	}
	*sum = p.Expected
}

// countFLOPs says how far the count of FLOPs can be trusted for the model.
func (c *Case) countFLOPs() FLOPCount {
	f := FLOPCount{
		Method:     "analytic: 2·m·n·k of every matrix product, the causal half of attention, experts taken; element-wise operations counted apart",
		Confidence: "high", Reason: "every product is a matrix of the model's own shape",
	}
	for i := range c.Model.Layers {
		for j := range c.Model.Layers[i].Blocks {
			b := &c.Model.Layers[i].Blocks[j]
			switch {
			case b.Scan != nil:
				f.Confidence, f.Reason = "medium", "scans: their FLOPs depend on the kernel's chunk length and algorithm"
				return f
			case b.Experts != nil && b.Experts.Idle > 0:
				f.Confidence, f.Reason = "medium", "experts that do nothing are taken as chosen at random"
			case b.Attention != nil && b.Attention.Indexer != nil:
				f.Confidence, f.Reason = "medium", "sparse attention: the indexer's kernels differ between engines"
			}
		}
	}
	return f
}
