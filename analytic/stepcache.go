package analytic

import (
	"cmp"
	"slices"

	"llmprof/models"
	"llmprof/operator"
)

// A stepCache has steps that were priced: without counts the last decode step of each batch, and the last of all others. A step that differs from
// a cached one in contexts alone has only its attention priced. It serves one goroutine.
type stepCache struct {
	bare    bool // steps are without counts
	decodes map[float64]*cachedStep
	last    cachedStep
	scratch Lowering
}

// maxDecodes bounds how many batches have a cached step, of some kB each.
const maxDecodes = 1024

// A cachedStep is a step with its parts and their kernels.
type cachedStep struct {
	step   operator.Step
	groups []operator.Group // groups of the step
	parts  []cachedPart     // nil before the first walk
}

// A cachedPart is a part of a step. In stepCache.decodes it has the operators and kernels of attention alone, and what each kernel adds.
type cachedPart struct {
	Lowering
	follows bool // each kernel that depends on the context does exactly one operator of attention
}

// cached is where the cache has steps such as s; nil if nowhere.
func (p *Predictor) cached(s *operator.Step) *cachedStep {
	c := p.cache
	if c == nil || c.bare != p.bare {
		return nil
	}
	decode := s.Decode() && len(s.Groups) == 0 && !s.Drafted
	switch {
	case !c.bare && !decode:
		return nil
	case !c.bare || !decode:
		return &c.last
	}
	k := c.decodes[s.Batch]
	if k == nil && len(c.decodes) < maxDecodes {
		k = &cachedStep{}
		c.decodes[s.Batch] = k
	}
	return cmp.Or(k, &c.last)
}

// alike reports whether s differs from the cached step in contexts alone.
func (k *cachedStep) alike(s *operator.Step, p *Predictor) bool {
	o := &k.step
	return k.parts != nil && o.Batch == s.Batch && o.New == s.New && o.Logits == s.Logits && o.Together == s.Together && (o.Cache == s.Cache || !p.fixedCache) &&
		o.Drafted == s.Drafted && o.Decode() == s.Decode() && slices.EqualFunc(k.groups, s.Groups, alikeGroups)
}

// alikeGroups reports whether two groups differ in the context alone.
func alikeGroups(a, b operator.Group) bool {
	a.Past = b.Past
	return a == b
}

// walk adds what the kernels of a step cost to sums, and caches the step. It adds in the order of Predictor.walk, so that
// the sums are equal to the last digit.
func (k *cachedStep) walk(p *Predictor, sums *kernelSums, s *operator.Step, see Visit) {
	alike := k.alike(s, p)
	k.step, k.groups = *s, append(k.groups[:0], s.Groups...)
	if !alike || !k.follow(s, p.machine) {
		k.price(p, s)
	}
	for i := range k.parts {
		p.add(sums, &k.parts[i].Lowering, see)
	}
}

// follow turns the parts into those of a step with other contexts, and reports whether it can.
func (k *cachedStep) follow(s *operator.Step, m *Machine) bool {
	for i := range k.parts {
		l := &k.parts[i]
		if !l.follows {
			return false
		}
		l.step.Past, l.step.Cache, l.step.Groups = s.Past, s.Cache, s.Groups
		if l.layer != nil && !l.reattend(l.layer, m) {
			return false
		}
	}
	return true
}

// price prices all parts of a step.
func (k *cachedStep) price(p *Predictor, s *operator.Step) {
	if k.parts == nil {
		k.parts = make([]cachedPart, p.parts())
	}
	for i := range k.parts {
		l := &k.parts[i]
		if k == &p.cache.last {
			p.lower(&l.Lowering, s, i, &k.parts[max(i-1, 0)].Lowering)
			l.follows = l.copiesAttention(true)
			continue
		}
		scratch := &p.cache.scratch
		p.lower(scratch, s, i, scratch)
		l.follows = scratch.copiesAttention(true)
		scratch.attention(&l.Lowering)
	}
}

// attention makes a the part with the operators of attention alone and the kernels that do one which depends on the context.
func (l *Lowering) attention(a *Lowering) {
	ops, kernels, costs, each := a.Ops[:0], a.Kernels[:0], a.costs[:0], append(a.each[:0], l.each...)
	*a = *l
	a.Step = &a.step
	for i := range l.Ops {
		if !l.Ops[i].Type.Attends() {
			continue
		}
		for j := range l.Kernels {
			if k := &l.Kernels[j]; k.Main == i && l.Ops[i].FollowsContext() {
				kernels, costs = append(kernels, *k), append(costs, l.costs[j])
				kernels[len(kernels)-1].Main = len(ops)
			}
		}
		ops = append(ops, l.Ops[i])
	}
	a.Ops, a.Kernels, a.costs, a.each = ops, kernels, costs, each
}

// turn makes the part of the kernels of the part before, whose layers differ from those of a kind in the windows alone.
func (l *Lowering) turn(before *Lowering, to *models.Layer, m *Machine) {
	if l != before {
		l.Ops, l.Kernels = append(l.Ops[:0], before.Ops...), append(l.Kernels[:0], before.Kernels...)
		l.costs, l.each = append(l.costs[:0], before.costs...), append(l.each[:0], before.each...)
		l.layer = before.layer
	}
	l.reattend(to, m)
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
