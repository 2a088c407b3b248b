package analytic

import "llmprof/operator"

// A keptStep is the last decode step with its parts and their kernels. A step that differs from it in the context
// alone lists and prices anew only its attention. It serves one goroutine.
type keptStep struct {
	step  operator.Step
	parts []keptPart // nil before the first walk
}

// A keptPart is a part of a step.
type keptPart struct {
	Lowering
	follows bool       // each kernel that depends on the context does exactly one operator of attention
	sums    kernelSums // sums of a part outside the layers, which does not depend on the context
}

// keeps reports whether steps such as s are kept.
func (k *keptStep) keeps(s *operator.Step) bool {
	return k != nil && s.Decode() && len(s.Groups) == 0 && !s.Drafted
}

// alike reports whether s differs from the kept step in the context alone.
func (k *keptStep) alike(s *operator.Step, p *Predictor) bool {
	return k.parts != nil && k.step.Batch == s.Batch && k.step.Logits == s.Logits && k.step.Together == s.Together && (k.step.Cache == s.Cache || !p.fixedCache)
}

// walk adds what the kernels of a step cost to sums, and keeps the step. It adds in the order of Predictor.walk, so that
// the sums are equal to the last digit.
func (k *keptStep) walk(p *Predictor, sums *kernelSums, s *operator.Step, see Visit) {
	alike := k.alike(s, p)
	if k.parts == nil {
		k.parts = make([]keptPart, p.parts())
	}
	k.step = *s
	for i := range k.parts {
		l := &k.parts[i]
		if !alike || !l.follow(s, p.machine) {
			p.lower(&l.Lowering, s, i)
			l.follows = l.copiesAttention()
		}
		if l.Part == operator.PartLayers {
			p.add(sums, &l.Lowering, see)
			continue
		}
		if !alike {
			l.sums = kernelSums{n: sums.n}
			p.add(&l.sums, &l.Lowering, nil)
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

// copiesAttention reports whether each kernel that does an operator of attention does no other operator, and has
// its work and its shape. A kernel with another context then follows from its operator alone.
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
