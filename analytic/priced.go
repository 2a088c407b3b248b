package analytic

import (
	"llmprof/energy"
	"llmprof/operator"
	"llmprof/roofline"
)

// A pricedSteps has steps that were priced, with their kernels, so that machines that
// differ in a constant price anew only the kernels that depend on it. It serves one
// goroutine.
type pricedSteps struct {
	base  *Predictor // prices a step first
	steps []pricedStep
	cost  roofline.Cost // cost of one kernel in reprice, kept to save allocations
}

// A pricedStep is a step with the kernels that it is lowered to.
type pricedStep struct {
	batch, fresh, past, logits, cache float64

	sum  kernelSums
	each []pricedKernel
}

// A pricedKernel is a kernel of a step, and what it costs.
type pricedKernel struct {
	roofline.Kernel
	part      operator.Part
	constants roofline.Set
	load      energy.Load
	piece     uint64
}

// maxRemembered is the most steps that are remembered. A run of more steps prices the others
// anew.
const maxRemembered = 64

func (m *pricedSteps) forget() {
	if m != nil {
		m.steps = m.steps[:0]
	}
}

// find is a step with its kernels; nil if no steps are remembered, or too many.
func (m *pricedSteps) find(s *operator.Step) *pricedStep {
	if m == nil {
		return nil
	}
	for i := range m.steps {
		r := &m.steps[i]
		if r.past == s.Past && r.batch == s.Batch && r.fresh == s.New && r.logits == s.Logits && r.cache == s.Cache {
			return r
		}
	}
	n := len(m.steps)
	switch {
	case n == maxRemembered:
		return nil
	case n < cap(m.steps):
		m.steps = m.steps[:n+1] // with room for kernels
	default:
		m.steps = append(m.steps, pricedStep{})
	}
	r := &m.steps[n]
	*r = pricedStep{batch: s.Batch, fresh: s.New, past: s.Past, logits: s.Logits, cache: s.Cache, each: r.each[:0]}
	power := &m.base.machine.Power
	m.base.walk(&r.sum, s, func(l *Lowering, costs []roofline.Cost) {
		for i := range costs {
			k := pricedKernel{Kernel: l.Kernels[i].Kernel, part: l.Part, constants: costs[i].Constants}
			k.piece = pieceOf(len(r.each), power.Take(&k.load, &costs[i])|costs[i].Piece())
			r.each = append(r.each, k)
		}
	})
	return r
}

// reprice exchanges the load of the kernels whose cost differs between the machine of p and the
// base. It exchanges times, and leaves the bounds.
func (p *Predictor) reprice(sum *kernelSums, r *pricedStep) {
	c := &p.known.cost
	every := p.machine.Throttle != p.known.base.machine.Throttle // arithmetic at the power limit takes longer in another way
	for i := range r.each {
		k := &r.each[i]
		if k.constants&p.changed == 0 && !every {
			continue
		}
		p.machine.prices.Price(c, &k.Kernel)
		var load energy.Load
		sum.piece += pieceOf(i, p.machine.Take(&load, c)|c.Piece()) - k.piece
		part := &sum.parts[k.part]
		part.Add(&k.load, -1)
		part.Add(&load, 1)
	}
}

// pieceOf is the addend of a choice of kernel i to the piece of a step. It can be subtracted
// again, in any order.
func pieceOf(i int, choice uint64) uint64 {
	x := (uint64(i)<<8 | choice) * 0x9e3779b97f4a7c15 // a multiplicative hash, as splitmix64's
	return (x ^ x>>29) * 0xbf58476d1ce4e5b9
}
