package analytic

import (
	"llmprof/energy"
	"llmprof/models"
	"llmprof/operator"
	"llmprof/roofline"
	"llmprof/unit"
)

// A servedSteps has decode steps by their batch, of servers that ask for the same batches with many contexts: of a step that differs from the last one
// of its batch in the context alone, only attention is priced. It serves one goroutine.
type servedSteps struct {
	steps    map[float64]*servedStep
	lowering Lowering
	ops      []operator.Op
	cost     roofline.Cost
}

// mostServed bounds how many steps are kept, of some kB each: those of the batches that came first.
const mostServed = 1024

// A servedStep is a decode step.
type servedStep struct {
	step  operator.Step
	parts []servedPart // nil before it is priced
}

// A servedPart is what the kernels of a part of a step add to its sums, in their order.
type servedPart struct {
	part    operator.Part
	layer   *models.Layer // nil outside the layers
	each    []addend
	attends []attending
	follows bool // each of its kernels that depends on the context does one operator of attention
}

// An addend is what a kernel adds to the sums of a part.
type addend struct {
	time            unit.Seconds
	bound           roofline.Bound
	launches, calls float64
	load            energy.Load
}

// An attending is a kernel of a part, by its index, that does an operator of attention, by its place among those of the part.
type attending struct {
	Kernel
	at, op int
}

// Serving is the predictor for servers of one goroutine, which keeps the decode steps that StepCost prices.
func (p *Predictor) Serving() *Predictor {
	q := *p
	q.served = &servedSteps{steps: map[float64]*servedStep{}}
	return &q
}

// servedStep is the last step of the batch of a step; nil if none is kept.
func (p *Predictor) servedStep(s *operator.Step) *servedStep {
	m := p.served
	if m == nil || !p.bare || !s.Decode() || len(s.Groups) > 0 || s.Drafted {
		return nil
	}
	r := m.steps[s.Batch]
	if r == nil && len(m.steps) < mostServed {
		r = &servedStep{}
		m.steps[s.Batch] = r
	}
	return r
}

// walk adds what the kernels of a step cost to sums, without counts, in the order of Predictor.walk, so that the sums are equal to the last digit.
func (m *servedSteps) walk(p *Predictor, sums *kernelSums, s *operator.Step, r *servedStep) {
	alike := r.parts != nil && r.step.Logits == s.Logits && r.step.Together == s.Together && (r.step.Cache == s.Cache || !p.fixedCache)
	r.step = *s
	if !alike || !m.follow(r, p.machine) {
		m.price(r, p)
	}
	for i := range r.parts {
		q := &r.parts[i]
		t := &sums.parts[q.part]
		for j := range q.each {
			a := &q.each[j]
			t.kernels += a.time
			t.bound[a.bound] += a.time
			t.launches += a.launches
			t.calls += a.calls
			t.Add(&a.load, 1)
		}
	}
}

// price prices all parts of a step.
func (m *servedSteps) price(r *servedStep, p *Predictor) {
	l := &m.lowering
	r.parts = make([]servedPart, p.parts())
	for i := range r.parts {
		p.lower(l, &r.step, i, l)
		q := &r.parts[i]
		q.part, q.layer, q.each, q.follows = l.Part, l.layer, make([]addend, len(l.Kernels)), l.copiesAttention(true)
		for k := range l.Kernels {
			q.each[k] = addendOf(&l.Kernels[k], &l.costs[k], p.machine)
		}
		place := 0
		for op := range l.Ops {
			if !l.Ops[op].Type.Attends() {
				continue
			}
			for k := range l.Kernels {
				if l.Kernels[k].Main == op && l.Ops[op].FollowsContext() {
					q.attends = append(q.attends, attending{l.Kernels[k], k, place})
				}
			}
			place++
		}
	}
}

// addendOf is what a kernel adds.
func addendOf(k *Kernel, c *roofline.Cost, m *Machine) addend {
	var t timing
	t.takes(k, c, m)
	return addend{c.Time, c.Bound, t.launches, t.calls, t.Load}
}

// follow turns what was kept of a step into the step with another context, and reports whether it can.
func (m *servedSteps) follow(r *servedStep, on *Machine) bool {
	for i := range r.parts {
		q := &r.parts[i]
		if !q.follows {
			return false
		}
		if len(q.attends) == 0 {
			continue
		}
		m.ops = r.step.AppendAttention(m.ops[:0], q.layer)
		for j := range q.attends {
			k := &q.attends[j]
			o := &m.ops[k.op]
			if k.Shape == o.Shape && k.Work == o.Work {
				continue
			}
			if k.moves() {
				return false
			}
			k.Shape, k.Work = o.Shape, o.Work
			on.prices.Price(&m.cost, &k.Kernel.Kernel)
			q.each[k.at] = addendOf(&k.Kernel, &m.cost, on)
		}
	}
	return true
}
