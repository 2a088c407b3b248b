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
	case p.anyMicroBatches && p.Par.PP > 1:
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
