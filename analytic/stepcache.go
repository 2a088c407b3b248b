package analytic

import (
	"slices"

	"llmprof/models"
	"llmprof/operator"
)

// A stepCache has steps that were priced: the last decode step of each of the latest batches and, without counts, the last of all other steps. A step that
// differs from a cached one in contexts alone has only its attention priced. Without counts a step is cached when a second one like it comes, for to cache it
// takes a third of the time in which it is priced, and most of those of a steady state come once. It serves one goroutine.
type stepCache struct {
	bare    bool                    // steps are without counts
	most    int                     // batches whose decode steps are cached, of some kB each
	decodes map[float64]*cachedStep // nil of a batch that came once
	batches []float64               // keys of decodes, in a ring
	oldest  int
	last    cachedStep
	scratch Lowering
	parts   []Lowering    // parts of the last step of prompts
	free    []*cachedStep // whose memory decode steps of further batches take
}

// The most batches of a cache: those that a server comes to, and more than decode steps of one workload are priced of, on both sides of an engine's switches.
const (
	servedBatches = 1024
	sweptBatches  = 8
)

func newStepCache(bare bool, most int) *stepCache {
	return &stepCache{bare: bare, most: most, decodes: map[float64]*cachedStep{}}
}

// part is where part i of steps of prompts is lowered.
func (c *stepCache) part(p *Predictor, i int) *Lowering {
	if more := p.parts() - len(c.parts); more > 0 {
		c.parts = append(c.parts, make([]Lowering, more)...)
	}
	return &c.parts[i]
}

// forget empties the cache, which keeps its memory.
func (c *stepCache) forget() {
	for _, batch := range c.batches {
		c.release(c.decodes[batch])
	}
	clear(c.decodes)
	c.batches, c.oldest, c.last.priced, c.scratch.on = c.batches[:0], 0, false, nil
	for i := range c.parts {
		c.parts[i].on = nil
	}
}

// A cachedStep is a step: the sums over what does not depend on the context, and the parts of the step.
type cachedStep struct {
	step   operator.Step
	groups []operator.Group // groups of the step
	fixed  partSums
	parts  []cachedPart
	priced bool
}

// A cachedPart has the operators of attention alone, and the kernels that do those which depend on the context; or all
// operators and kernels where such a kernel does several.
type cachedPart struct {
	Lowering
	whole bool
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
	case !c.last.alike(s, p):
		c.last.step, c.last.groups, c.last.priced = *s, append(c.last.groups[:0], s.Groups...), false
		return nil
	}
	return &c.last
}

// release keeps the memory of a step, which is cached no more.
func (c *stepCache) release(k *cachedStep) {
	if k != nil {
		k.priced = false
		c.free = append(c.free, k)
	}
}

// decode is the cached decode step of a batch; nil where it is to be cached when it comes again.
func (c *stepCache) decode(batch float64) *cachedStep {
	k, again := c.decodes[batch]
	if k != nil {
		return k
	}
	if !again {
		c.note(batch)
	}
	if c.bare && !again {
		return nil
	}
	if n := len(c.free); n > 0 {
		k, c.free = c.free[n-1], c.free[:n-1]
	} else {
		k = &cachedStep{}
	}
	c.decodes[batch] = k
	return k
}

// note notes a batch, in place of the oldest one where there are enough.
func (c *stepCache) note(batch float64) {
	if len(c.batches) < c.most {
		c.batches = append(c.batches, batch)
	} else {
		old := &c.batches[c.oldest]
		c.release(c.decodes[*old])
		delete(c.decodes, *old)
		*old, c.oldest = batch, (c.oldest+1)%c.most
	}
	c.decodes[batch] = nil
}

// alike reports whether s differs from the step in contexts alone.
func (k *cachedStep) alike(s *operator.Step, p *Predictor) bool {
	o := &k.step
	return o.Batch == s.Batch && o.New == s.New && o.Logits == s.Logits && o.Together == s.Together && (o.Cache == s.Cache || !p.fixedCache) &&
		o.Drafted == s.Drafted && o.Decode() == s.Decode() && slices.EqualFunc(k.groups, s.Groups, alikeGroups)
}

// alikeGroups reports whether two groups differ in the context alone, which both have or neither.
func alikeGroups(a, b operator.Group) bool {
	begun := (a.Past > 0) == (b.Past > 0)
	a.Past = b.Past
	return begun && a == b
}

// walk adds what the kernels of a step cost to sums, and caches the step. It adds in the order of Predictor.walk, so that
// the sums are equal to the last digit.
func (k *cachedStep) walk(p *Predictor, sums *kernelSums, s *operator.Step) {
	alike := k.priced && k.alike(s, p)
	k.step, k.groups = *s, append(k.groups[:0], s.Groups...)
	if !alike || !k.follow(p, s) {
		k.price(p, sums, s)
		return
	}
	sums.cached = &k.fixed
	for i := range k.parts {
		p.addAttention(sums, &k.parts[i].Lowering)
	}
}

// follow turns attention into that of a step with other contexts, and reports whether it can.
func (k *cachedStep) follow(p *Predictor, s *operator.Step) bool {
	for i := range k.parts {
		l := &k.parts[i]
		if l.whole {
			if p.lower(&l.Lowering, s, i); !l.changesAttention() {
				return false
			}
			continue
		}
		l.step.Past, l.step.Cache, l.step.Groups = s.Past, s.Cache, s.Groups
		if l.layer != nil && !l.reattend(l.layer, p.machine) {
			return false
		}
	}
	return true
}

func (k *cachedStep) price(p *Predictor, sums *kernelSums, s *operator.Step) {
	n := p.parts()
	k.parts, k.priced = slices.Grow(k.parts[:0], n)[:n], true
	l := &p.cache.scratch
	for i := range k.parts {
		p.lower(l, s, i)
		p.add(sums, l, nil)
		to := &k.parts[i]
		if to.whole = !l.copiesAttention(true); to.whole {
			l.all(&to.Lowering)
		} else {
			l.attention(&to.Lowering)
		}
	}
	from, to := p.asked()
	for i := from; i < to; i++ {
		k.fixed[i].set(&sums.fixed[i])
	}
}

// changesAttention reports whether no kernels but those of attention changed.
func (l *Lowering) changesAttention() bool {
	attends := l.attends()
	for i := range l.Kernels {
		if l.changed&(1<<i) != 0 && l.Kernels[i].Ops&attends == 0 {
			return false
		}
	}
	return len(l.Kernels) == len(l.before)
}

// all makes a a copy of the part.
func (l *Lowering) all(a *Lowering) {
	ops, kernels, costs, each, before := append(a.Ops[:0], l.Ops...), append(a.Kernels[:0], l.Kernels...), append(a.costs[:0], l.costs...), append(a.each[:0], l.each...), a.before
	*a = *l
	a.Step = &a.step
	a.Ops, a.Kernels, a.costs, a.each, a.before = ops, kernels, costs, each, before
}

// attention makes a the part with the operators of attention alone and the kernels that do one which depends on the context.
func (l *Lowering) attention(a *Lowering) {
	ops, kernels, costs, each, before := a.Ops[:0], a.Kernels[:0], a.costs[:0], a.each[:0], a.before
	*a = *l
	a.Step = &a.step
	for i := range l.Ops {
		if !l.Ops[i].Type.Attends() {
			continue
		}
		for j := range l.Kernels {
			if k := &l.Kernels[j]; k.Main == i && l.Ops[i].FollowsContext() {
				kernels, costs, each = append(kernels, *k), append(costs, l.costs[j]), append(each, l.each[j])
				last := &kernels[len(kernels)-1]
				last.Main, last.Ops = len(ops), 1<<len(ops)
			}
		}
		ops = append(ops, l.Ops[i])
	}
	a.Ops, a.Kernels, a.costs, a.each, a.before = ops, kernels, costs, each, before
}

// twin counts the errors of the part's kernels with those of the kernels that the layers of a twin have. Kernels that follow
// the context have other shapes there.
func (l *Lowering) twin() {
	if l.bare {
		return
	}
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
	attends := l.attends()
	for i := range l.Kernels {
		k := &l.Kernels[i]
		if o := &l.Ops[k.Main]; k.Ops&attends != 0 && (k.Ops != 1<<k.Main || k.Shape != o.Shape || k.Work != o.Work || k.moves() && !moving) {
			return false
		}
	}
	return true
}
