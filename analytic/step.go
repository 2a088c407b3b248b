package analytic

import (
	"math"
	"slices"
	"sync"

	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A kernelSums is the sums over the operators and kernels of a step.
type kernelSums struct {
	cached  *partSums // what takes the place of fixed; nil for fixed itself
	fixed   partSums  // sums of what does not depend on the context
	attends sums      // sums of attention in the layers, which depends on it
}

// A partSums is sums by part of the step, and of all parts in the last; only those that are asked for.
type partSums [operator.PartLast + 2]sums

// A sums is over operators and kernels.
type sums struct {
	operator.Sum
	timing
	constants roofline.Set // constants that the kernels depend on
	piece     uint64       // sum of the addends of their choices
	shifts    []shift      // what they take more on each machine of moves; nil where that is not asked for
}

// fixedSums is the sums of what does not depend on the context.
func (k *kernelSums) fixedSums() *partSums {
	if k.cached != nil {
		return k.cached
	}
	return &k.fixed
}

// whole is the place of the sums of all parts.
const whole = len(partSums{}) - 1

// apart reports whether the stages of a pipeline are priced apart, as those of several micro-batches and those of a server's steps.
func (p *Predictor) apart() bool { return p.Par.MicroBatches > 1 || p.bare && p.Par.PP > 1 }

// asked are the first of the sums that a predictor asks for, and the one behind the last: those by part, that of all parts, or both.
func (p *Predictor) asked() (from, to int) {
	switch {
	case p.anyParts && p.Par.PP > 1:
		return 0, whole + 1
	case p.apart():
		return 0, whole
	}
	return whole, whole + 1
}

// own are the sums that a predictor takes of those that were asked for.
func (p *Predictor) own(sums []sums) []sums {
	if p.apart() {
		return sums[:whole]
	}
	return sums[len(sums)-1:]
}

// total is the sums of all operators and kernels, by part or of all parts.
func (k *kernelSums) total(p *Predictor, to []sums) {
	from, _ := p.asked()
	fixed := k.fixedSums()[from:]
	for i := range to {
		to[i].set(&fixed[i])
		if part := from + i; part == int(operator.PartLayers) || part == whole {
			to[i].add(&k.attends)
		}
	}
}

func (s *sums) set(from *sums) {
	shifts := append(s.shifts[:0], from.shifts...)
	*s = *from
	s.shifts = shifts
}

func (s *sums) add(u *sums) {
	s.Add(&u.Sum, 1)
	s.Piece.Mark(uint64(u.Piece))
	s.timing.add(&u.timing, 1)
	s.constants |= u.constants
	s.piece += u.piece
	for i := range u.shifts {
		s.shifts[i].Add(&u.shifts[i].Load, 1)
		s.shifts[i].piece += u.shifts[i].piece
	}
}

// reset empties sums, which get room for so many shifts.
func (s *sums) reset(shifts int) {
	if cap(s.shifts) < shifts {
		s.shifts = make([]shift, shifts)
	}
	*s = sums{shifts: s.shifts[:shifts]}
	clear(s.shifts)
}

// reset empties the sums of a step.
func (k *kernelSums) reset(p *Predictor) {
	shifts := 0
	if p.moves != nil {
		shifts = len(p.moves.machines)
	}
	k.cached = nil
	from, to := p.asked()
	for i := from; i < to; i++ {
		k.fixed[i].reset(shifts)
	}
	k.attends.reset(shifts)
}

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

func (p *Predictor) add(t *kernelSums, l *Lowering, see Visit) {
	from, to := p.asked()
	if from < whole {
		p.addFixed(&t.fixed[l.Part], l)
	}
	if to > whole {
		p.addFixed(&t.fixed[whole], l)
	}
	p.addAttention(t, l)
	if see != nil {
		see(l, l.costs)
	}
}

// addFixed adds the operators of a part that do not depend on the context, and their kernels.
func (p *Predictor) addFixed(fixed *sums, l *Lowering) {
	attends := l.attends()
	for i := range l.Ops {
		if attends&(1<<i) == 0 {
			p.count(fixed, &l.Ops[i], l)
		}
	}
	for i := range l.Kernels {
		if l.Kernels[i].Ops&attends == 0 {
			p.take(fixed, l, i)
		}
	}
}

// addAttention adds the operators of attention of a part, and their kernels.
func (p *Predictor) addAttention(t *kernelSums, l *Lowering) {
	attends := l.attends()
	for i := range l.Ops {
		if attends&(1<<i) != 0 {
			p.count(&t.attends, &l.Ops[i], l)
		}
	}
	for i := range l.Kernels {
		if l.Kernels[i].Ops&attends != 0 {
			p.take(&t.attends, l, i)
		}
	}
}

// attends has bit i set for operator i of the part if it is one of attention that depends on the context.
func (l *Lowering) attends() (bits uint64) {
	for i := range l.Ops {
		if l.Ops[i].FollowsContext() {
			bits |= 1 << i
		}
	}
	return bits
}

// count adds an operator of a part.
func (p *Predictor) count(s *sums, o *operator.Op, l *Lowering) {
	if !l.bare {
		s.AddOp(o, l.Step.Past)
		o.AddFloor(&s.floor, &p.machine.prices.Peaks, o.Count)
	}
}

// take adds kernel i of a part.
func (p *Predictor) take(s *sums, l *Lowering, i int) {
	k, c, a := &l.Kernels[i], &l.costs[i], &l.each[i]
	s.takes(a)
	if l.bare {
		return
	}
	s.piece += pieceOf(l.at(k), a.choice)
	s.variance += k.off * (k.off + 2*k.alike)
	s.uneven += k.uneven
	if !p.machine.Cal.Fitted[c.Leads] {
		s.unfitted += c.Time
	}
	s.constants |= c.Constants
	if len(s.shifts) > 0 {
		for _, j := range p.moves.affected(c.Constants) {
			p.moves.shift(&s.shifts[j], j, l, i)
		}
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
		t.exposed = host
	}
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
