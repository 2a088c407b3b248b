package analytic

import (
	"math"
	"slices"
	"sync"

	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A kernelSums is the sums over the kernels of a step, by part.
type kernelSums struct {
	operator.Sum
	parts     [operator.PartLast + 1]timing
	constants roofline.Set // constants that the kernels depend on
	n         int          // number of kernels
	piece     uint64       // sum of the addends of their choices
}

// lowerings keeps Lowerings, whose slices need not grow again.
var lowerings = sync.Pool{New: func() any { return new(Lowering) }}

// walk lists the operators of each part of a step, all stages of the pipeline one after
// the other, lets the engine lower them to kernels, and adds what these cost to k. Every
// estimate and every report is such a walk.
func (p *Predictor) walk(k *kernelSums, s *operator.Step, see Visit) {
	if r := p.servedStep(s); r != nil {
		p.served.walk(p, k, s, r)
		return
	}
	if kept := p.keeper(s); kept != nil {
		kept.walk(p, k, s, see)
		return
	}
	l := lowerings.Get().(*Lowering)
	for i := range p.parts() {
		p.lower(l, s, i, l)
		p.add(k, l, see)
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

// lower lists the operators of part i of a step, and prices the kernels that the engine lowers them to. The part before is of the same step; layers that
// differ from its layers in the windows alone have its kernels.
func (p *Predictor) lower(l *Lowering, s *operator.Step, i int, before *Lowering) {
	l.GPU, l.Constants, l.bare = p.machine.GPU, &p.machine.Cal.Constants, p.bare
	l.step = *s
	l.Step, l.Part = &l.step, operator.PartLayers
	if i > 0 && i <= len(p.twins) && p.twins[i-1] && before.copiesAttention(false) {
		l.turn(before, &p.Model.Layers[i-1], p.machine)
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
	l.Kernels = slices.Grow(l.Kernels[:0], len(l.Ops))
	p.machine.Engine.Lower(l)
	l.correctOps()
	l.costs = slices.Grow(l.costs[:0], len(l.Kernels))[:len(l.Kernels)]
	for i := range l.Kernels {
		l.price(i, p.machine)
	}
}

// price prices kernel i, after those before it.
func (l *Lowering) price(i int, m *Machine) {
	k, c := &l.Kernels[i], &l.costs[i]
	m.prices.Price(c, &k.Kernel)
	if k.off, k.alike, k.uneven = 0, 0, 0; l.bare {
		return
	}
	k.uneven = l.ofText(k, c, m)
	if k.off = m.halfWidth(k, c); k.off != 0 {
		k.alike = k.twins + k.off*float64(l.equal(i, l.Kernels[:i]))
	}
}

// add counts the operators of a part of a step, and what their kernels cost.
func (p *Predictor) add(t *kernelSums, l *Lowering, see Visit) {
	sum := &t.parts[l.Part]
	if !p.bare {
		t.AddOps(l.Ops, l.Step.Past)
		sum.floors(l.Ops, &p.machine.prices.Peaks)
	}
	for i := range l.Kernels {
		k, c := &l.Kernels[i], &l.costs[i]
		t.piece += pieceOf(t.n, sum.takes(k, c, p.machine))
		sum.variance += k.off * (k.off + 2*k.alike)
		sum.uneven += k.uneven
		if !p.machine.Cal.Fitted[c.Leads] {
			sum.unfitted += c.Time
		}
		t.constants |= c.Constants
		t.n++
	}
	if see != nil {
		see(l, l.costs)
	}
}

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

// evaluate prices a step, unless it is a prefill that is remembered.
func (p *Predictor) evaluate(t *total, s *operator.Step) {
	if p.prefilled == nil || s.Decode() {
		p.kernels(t, s)
		return
	}
	u, priced := p.prefilled.find(s)
	if !priced {
		p.kernels(u, s)
	}
	*t = *u
}

// kernels prices a step by its kernels, which may be remembered.
func (p *Predictor) kernels(t *total, s *operator.Step) {
	known := p.known.find(s)
	if known == nil {
		p.lowered(t, s)
		return
	}
	k := known.sum
	if p.changed != 0 {
		p.reprice(&k, known)
	}
	p.time(t, &k, s)
}

// lowered prices a step by its kernels.
func (p *Predictor) lowered(t *total, s *operator.Step) {
	var k kernelSums
	p.walk(&k, s, nil)
	p.time(t, &k, s)
}

// time sums the times of the kernels of a step, and adds those of the host.
func (p *Predictor) time(t *total, k *kernelSums, s *operator.Step) {
	t.Sum, t.constants = k.Sum, k.constants
	t.Piece.Mark(k.piece)
	if s.Decode() { // a prompt of chunks of one token has both kinds of steps
		t.Piece.Mark(1)
	}
	for i := range k.parts {
		t.timing.add(&k.parts[i], 1)
	}
	t.scatter = unit.Seconds(math.Sqrt(t.variance))
	p.launch(t, &t.timing, s)
	host := p.machine.seconds(roofline.HostStep)
	if p.machine.Engine.Profile().Blocking {
		host += p.machine.seconds(roofline.HostSequence).Times(s.Batch)
		t.exposed = host
	}
	if p.Par.MicroBatches > 1 {
		t.stages(&k.parts, p.Par.PP, p.layers)
		for i := range t.stage {
			p.launch(t, &t.stage[i], s)
		}
		t.stage[len(t.stage)-1].waitsForHost(host)
	}
	t.waitsForHost(host)
}

// step prices a step. A decode step of a batch beyond a switch of kernels takes no less than
// one of the largest batch before the switch.
func (p *Predictor) step(t *total, s *operator.Step) {
	p.evaluate(t, s)
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
		p.evaluate(&u, &small)
		t.constants |= u.constants
		t.raise(&t.timing, &u.timing, limit)
		for i := range t.stage {
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

// launch lifts the time of a stage to the time of the host, if that is longer than the time of
// the kernels. A kernel outside a CUDA graph begins later than one within, even if the host is
// ahead of the GPU.
func (p *Predictor) launch(t *total, stage *timing, s *operator.Step) {
	m := p.machine
	stage.least = stage.floor.Time()
	t.Piece.Mark(stage.floor.Slowest())
	stage.host = p.host(stage, s)
	if stage.host > stage.Expected {
		stage.bound = [roofline.NumBounds]unit.Seconds{roofline.ByLaunch: stage.host}
		t.Piece.Mark(1 | stage.hide(stage.host-stage.Expected))
		stage.Expected = stage.host
	}
	if !s.Decode() || !m.Engine.Profile().Graph {
		stage.waitsForHost(m.seconds(roofline.StreamNode).Times(stage.launches))
	}
}

// host is the time of the host for a step while the GPU works: launches and, with
// asynchronous scheduling, the other work for a decode step. The GPU cannot hide that other
// work for the first step of a prompt.
func (p *Predictor) host(t *timing, s *operator.Step) unit.Seconds {
	m := p.machine
	eager := m.seconds(roofline.HostLaunch).Times(t.launches) + m.seconds(roofline.HostDispatch).Times(t.calls)
	if !s.Decode() {
		return eager
	}
	if m.Engine.Profile().Graph {
		return p.async(s)
	}
	return p.async(s) + eager
}

// async is the time of the host for a step besides launches, with asynchronous scheduling.
func (p *Predictor) async(s *operator.Step) unit.Seconds {
	if p.machine.Engine.Profile().Blocking {
		return 0
	}
	return p.machine.seconds(roofline.HostAsync) + p.between(s)
}

// between is the time of the host between two steps of which the second has prompts, with asynchronous scheduling: the host
// schedules, and gives out the tokens of the first. Beside it such a step takes the host no longer than its launches do
// (experiments/vllm/between.py).
func (p *Predictor) between(s *operator.Step) unit.Seconds {
	if p.machine.Engine.Profile().Blocking {
		return 0
	}
	return p.machine.seconds(roofline.HostSequence).Times(s.Batch)
}

// waitsForHost adds time of the host that the GPU does not hide.
func (t *timing) waitsForHost(host unit.Seconds) {
	t.Expected += host
	t.bound[roofline.ByLaunch] += host
}

// hide takes from the cost of slower arithmetic the time that the GPU waits for launches, which
// hides that much of it. The result identifies the linear piece.
func (t *timing) hide(wait unit.Seconds) (what uint64) {
	if wait >= t.Slower {
		what |= 2
	}
	if wait >= t.Slowest {
		what |= 4
	}
	t.Slower, t.Slowest = max(t.Slower-wait, 0), max(t.Slowest-wait, 0)
	return what
}
