package analytic

import (
	"llmprof/operator"
	"llmprof/roofline"
)

// A kernelSums is the sums over the operators and kernels of a step.
type kernelSums struct {
	cached  *partSums // what takes the place of fixed; nil for fixed itself
	fixed   partSums  // sums of what does not depend on the context
	attends sums      // sums of attention in the layers, which depends on it
}

// A partSums is sums by part of the step, or of all parts in the first.
type partSums [operator.PartLast + 1]sums

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

// sumParts is the number of parts whose sums are apart: one of all operators, unless the stages of a pipeline are priced apart,
// as those of several micro-batches and those of a server's steps.
func (p *Predictor) sumParts() int {
	if p.Par.MicroBatches > 1 || p.bare && p.Par.PP > 1 {
		return len(partSums{})
	}
	return 1
}

// sumsOf is the sums of a part of a step.
func (p *Predictor) sumsOf(fixed *partSums, part operator.Part) *sums {
	return &fixed[min(int(part), p.sumParts()-1)]
}

// total is the sums of all operators and kernels, by part or of all parts.
func (k *kernelSums) total(parts []sums) {
	layers := 0
	if len(parts) > 1 {
		layers = int(operator.PartLayers)
	}
	fixed := k.fixedSums()
	for i := range parts {
		parts[i].set(&fixed[i])
	}
	parts[layers].add(&k.attends)
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
	for i := range p.sumParts() {
		k.fixed[i].reset(shifts)
	}
	k.attends.reset(shifts)
}

func (p *Predictor) add(t *kernelSums, l *Lowering, see Visit) {
	fixed, attends := p.sumsOf(&t.fixed, l.Part), l.attends()
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
	p.addAttention(t, l)
	if see != nil {
		see(l, l.costs)
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
