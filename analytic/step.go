package analytic

import (
	"math"
	"slices"
	"sync"

	"llmprof/analytic/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A detail is how much a walk finds out.
type detail uint8

// Each detail has all of those before it.
const (
	times     detail = iota // time and energy
	estimate                // work, floors, and what intervals follow from
	operators               // estimate, also operator by operator
)

// A walk is one pass over the kernels of a step.
type walk struct {
	Lowering
	p      *Predictor
	detail detail
	apart  bool          // the stages of a pipeline are priced apart, as those of several micro-batches and those of a server's steps
	part   partTimings   // times of the parts then
	errors []kernelError // half-widths of the kernels of the step that were priced, those of equal work together
	kind   int           // number of the kind of layer

	text     roofline.Kernel // ofText prices it
	textCost roofline.Cost   // cost of the kernel text
}

// walks keeps walks, whose slices need not grow again.
var walks = sync.Pool{New: func() any { return new(walk) }}

// A Visit sees the kernels of a part of a step and their costs.
type Visit func(l *Lowering, costs []roofline.Cost)

// Walk shows the kernels of a step, part by part.
func (p *Predictor) Walk(s *operator.Step, see Visit) {
	var all total
	p.walk(&all, s, times, see)
}

// walk lists the operators of each part of a step, all stages of the pipeline one after
// the other, lets the engine lower them to kernels, and adds what these cost to all. Every
// estimate and every report is such a walk.
func (p *Predictor) walk(all *total, s *operator.Step, d detail, see Visit) {
	w := walks.Get().(*walk)
	w.p, w.detail, w.errors, w.kind, w.part = p, d, w.errors[:0], 0, partTimings{}
	w.apart = p.Par.PP > 1 && (p.Par.MicroBatches > 1 || d == times)
	for i := range p.parts() {
		w.lower(s, i)
		w.price()
		w.add(all)
		if see != nil {
			see(&w.Lowering, w.costs)
		}
	}
	all.scatter = unit.Seconds(math.Sqrt(all.variance))
	w.host(all, s)
	walks.Put(w)
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

// lower lists the operators of part i of a step, and lets the engine lower them to kernels.
func (w *walk) lower(s *operator.Step, i int) {
	p, l := w.p, &w.Lowering
	l.GPU, l.Constants = p.machine.GPU, &p.machine.Cal.Constants
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
}

// price prices the kernels of a part.
func (w *walk) price() {
	w.costs = slices.Grow(w.costs[:0], len(w.Kernels))[:len(w.Kernels)]
	for i := range w.Kernels {
		w.p.machine.prices.Price(&w.costs[i], &w.Kernels[i].Kernel)
	}
}

// add adds the operators and the kernels of a part to the sums of the step.
func (w *walk) add(all *total) {
	for i := range w.Kernels {
		one := w.kernel(&w.Kernels[i], &w.costs[i])
		all.timing.add(&one, 1)
		if w.apart {
			w.part[w.Part].add(&one, 1)
		}
	}
	if w.detail < estimate {
		return
	}
	m := w.p.machine
	for i := range w.costs {
		m.prices.AddSlopes(&all.slopes, &w.costs[i])
	}
	for i := range w.Ops {
		o := &w.Ops[i]
		all.AddOp(o)
		o.AddFloor(&all.floor, m.Peaks(), o.Count)
		if w.apart {
			o.AddFloor(&w.part[w.Part].floor, m.Peaks(), o.Count)
		}
	}
	if w.detail == operators {
		w.kind++
		all.operators = w.charge(all.operators)
	}
}

// kernel is what one kernel adds to the times of its step.
func (w *walk) kernel(k *Kernel, c *roofline.Cost) (t timing) {
	m := w.p.machine
	t.kernels, t.bound[c.Bound] = c.Time, c.Time
	if k.Phase == "" && !k.Graphed {
		t.launches, t.calls = (k.Launches+k.Helpers)*k.Count, k.Calls*k.Count
	}
	m.Take(&t.Load, c)
	if w.detail < estimate {
		return t
	}
	scatter := m.halfWidth(k, c)
	t.variance = scatter * (scatter + 2*w.sharedError(&k.Kernel, scatter))
	t.imbalance = w.less(k, c)
	off := m.unmeasured(k, c)
	t.unmeasured.low, t.unmeasured.high = c.Time.Times(off.low), c.Time.Times(off.high)
	return t
}

// host adds the time of the host to that of the kernels of a step, and works out the stages of a pipeline.
func (w *walk) host(t *total, s *operator.Step) {
	p, slopes := w.p, &t.slopes
	if w.detail < estimate {
		slopes = nil
	}
	p.launch(&t.timing, slopes, s)
	after := p.afterStep(s)
	t.exposed = after.sum()
	if w.apart {
		t.stages(&w.part, p.Par.PP, p.layers)
		for i := range t.stage[:t.numStages] {
			p.launch(&t.stage[i], nil, s)
		}
		t.stage[len(t.stage)-1].waitsForHost(after, nil)
	}
	t.waitsForHost(after, slopes)
}

// step prices a step. A decode step of a batch beyond a switch of kernels takes no less than
// one of the largest batch before the switch.
func (p *Predictor) step(t *total, s *operator.Step, d detail) {
	p.walk(t, s, d, nil)
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
		p.walk(&u, &small, min(d, estimate), nil)
		if u.Expected > t.Expected {
			t.slopes = u.slopes
		}
		t.clamp(&u.timing)
		for i := range t.stage[:t.numStages] {
			t.stage[i].clamp(&u.stage[i])
		}
	}
}

// clamp lifts the time of a part of the step to that with a smaller batch, at a switch.
func (t *timing) clamp(small *timing) {
	if more := small.Expected - t.Expected; more > 0 {
		t.Expected, t.clamped = small.Expected, t.clamped+more
		t.bound[roofline.ByMemory] += more
	}
}
