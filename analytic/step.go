package analytic

import (
	"math"
	"slices"
	"sync"

	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// lowerings keeps Lowerings, whose slices need not grow again.
var lowerings = sync.Pool{New: func() any { return new(Lowering) }}

// walk lists the operators of each part of a step, all stages of the pipeline one after
// the other, lets the engine lower them to kernels, and adds what these cost to k. Every
// estimate and every report is such a walk.
func (p *Predictor) walk(k *kernelSums, s *operator.Step, see Visit) {
	if cached := p.cached(s); cached != nil {
		cached.walk(p, k, s)
		return
	}
	l := lowerings.Get().(*Lowering)
	l.on = nil
	at := l
	for i := range p.parts() {
		if p.cache != nil && p.cache.bare == p.bare && !p.twin(i) {
			at = p.cache.part(p, i)
		}
		p.lower(at, s, i)
		p.add(k, at, see)
	}
	lowerings.Put(l)
}

// parts is the number of parts of a step. One part precedes the layers, each kind of layers is one,
// the hops of a pipeline are one, and one follows the layers.
func (p *Predictor) parts() int {
	n := len(p.Model.Layers) + 2
	if p.Par.PP > 1 {
		n++
	}
	return n
}

// twin reports whether part i of a step is of layers that differ from those of the part before in the windows alone.
func (p *Predictor) twin(i int) bool { return i > 0 && i <= len(p.twins) && p.twins[i-1] }

// lower lists the operators of part i of a step, and prices the kernels that the engine lowers them to. The part before it, of the same step, is in l.
// Layers that differ from those of that part in the windows alone have its kernels.
func (p *Predictor) lower(l *Lowering, s *operator.Step, i int) {
	l.GPU, l.Constants, l.bare, l.place = p.machine.GPU, &p.machine.Cal.Constants, p.bare, i
	l.step = *s
	l.Step, l.Part = &l.step, operator.PartLayers
	if p.twin(i) && l.copiesAttention(false) {
		l.twin()
		l.reattend(&p.Model.Layers[i-1], p.machine)
		return
	}
	l.layer = nil
	switch {
	case i == 0:
		l.Part, l.Ops = operator.PartFirst, s.AppendFirst(l.Ops[:0])
	case i <= len(p.Model.Layers):
		l.layer = &p.Model.Layers[i-1]
		l.Ops = s.AppendLayer(l.Ops[:0], l.layer)
	case i < p.parts()-1:
		l.Ops = s.AppendHops(l.Ops[:0])
	default:
		l.Part, l.Ops = operator.PartLast, s.AppendLast(l.Ops[:0])
	}
	l.before, l.Kernels = l.Kernels, slices.Grow(l.before[:0], len(l.Ops))
	p.machine.Engine.Lower(l)
	l.correctOps()
	l.priceAll(p.machine)
}

// priceAll prices all kernels. One that is equal to the kernel in its place before keeps its cost.
func (l *Lowering) priceAll(m *Machine) {
	more := max(len(l.Kernels)-len(l.costs), 0)
	l.costs, l.each = slices.Grow(l.costs, more)[:len(l.Kernels)], slices.Grow(l.each, more)[:len(l.Kernels)]
	l.changed = 0
	for i := range l.Kernels {
		k := &l.Kernels[i]
		k.at = i
		if l.on == m && i < len(l.before) {
			before := &l.before[i]
			k.off, k.alike, k.twins, k.uneven = before.off, before.alike, before.twins, before.uneven
			equal := *k == *before
			if k.twins = 0; equal {
				l.scatter(i, m)
				continue
			}
		}
		l.changed |= 1 << i
		l.price(i, m)
	}
	l.on = m
}

// price prices kernel i, after those before it.
func (l *Lowering) price(i int, m *Machine) {
	k, c := &l.Kernels[i], &l.costs[i]
	m.prices.Price(c, &k.Kernel)
	l.each[i].set(k, c, m)
	if k.off, k.alike, k.uneven = 0, 0, 0; !l.bare {
		k.uneven = l.less(k, c, m)
		l.scatter(i, m)
	}
}

// scatter works out by how much kernel i may be off, and with which others it is.
func (l *Lowering) scatter(i int, m *Machine) {
	k := &l.Kernels[i]
	if l.bare {
		return
	}
	if k.off = m.halfWidth(k, &l.costs[i]); k.off != 0 {
		k.alike = k.twins + k.off*float64(l.equal(i, l.Kernels[:i]))
	}
}

// at is the place of a kernel in a step.
func (l *Lowering) at(k *Kernel) int { return l.place<<6 | k.at }

// equal counts the kernels of some of the part whose work is equal to that of kernel i, as that of both all-reduces of a
// layer is: their errors are equal too, and so add up before they are squared.
func (l *Lowering) equal(i int, some []Kernel) (n int) {
	k := &l.Kernels[i].Kernel
	for j := range some {
		if o := &some[j].Kernel; o.Class == k.Class && o.Count == k.Count && o.Scheme == k.Scheme && o.Work == k.Work && o.Shape == k.Shape {
			n++
		}
	}
	return n
}

// evaluate prices a step, which may be remembered, on a side of an engine's switch.
func (p *Predictor) evaluate(t *total, s *operator.Step, switched bool) {
	if p.steps != nil {
		p.time(t, p.own(p.steps.find(s, switched)), s)
		return
	}
	var k kernelSums
	var parts partSums
	p.walk(&k, s, nil)
	from, to := p.asked()
	k.total(p, parts[from:to])
	p.time(t, parts[from:to], s)
}

// time sums the times of the kernels of a step, and adds those of the host.
func (p *Predictor) time(t *total, parts []sums, s *operator.Step) {
	first := &parts[0]
	t.Sum, t.timing, t.constants = first.Sum, first.timing, first.constants
	piece := first.piece + first.shifted(&t.timing, p.shifted)
	for i := range parts[1:] {
		piece += t.takes(&parts[1+i], p.shifted)
	}
	t.Piece.Mark(piece)
	if s.Decode() { // a prompt of chunks of one token has both kinds of steps
		t.Piece.Mark(1)
	}
	t.scatter = unit.Seconds(math.Sqrt(t.variance))
	p.launch(t, &t.timing, s)
	host := p.machine.seconds(roofline.HostStep)
	if p.machine.Engine.Profile().Blocking {
		host += p.machine.seconds(roofline.HostSequence).Times(s.Batch)
	}
	t.exposed = host
	if len(parts) > 1 {
		all := p.timings(parts)
		t.stages(&all, p.Par.PP, p.layers)
		for i := range t.stage[:t.numStages] {
			p.launch(t, &t.stage[i], s)
		}
		t.stage[len(t.stage)-1].waitsForHost(host)
	}
	t.waitsForHost(host)
}

// timings is the times of the parts of a step.
func (p *Predictor) timings(parts []sums) (all [operator.PartLast + 1]timing) {
	for i := range parts {
		all[i] = parts[i].timing
		parts[i].shifted(&all[i], p.shifted)
	}
	return all
}

// step prices a step. A decode step of a batch beyond a switch of kernels takes no less than
// one of the largest batch before the switch.
func (p *Predictor) step(t *total, s *operator.Step) {
	p.evaluate(t, s, false)
	if !s.Decode() {
		return
	}
	for _, limit := range p.machine.Engine.Profile().Switches {
		if limit >= s.Batch {
			continue
		}
		small := *s
		small.Batch = limit
		var u total
		p.evaluate(&u, &small, true)
		t.constants |= u.constants
		t.raise(&t.timing, &u.timing, limit)
		for i := range t.stage[:t.numStages] {
			t.raise(&t.stage[i], &u.stage[i], limit)
		}
	}
}

// raise lifts the time of a part of the step to that with a smaller batch, at a switch.
func (t *total) raise(part, small *timing, limit float64) {
	if more := small.Expected - part.Expected; more > 0 {
		part.Expected, part.raised = small.Expected, part.raised+more
		part.bound[roofline.ByMemory] += more
		t.Piece.Mark(uint64(limit))
	}
}
