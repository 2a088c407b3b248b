package analytic

import "llmprof/unit"

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

	FLOPs, Vector            unit.FLOPs
	Weights, KV, State, Acts unit.Bytes
	Wire                     unit.Bytes
	Bound                    Bound
	Floor, Expected          unit.Seconds
	Compute, Memory, Network unit.Seconds // expected, overlapping
	Fixed                    unit.Seconds
	Share                    float64     // of the phase's expected time
	Energy                   unit.Joules // of all ranks of the replica, what they draw while they wait left out

	slower unit.Seconds // by how much more it takes where products are held at the power limit
	draw   draw
}

// Traffic is all that moves between memory and the chip.
func (l *Line) Traffic() unit.Bytes { return l.Weights + l.KV + l.State + l.Acts }

// Intensity is the matrix FLOPs for each byte of memory traffic.
func (l *Line) Intensity() float64 { return l.FLOPs.Per(l.Traffic()) }

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
	r.PrefillOps = c.finish(c.prefillLines(st), &e.Prefill)
	if e.Tokens > 0 {
		one := st
		one.Past = float64(c.Workload.Prompt) + float64(e.Tokens-1)/2
		r.Context = one.Past + 1
		r.DecodeOps = c.finish(c.lines(nil, &one, 1), &e.Decode)
	}
	r.Warnings = c.warnings(&p.par, &e)
	return r, nil
}

// maxChunks is how many prefill steps are listed one by one; more are sampled.
const maxChunks = 64

// prefillLines sums the operators over the chunks of the prompt.
func (c *Case) prefillLines(st Step) []Line {
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
		sum = c.lines(sum, &step, float64(whole)/float64(samples))
	}
	last := st
	last.Past = float64(w.CachedPrefix + whole*chunk)
	last.New = float64(fresh - whole*chunk)
	last.Logits = 1
	if w.AllLogits {
		last.Logits = last.New
	}
	return c.lines(sum, &last, 1)
}

// lines adds times times the operators of a step to those of sum.
func (c *Case) lines(sum []Line, st *Step, times float64) []Line {
	ops := st.AppendOps(make([]Op, 0, 32), c.Model)
	if sum == nil {
		sum = make([]Line, 0, len(ops)+1)
	}
	on := c.Machine.Engine.carries(st)
	for i := range ops {
		o := &ops[i]
		cost := c.Machine.within(o, on)
		l := find(&sum, o)
		if on.rides(o) {
			l.In = on.carrier(ops, i)
		}
		n := o.Layers * times
		l.Layers = max(l.Layers, o.Layers)
		if o.FLOPs > 0 {
			l.Format, _ = c.Machine.Runs(o.Format)
		}
		l.FLOPs += o.FLOPs.Times(n)
		l.Vector += o.Vector.Times(n)
		l.Weights += o.Weights.Times(n)
		l.KV += o.KV.Times(n)
		l.State += o.State.Times(n)
		l.Acts += o.Acts.Times(n)
		l.Wire += (o.Wire + o.NodeWire).Times(n)
		l.Floor += cost.Floor.time().Times(times)
		l.Expected += cost.Time().Times(times)
		l.Compute += cost.Compute.Times(times)
		l.Memory += cost.Memory.Times(times)
		l.draw.add(cost.Draw, times)
		l.Network += cost.Network.Times(times)
		l.Fixed += cost.Fixed.Times(times)
		l.slower += max(cost.Compute.Times(c.Machine.held)-max(cost.Compute, cost.Memory, cost.Network), 0).Times(times)
	}
	return sum
}

// find returns the line of o, a new one at the end if there is none. An operator
// that a layer has twice, as its norms, is one line.
func find(sum *[]Line, o *Op) *Line {
	for i := range *sum {
		if l := &(*sum)[i]; l.Name == o.Name && l.Layer == o.Layer {
			return l
		}
	}
	*sum = append(*sum, Line{Name: o.Name, Layer: o.Layer, Kind: o.Kind})
	return &(*sum)[len(*sum)-1]
}

// finish gives the lines their bounds and shares, and the time that is no
// operator's a line of its own, so that the lines add up to the phase.
func (c *Case) finish(lines []Line, p *Phase) []Line {
	c.charge(lines, p)
	var sum unit.Seconds
	for i := range lines {
		sum += lines[i].Expected
	}
	c.hold(lines, &sum, p)
	c.scale(lines, &sum, p)
	host := p.Expected - sum
	if host > sum.Times(1e-9) {
		lines = append(lines, Line{Name: "host", Layers: 1, Kind: Element, Fixed: host, Expected: host})
	}
	for i := range lines {
		l := &lines[i]
		cost := Cost{Compute: l.Compute, Memory: l.Memory, Network: l.Network, Fixed: l.Fixed}
		l.Bound = cost.Bound()
		l.Share = float64(l.Expected) / float64(p.Expected)
	}
	return lines
}

// charge gives the lines their energy, all of them together no more than the power
// limit allows.
func (c *Case) charge(lines []Line, p *Phase) {
	ranks, passes := float64(max(c.Parallel.TP, 1)), float64(max(c.Parallel.MicroBatches, 1))
	var all unit.Joules
	for i := range lines {
		l := &lines[i]
		l.Energy = c.Machine.active(l.Compute, l.draw, l.Network, l.Fixed, p.Slowed).Times(ranks * passes)
		all += l.Energy
	}
	if most := c.Machine.rest.For(p.Expected).Times(ranks); all > most {
		for i := range lines {
			lines[i].Energy = lines[i].Energy.Times(float64(most) / float64(all))
		}
	}
}

// hold gives the lines their parts of the time that the power limit costs.
func (c *Case) hold(lines []Line, sum *unit.Seconds, p *Phase) {
	var slower unit.Seconds
	for i := range lines {
		slower += lines[i].slower
	}
	if p.Held == 0 || slower == 0 {
		return
	}
	held := p.Held
	if c.Parallel.MicroBatches > 1 { // which the pipeline multiplies as it does the rest
		held = sum.Times(float64(p.Held) / float64(p.Expected-p.Held))
	}
	for i := range lines {
		l := &lines[i]
		l.Expected += held.Times(float64(l.slower) / float64(slower))
		l.Compute = l.Compute.Times(p.Slowed)
	}
	*sum += held
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
		for _, b := range []*unit.Bytes{&l.Weights, &l.KV, &l.State, &l.Acts, &l.Wire} {
			*b = b.Times(m)
		}
		l.FLOPs, l.Vector = l.FLOPs.Times(m), l.Vector.Times(m)
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
