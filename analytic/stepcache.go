package analytic

import (
	"slices"

	"llmprof/models"
	"llmprof/operator"
)

// A stepCache has steps that were priced: the last decode step of each of the latest batches and, without counts, the last of all other steps. A step that
// differs from a cached one in contexts alone has only its attention priced. It serves one goroutine.
type stepCache struct {
	bare    bool // steps are without counts
	most    int  // batches whose decode steps are cached, of some kB each
	decodes map[float64]*cachedStep
	batches []float64 // those of decodes, in a ring
	oldest  int
	last    cachedStep
	scratch Lowering
}

// The most batches of a cache: those that a server comes to, and more than decode steps of one workload are priced of, on both sides of an engine's switches.
const (
	servedBatches = 1024
	sweptBatches  = 8
)

func newStepCache(bare bool, most int) *stepCache {
	return &stepCache{bare: bare, most: most, decodes: map[float64]*cachedStep{}}
}

// A cachedStep is a step: its operators of attention with their kernels, and the sums over all others.
type cachedStep struct {
	step    operator.Step
	groups  []operator.Group // groups of the step
	fixed   partSums
	parts   []Lowering // operators of attention alone, and the kernels that do those which depend on the context
	follows bool       // each kernel that depends on the context does exactly one operator of attention
}

// cached is where the cache has steps such as s; nil if nowhere.
func (p *Predictor) cached(s *operator.Step) *cachedStep {
	c := p.cache
	switch {
	case c == nil || c.bare != p.bare:
		return nil
	case s.Decode() && len(s.Groups) == 0 && !s.Drafted:
		return c.decode(s.Batch)
	case !c.bare:
		return nil
	}
	return &c.last
}

// decode is the cached decode step of a batch, or the oldest one, which the step of this batch replaces.
func (c *stepCache) decode(batch float64) *cachedStep {
	k := c.decodes[batch]
	switch {
	case k != nil:
		return k
	case len(c.batches) < c.most:
		k = &cachedStep{}
		c.batches = append(c.batches, batch)
	default:
		old := &c.batches[c.oldest]
		k = c.decodes[*old]
		delete(c.decodes, *old)
		*old, c.oldest = batch, (c.oldest+1)%c.most
	}
	c.decodes[batch] = k
	return k
}

// alike reports whether s differs from the cached step in contexts alone.
func (k *cachedStep) alike(s *operator.Step, p *Predictor) bool {
	o := &k.step
	return k.follows && o.Batch == s.Batch && o.New == s.New && o.Logits == s.Logits && o.Together == s.Together && (o.Cache == s.Cache || !p.fixedCache) &&
		o.Drafted == s.Drafted && o.Decode() == s.Decode() && slices.EqualFunc(k.groups, s.Groups, alikeGroups)
}

// alikeGroups reports whether two groups differ in the context alone.
func alikeGroups(a, b operator.Group) bool {
	a.Past = b.Past
	return a == b
}

// walk adds what the kernels of a step cost to sums, and caches the step. It adds in the order of Predictor.walk, so that
// the sums are equal to the last digit.
func (k *cachedStep) walk(p *Predictor, sums *kernelSums, s *operator.Step) {
	alike := k.alike(s, p)
	k.step, k.groups = *s, append(k.groups[:0], s.Groups...)
	if !alike || !k.follow(s, p.machine) {
		k.price(p, sums, s)
		return
	}
	sums.cached = &k.fixed
	for i := range k.parts {
		p.addAttention(sums, &k.parts[i])
	}
}

// follow turns attention into that of a step with other contexts, and reports whether it can.
func (k *cachedStep) follow(s *operator.Step, m *Machine) bool {
	for i := range k.parts {
		l := &k.parts[i]
		l.step.Past, l.step.Cache, l.step.Groups = s.Past, s.Cache, s.Groups
		if l.layer != nil && !l.reattend(l.layer, m) {
			return false
		}
	}
	return true
}

// price prices all parts of a step.
func (k *cachedStep) price(p *Predictor, sums *kernelSums, s *operator.Step) {
	if k.parts == nil {
		k.parts = make([]Lowering, p.parts())
	}
	l := &p.cache.scratch
	k.follows = true
	for i := range k.parts {
		p.lower(l, s, i)
		p.add(sums, l, nil)
		k.follows = k.follows && l.copiesAttention(true)
		l.attention(&k.parts[i])
	}
	for i := range p.sumParts() {
		k.fixed[i].set(&sums.fixed[i])
	}
}

// attention makes a the part with the operators of attention alone and the kernels that do one which depends on the context.
func (l *Lowering) attention(a *Lowering) {
	ops, kernels, costs, each := a.Ops[:0], a.Kernels[:0], a.costs[:0], a.each[:0]
	*a = *l
	a.Step = &a.step
	for i := range l.Ops {
		if !l.Ops[i].Type.Attends() {
			continue
		}
		for j := range l.Kernels {
			if k := &l.Kernels[j]; k.Main == i && l.Ops[i].FollowsContext() {
				kernels, costs, each = append(kernels, *k), append(costs, l.costs[j]), append(each, l.each[j])
				kernels[len(kernels)-1].Main = len(ops)
			}
		}
		ops = append(ops, l.Ops[i])
	}
	a.Ops, a.Kernels, a.costs, a.each = ops, kernels, costs, each
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
