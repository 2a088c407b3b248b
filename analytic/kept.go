package analytic

import (
	"slices"

	"llmprof/operator"
)

// A keptSteps keeps the parts of decode steps with their kernels. A step that differs from a kept one
// in the context alone lists and prices anew only its attention. It serves one goroutine.
type keptSteps struct {
	steps []*keptStep // the last to be used is the first
}

// maxKept is the most steps that are kept: one for the batch, and one for each switch of an engine.
const maxKept = 8

// A keptStep is the parts of a decode step.
type keptStep struct {
	p     *Predictor
	step  operator.Step
	parts []keptPart // empty before the first walk
}

// A keptPart is a part of a step.
type keptPart struct {
	Lowering
	follows bool       // each kernel that depends on the context does exactly one operator of attention
	sums    kernelSums // sums of a part outside the layers, which does not depend on the context
}

// alike is the kept step that differs from s in the context alone, or else one without parts; nil if
// such steps are not kept.
func (m *keptSteps) alike(s *operator.Step, p *Predictor) *keptStep {
	if m == nil || !s.Decode() || len(s.Groups) > 0 || s.Drafted {
		return nil
	}
	at := slices.IndexFunc(m.steps, func(k *keptStep) bool {
		return k.step.Batch == s.Batch && k.step.Logits == s.Logits && k.step.Together == s.Together && (k.step.Cache == s.Cache || !p.fixedCache)
	})
	switch {
	case at >= 0:
	case len(m.steps) < maxKept:
		at = len(m.steps)
		m.steps = append(m.steps, &keptStep{p: p, parts: make([]keptPart, 0, p.parts())})
	default:
		at = maxKept - 1
		m.steps[at].parts = m.steps[at].parts[:0]
	}
	k := m.steps[at]
	copy(m.steps[1:at+1], m.steps[:at])
	m.steps[0] = k
	k.step = *s
	return k
}

// walk adds what the kernels of a step cost to sums, in the order of Predictor.walk, so that the sums are
// equal to the last digit.
func (k *keptStep) walk(sums *kernelSums, s *operator.Step, see Visit) {
	begun := len(k.parts) > 0
	k.parts = k.parts[:cap(k.parts)]
	for i := range k.parts {
		l := &k.parts[i]
		if !begun || !l.follow(s, k.p.machine) {
			k.p.lower(&l.Lowering, s, i)
			l.follows = l.copiesAttention()
		}
		if l.Part == operator.PartLayers {
			k.p.add(sums, &l.Lowering, see)
			continue
		}
		if !begun {
			l.sums = kernelSums{n: sums.n}
			k.p.add(&l.sums, &l.Lowering, nil)
		}
		sums.part(&l.sums, &l.Lowering, see)
	}
}

// part adds the sums u of a part outside the layers. A step has each such part once.
func (t *kernelSums) part(u *kernelSums, l *Lowering, see Visit) {
	t.AddOps(l.Ops, l.Step.Past)
	t.parts[l.Part] = u.parts[l.Part]
	t.constants |= u.constants
	t.n, t.piece = u.n, t.piece+u.piece
	if see != nil {
		see(l, l.costs)
	}
}

// follow turns the part into that of a step with another context, and reports whether it can.
func (l *keptPart) follow(s *operator.Step, m *Machine) bool {
	if !l.follows {
		return false
	}
	l.step.Past, l.step.Cache = s.Past, s.Cache
	if l.layer == nil {
		return true
	}
	l.Step.Reattend(l.Ops, l.layer)
	for i := range l.Kernels {
		if k := &l.Kernels[i]; l.Ops[k.Main].Type.Attends() {
			k.Shape, k.Work = l.Ops[k.Main].Shape, l.Ops[k.Main].Work
			l.price(i, m)
		}
	}
	l.correctOps()
	return true
}

// copiesAttention reports whether each kernel that does an operator of attention has the work and the shape of
// that operator and does no other. A kernel with another context then follows from its operator alone.
func (l *Lowering) copiesAttention() bool {
	for i := range l.Kernels {
		k := &l.Kernels[i]
		for j := range l.Ops {
			o := &l.Ops[j]
			if o.Type.Attends() && k.Ops&(1<<j) != 0 && (k.Ops != 1<<j || k.Shape != o.Shape || k.Work != o.Work || k.Permuted+k.Unpermuted+k.Reread+k.Reload != 0) {
				return false
			}
		}
	}
	return true
}
