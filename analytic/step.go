package analytic

import (
	"math"
	"slices"
	"sync"

	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// lowerings keeps Lowerings, whose slices need not grow again.
var lowerings = sync.Pool{New: func() any { return new(Lowering) }}

// walk lists the operators of each part of a step, all stages of the pipeline one after
// the other, lets the engine lower them to kernels, and adds what these cost to all. Every
// estimate and every report is such a walk.
func (p *Predictor) walk(all *partSums, s *operator.Step, see Visit) {
	l := lowerings.Get().(*Lowering)
	l.errors = l.errors[:0]
	for i := range p.parts() {
		p.lower(l, s, i)
		p.add(all, l, see)
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

// lower lists the operators of part i of a step, and prices the kernels that the engine lowers them to.
func (p *Predictor) lower(l *Lowering, s *operator.Step, i int) {
	l.GPU, l.Constants, l.bare, l.place = p.machine.GPU, &p.machine.Cal.Constants, p.bare, i
	l.step = *s
	l.Step, l.Part = &l.step, operator.PartLayers
	switch {
	case i == 0:
		l.Part, l.Ops = operator.PartFirst, s.AppendFirst(l.Ops[:0])
	case i <= len(p.Model.Layers):
		l.Ops = s.AppendLayer(l.Ops[:0], &p.Model.Layers[i-1])
	case i < p.parts()-1:
		l.Ops = s.AppendHops(l.Ops[:0])
	default:
		l.Part, l.Ops = operator.PartLast, s.AppendLast(l.Ops[:0])
	}
	l.Kernels = slices.Grow(l.Kernels[:0], len(l.Ops))
	p.machine.Engine.Lower(l)
	l.correctOps()
	l.price(p.machine)
}

// price prices the kernels of a part.
func (l *Lowering) price(m *Machine) {
	more := max(len(l.Kernels)-len(l.costs), 0)
	l.costs, l.each = slices.Grow(l.costs, more)[:len(l.Kernels)], slices.Grow(l.each, more)[:len(l.Kernels)]
	for i := range l.Kernels {
		k, c, a := &l.Kernels[i], &l.costs[i], &l.each[i]
		m.prices.Price(c, &k.Kernel)
		if a.set(k, c, m); !l.bare {
			off := m.halfWidth(k, c)
			a.variance, a.uneven = off*(off+2*l.sharedError(&k.Kernel, off)), l.less(k, c, m)
		}
	}
}

// A kernelError is the half-widths of the times of kernels of equal work, which add up.
type kernelError struct {
	class  roofline.Class
	scheme roofline.Scheme
	shape  roofline.Shape
	work   roofline.Work
	off    float64
}

// sharedError is the half-widths of the kernels of the step before k whose work is equal to that of k, as that of both
// all-reduces of a layer is. Their errors are equal too, and so add up before they are squared.
func (l *Lowering) sharedError(k *roofline.Kernel, off float64) (before float64) {
	for i := range l.errors {
		if e := &l.errors[i]; e.class == k.Class && e.scheme == k.Scheme && e.shape == k.Shape && e.work == k.Work {
			before, e.off = e.off, e.off+off
			return before
		}
	}
	l.errors = append(l.errors, kernelError{k.Class, k.Scheme, k.Shape, k.Work, off})
	return 0
}

// evaluate prices a step, which may be remembered, on a side of an engine's switch.
func (p *Predictor) evaluate(t *total, s *operator.Step, switched bool) {
	if p.steps != nil {
		p.time(t, p.own(p.steps.find(s, switched)), s)
		return
	}
	var parts partSums
	p.walk(&parts, s, nil)
	from, to := p.asked()
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
