package analytic

import (
	"llmprof/energy"
	"llmprof/operator"
	"llmprof/roofline"
)

// A pricedSteps has steps that were priced, with what they take more on machines that differ in a constant. It serves one goroutine.
type pricedSteps struct {
	base  *Predictor // prices the steps
	steps []*pricedStep
	n     int // steps that are remembered
}

// A pricedStep is the sums over the kernels of a step.
type pricedStep struct {
	batch, fresh, past, logits, cache float64
	sum                               kernelSums
}

// maxRemembered is the most steps that are remembered. A run of more steps prices the others
// anew.
const maxRemembered = 128

// forget forgets all steps.
func (m *pricedSteps) forget() {
	if m != nil {
		m.n = 0
	}
}

// find is a step with its sums; nil if no steps are remembered, or too many.
func (m *pricedSteps) find(s *operator.Step) *pricedStep {
	if m == nil {
		return nil
	}
	for _, r := range m.steps[:m.n] {
		if r.past == s.Past && r.batch == s.Batch && r.fresh == s.New && r.logits == s.Logits && r.cache == s.Cache {
			return r
		}
	}
	switch {
	case m.n == maxRemembered:
		return nil
	case m.n == len(m.steps):
		m.steps = append(m.steps, &pricedStep{})
	}
	r := m.steps[m.n]
	m.n++
	r.batch, r.fresh, r.past, r.logits, r.cache = s.Batch, s.New, s.Past, s.Logits, s.Cache
	r.sum.reset(m.base)
	m.base.walk(&r.sum, s, nil)
	return r
}

// reset empties the sums of a step.
func (k *kernelSums) reset(p *Predictor) {
	k.cached = nil
	for i := range k.fixed {
		if s := &k.fixed[i]; s == p.sumsOf(&k.fixed, operator.Part(i)) {
			s.reset(len(p.moves.machines))
		}
	}
	k.attends.reset(len(p.moves.machines))
}

// A moves is the machines with a constant moved, on which kernels are priced anew.
type moves struct {
	machines []movedMachine
	base     *Machine
	cost     roofline.Cost // kept to save allocations
}

// A shift is what kernels take more on a machine with a constant moved. The bounds are left.
type shift struct {
	energy.Load
	piece uint64
}

// shift adds what kernel i of a part takes more on machine j.
func (m *moves) shift(s *shift, j int, l *Lowering, i int) {
	on, k, cost, a := &m.machines[j], &l.Kernels[i], &l.costs[i], &l.each[i]
	switch {
	case on.changed&cost.Constants != 0:
		on.prices.Reprice(&m.cost, cost, &k.Kernel)
		cost = &m.cost
	case on.Throttle == m.base.Throttle: // else arithmetic at the power limit takes longer in another way
		return
	}
	var load energy.Load
	s.piece += pieceOf(l.at(k), cost.Piece()|on.Take(&load, cost)) - pieceOf(l.at(k), a.choice)
	s.Add(&load, 1)
	s.Add(&a.load, -1)
}

// shifted adds what the kernels take more on a machine of moves, by its number from 1; 0 is the machine that they were priced on.
func (s *sums) shifted(t *timing, machine int) (piece uint64) {
	if machine == 0 {
		return 0
	}
	more := &s.shifts[machine-1]
	t.Load.Add(&more.Load, 1)
	return more.piece
}

// pieceOf is the addend of a choice of kernel i to the piece of a step. It can be subtracted
// again, in any order.
func pieceOf(i int, choice uint64) uint64 {
	x := (uint64(i)<<8 | choice) * 0x9e3779b97f4a7c15 // a multiplicative hash, as splitmix64's
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9
}
