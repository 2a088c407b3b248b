package serving

import (
	"math"
	"slices"
	"sync"

	"llmprof/analytic"
	"llmprof/analytic/operator"
)

// A Cost is what one step takes.
type Cost = analytic.StepCost

// prices prices steps, and remembers the latest ones by all that they have. Several simulations may ask it at once.
type prices struct {
	predictor *analytic.Predictor // prices a step of several groups, decodes before chunks of prompts
	windows   []float64
	pass      float64 // most tokens of a forward pass
	drafted   bool
	known     map[mixture]Cost
	knowing   sync.RWMutex
}

func newPrices(p *analytic.Predictor, pass int, drafted bool) *prices {
	return &prices{predictor: p, windows: p.Windows(), pass: float64(pass), drafted: drafted, known: map[mixture]Cost{}}
}

// prices prices the steps of the server, of a pipeline those of one batch.
func (s *Server) prices() *prices {
	return newPrices(s.Predictor.OneBatch(), s.Scheduler.Pass, s.Drafts > 0)
}

// turns prices the steps of the server, of a pipeline a turn of all its batches.
func (s *Server) turns() *prices { return newPrices(s.Predictor, s.Scheduler.Pass, s.Drafts > 0) }

// mostKnown bounds how many steps are remembered.
const mostKnown = 1 << 17

// A mixture is a step of up to four groups, and the tokens of all replicas that share its experts.
type mixture struct {
	groups   [4]operator.Group
	epTokens float64
}

// again is mixed, unless an equal step was priced before.
func (p *prices) again(groups []operator.Group, together float64) Cost {
	m := mixture{epTokens: together}
	if copy(m.groups[:], groups) < len(groups) {
		return p.mixed(groups, together)
	}
	p.knowing.RLock()
	c, ok := p.known[m]
	p.knowing.RUnlock()
	if !ok {
		c = p.mixed(groups, together)
		p.knowing.Lock()
		defer p.knowing.Unlock()
		if len(p.known) >= mostKnown {
			clear(p.known)
		}
		p.known[m] = c
	}
	return c
}

// decode is the cost of a step in which n sequences with a mean context decode fresh tokens each. Its time is linear in the context
// between those where a bound changes, and jumps where chunks of attention begin: it is priced at the first and the last context of eight
// spans between powers of two.
func (p *prices) decode(n, fresh int, context, together float64) Cost {
	at := func(context float64) Cost {
		g := operator.Group{Batch: float64(n), New: float64(fresh), Past: max(context, 0.5), Logits: float64(fresh), Drafted: p.drafted}
		return p.again([]operator.Group{g}, together)
	}
	_, exponent := math.Frexp(context)
	width := math.Ldexp(1, max(exponent-4, 1))
	low := math.Floor(context/width) * width
	from := at(low)
	if context == low {
		return from
	}
	to := at(low + width - 1)
	return toward(&from, &to, (context-low)/(width-1))
}

// mixed is the cost of a step, in as many forward passes as it takes.
func (p *prices) mixed(groups []operator.Group, together float64) (sum Cost) {
	if p.pass == 0 {
		return p.predictor.StepCost(groups, together)
	}
	left, part := p.pass, []operator.Group(nil)
	flush := func() {
		if len(part) > 0 {
			c := p.predictor.StepCost(part, 0)
			sum = after(&sum, &c)
		}
		left, part = p.pass, nil
	}
	for _, g := range groups {
		for g.New > 0 {
			if left < g.Batch {
				flush()
			}
			head := g
			if head.New = min(g.New, max(float64(int(left/g.Batch)), 1)); head.New < g.New {
				head.Logits = 0
			}
			part = append(part, head)
			left -= head.New * g.Batch
			g.Past += head.New
			g.New -= head.New
		}
	}
	flush()
	return sum
}

// batch makes the groups of a step anew: decodes of sequences on either side of a
// window apart, for attention is linear in the context only there.
type batch struct {
	decodes int
	byWin   []operator.Group
	chunks  []operator.Group

	together float64 // tokens of all replicas that share its experts; 0 if each of them has as many
}

func (b *batch) reset(windows int) {
	b.decodes, b.chunks, b.together = 0, b.chunks[:0], 0
	b.byWin = slices.Grow(b.byWin[:0], windows+1)[:windows+1]
	clear(b.byWin)
}

// decode adds a sequence that gains fresh tokens after past ones.
func (b *batch) decode(windows []float64, past int) {
	b.decodes++
	b.add(windows, 1, float64(past))
}

// add adds a number of sequences with the same context.
func (b *batch) add(windows []float64, n, context float64) {
	i := 0
	for i < len(windows) && context >= windows[i] {
		i++
	}
	b.byWin[i].Batch += n
	b.byWin[i].Past += n * context
}

// chunk adds a part of a prompt; done says that it is the last.
func (b *batch) chunk(fresh, past int, done bool) {
	g := operator.Group{Batch: 1, New: float64(fresh), Past: float64(past)}
	if done {
		g.Logits = 1
	}
	if n := len(b.chunks); n > 0 {
		if l := &b.chunks[n-1]; l.New == g.New && l.Past == g.Past && l.Logits == g.Logits {
			l.Batch++
			return
		}
	}
	b.chunks = append(b.chunks, g)
}

func (b *batch) empty() bool { return b.decodes == 0 && len(b.chunks) == 0 }

// tokens is how many the step runs, with so many drafted ones for each sequence that decodes.
func (b *batch) tokens(drafts int) float64 {
	n := float64(b.decodes * (1 + drafts))
	for i := range b.chunks {
		n += b.chunks[i].Batch * b.chunks[i].New
	}
	return n
}

// cost prices a batch whose decodes verify drafts tokens each besides their own.
func (p *prices) cost(b *batch, drafts int) Cost {
	if len(b.chunks) == 0 && (p.pass == 0 || float64(b.decodes*(1+drafts)) <= p.pass) {
		return p.decodes(b, 1+drafts)
	}
	return p.again(p.groupsOf(b, drafts), b.together)
}

// decodes is the cost of a step that only decodes. A step whose sequences are on both sides of a window takes the mean of those that have
// all of them on one side: it is linear in the tokens that full attention reads and in those within the window.
func (p *prices) decodes(b *batch, fresh int) (sum Cost) {
	for i := range b.byWin {
		if g := &b.byWin[i]; g.Batch > 0 {
			c := p.decode(b.decodes, fresh, g.Past/g.Batch, b.together)
			if g.Batch == float64(b.decodes) {
				return c
			}
			sum = plus(&sum, &c, g.Batch/float64(b.decodes))
		}
	}
	return launched(sum)
}

// groupsOf is a batch as groups of sequences.
func (p *prices) groupsOf(b *batch, drafts int) (all []operator.Group) {
	fresh := float64(1 + drafts)
	for _, g := range b.byWin {
		if g.Batch > 0 {
			all = append(all, operator.Group{Batch: g.Batch, Past: g.Past / g.Batch, New: fresh, Logits: fresh, Drafted: p.drafted})
		}
	}
	return append(all, b.chunks...)
}

// plus is a cost and n times another, of a step after it.
func plus(a, b *Cost, n float64) Cost {
	return Cost{
		Time: a.Time + b.Time.Times(n), Energy: a.Energy + b.Energy.Times(n),
		Before: a.Before + b.Before.Times(n), Launch: a.Launch + b.Launch.Times(n), Waits: a.Waits + b.Waits.Times(n),
		Stage:    a.Stage + b.Stage.Times(n),
		Headroom: analytic.Headroom{Time: a.Headroom.Time + b.Headroom.Time.Times(n), Energy: a.Headroom.Energy + b.Headroom.Energy.Times(n)},
	}
}

// after is a cost and that of a step which follows at once, so that no time without work is before it.
func after(a, b *Cost) Cost {
	c := plus(a, b, 1)
	if a.Time > 0 {
		c.Headroom = a.Headroom
	}
	return c
}

// withHeadroom is the cost of a step before which a share of the time passed without work over which the power limit is held.
func withHeadroom(c Cost, share float64) Cost {
	c.Time -= c.Headroom.Time.Times(share)
	c.Energy -= c.Headroom.Energy.Times(share)
	return c
}

// scaledCost is the cost of a step on a server whose kernels and whose host are faster or slower than expected.
func scaledCost(c Cost, x *analytic.TimeScale, prompts bool) Cost {
	by := x.Decodes
	if prompts {
		by = x.Prompts
	}
	c.Time = (c.Time - c.Waits).Times(by)
	c.Stage, c.Headroom.Time = c.Stage.Times(by), c.Headroom.Time.Times(by)
	c.Before, c.Launch, c.Waits = c.Before.Times(x.Host), c.Launch.Times(x.Host), 0
	return launched(c)
}

// toward is a share of the way from one cost to another.
func toward(a, b *Cost, share float64) Cost {
	rest := plus(a, a, -share)
	return plus(&rest, b, share)
}
