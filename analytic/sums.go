package analytic

import (
	"llmprof/analytic/operator"
	"llmprof/roofline"
)

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

// reset empties the sums of a step that are asked for, which get room for what kernels take more on each machine of moves.
func (all *partSums) reset(p *Predictor) {
	shifts := 0
	if p.moves != nil {
		shifts = len(p.moves.machines)
	}
	from, to := p.asked()
	for i := from; i < to; i++ {
		s := &all[i]
		if cap(s.shifts) < shifts {
			s.shifts = make([]shift, shifts)
		}
		*s = sums{shifts: s.shifts[:shifts]}
		clear(s.shifts)
	}
}

// set copies sums, into the memory that s has for what kernels take more.
func (s *sums) set(from *sums) {
	shifts := append(s.shifts[:0], from.shifts...)
	*s = *from
	s.shifts = shifts
}

// add adds the operators of a part and their kernels.
func (p *Predictor) add(all *partSums, l *Lowering, see Visit) {
	from, to := p.asked()
	if from < whole {
		p.addPart(&all[l.Part], l)
	}
	if to > whole {
		p.addPart(&all[whole], l)
	}
	if see != nil {
		see(l, l.costs)
	}
}

func (p *Predictor) addPart(s *sums, l *Lowering) {
	if !l.bare {
		for i := range l.Ops {
			o := &l.Ops[i]
			s.AddOp(o, l.Step.Past)
			o.AddFloor(&s.floor, &p.machine.prices.Peaks, o.Count)
		}
	}
	for i := range l.Kernels {
		p.take(s, l, i)
	}
}

// take adds kernel i of a part.
func (p *Predictor) take(s *sums, l *Lowering, i int) {
	c, a := &l.costs[i], &l.each[i]
	s.takes(a)
	if l.bare {
		return
	}
	s.piece += pieceOf(l.at(i), a.choice)
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

// at is the place of kernel i of the part in the step.
func (l *Lowering) at(i int) int { return l.place<<6 | i }
