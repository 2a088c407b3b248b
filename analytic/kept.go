package analytic

import (
	"slices"

	"llmprof/models"
	"llmprof/operator"
)

// A keptStep is the last step with its parts and their kernels. A step that differs from it in contexts
// alone lists and prices anew only its attention. It serves one goroutine.
type keptStep struct {
	step   operator.Step
	groups []operator.Group // groups of the step
	parts  []keptPart       // nil before the first walk
}

// A keptPart is a part of a step.
type keptPart struct {
	Lowering
	follows bool       // each kernel that depends on the context does exactly one operator of attention
	sums    kernelSums // sums of a part outside the layers, which does not depend on the context
}

// keeper is what keeps steps such as s; nil if nothing does. Steps with counts are kept of decode alone.
func (p *Predictor) keeper(s *operator.Step) *keptStep {
	if p.kept != nil && (p.bare || s.Decode() && len(s.Groups) == 0 && !s.Drafted) {
		return p.kept
	}
	return nil
}

// alike reports whether s differs from the kept step in contexts alone.
func (k *keptStep) alike(s *operator.Step, p *Predictor) bool {
	o := &k.step
	return k.parts != nil && o.Batch == s.Batch && o.New == s.New && o.Logits == s.Logits && o.Together == s.Together && (o.Cache == s.Cache || !p.fixedCache) &&
		o.Drafted == s.Drafted && o.Decode() == s.Decode() && slices.EqualFunc(k.groups, s.Groups, alikeGroups)
}

// alikeGroups reports whether two groups differ in the context alone.
func alikeGroups(a, b operator.Group) bool {
	a.Past = b.Past
	return a == b
}

// walk adds what the kernels of a step cost to sums, and keeps the step. It adds in the order of Predictor.walk, so that
// the sums are equal to the last digit.
func (k *keptStep) walk(p *Predictor, sums *kernelSums, s *operator.Step, see Visit) {
	alike := k.alike(s, p)
	if k.parts == nil {
		k.parts = make([]keptPart, p.parts())
	}
	k.step, k.groups = *s, append(k.groups[:0], s.Groups...)
	for i := range k.parts {
		l := &k.parts[i]
		if !alike || !l.follow(s, p.machine) {
			p.lower(&l.Lowering, s, i, &k.parts[max(i-1, 0)].Lowering)
			l.follows = l.copiesAttention(true)
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
	if !l.bare {
		t.AddOps(l.Ops, l.Step.Past)
	}
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
	l.step.Past, l.step.Cache, l.step.Groups = s.Past, s.Cache, s.Groups
	if l.layer == nil {
		return true
	}
	return l.reattend(l.layer, m)
}

// turn makes the part of the kernels of the part before, whose layers differ from those of a kind in the windows alone.
func (l *Lowering) turn(before *Lowering, to *models.Layer, m *Machine) {
	if l != before {
		l.Ops, l.Kernels, l.costs = append(l.Ops[:0], before.Ops...), append(l.Kernels[:0], before.Kernels...), append(l.costs[:0], before.costs...)
		l.layer = before.layer
	}
	l.twin()
	l.reattend(to, m)
}

// twin counts the errors of the part's kernels with those of the kernels that the layers of a twin have. Kernels that follow
// the context have other shapes there.
func (l *Lowering) twin() {
	for i := range l.Kernels {
		if k := &l.Kernels[i]; !l.Ops[k.Main].FollowsContext() {
			k.twins += k.off * float64(l.equal(i, l.Kernels))
			k.alike = k.twins + k.off*float64(l.equal(i, l.Kernels[:i]))
		}
	}
}

// reattend rewrites and prices attention for the step, of layers that differ from those of the part in the windows alone. All kernels are
// priced anew where there are more or fewer of these layers. It fails where a kernel moves bytes that follow from more than the operator that changes.
func (l *Lowering) reattend(to *models.Layer, m *Machine) bool {
	l.Step.Reattend(l.Ops, l.layer, to)
	for i := range l.Kernels {
		k := &l.Kernels[i]
		o := &l.Ops[k.Main]
		changes := o.FollowsContext() && (k.Shape != o.Shape || k.Work != o.Work)
		if changes && k.moves() {
			return false
		}
		if changes {
			k.Shape, k.Work = o.Shape, o.Work
		}
		if k.Count = float64(to.Count); changes || to.Count != l.layer.Count {
			l.price(i, m)
		}
	}
	l.layer = to
	l.correctOps()
	return true
}

// moves reports whether the kernel moves bytes that its operators do not have.
func (k *Kernel) moves() bool { return k.Permuted+k.Unpermuted+k.Reread+k.Reload != 0 }

// copiesAttention reports whether each kernel that does an operator of attention does no other operator, and has
// its work and its shape. A kernel with another context then follows from its operator alone, unless it moves other bytes too, as it may if moving is set.
func (l *Lowering) copiesAttention(moving bool) bool {
	attends := uint64(0)
	for i := range l.Ops {
		if l.Ops[i].FollowsContext() {
			attends |= 1 << i
		}
	}
	for i := range l.Kernels {
		k := &l.Kernels[i]
		if o := &l.Ops[k.Main]; k.Ops&attends != 0 && (k.Ops != 1<<k.Main || k.Shape != o.Shape || k.Work != o.Work || k.moves() && !moving) {
			return false
		}
	}
	return true
}
