package serving

import (
	"iter"
	"math"
	"slices"

	"llmprof/unit"
)

// A group is the kinds of steps that take about as long, so that one distribution of the steps after them serves all of them. Its sums are over the
// stationary distribution of the chain.
type group struct {
	plain, full bool    // its steps only decode; its steps leave a backlog
	bin         float64 // times of its steps in widths of a bin
	lead        float64 // from the forming of the next step to its begin
	spread      float64 // variance of the time
	behind      float64 // time by which the host falls behind in each step that only decodes; 0 if it does not
	gained      float64 // lead that the host has after the first of them
	ahead       float64 // share of the others before which it still has some

	share   float64
	begins  float64 // share of its steps before which there is one of another group
	gains   float64 // leads after these
	leads   float64
	spreads float64
	windows [3]float64 // sums of the first three powers of the window: the time from the forming of such a step to that of the next one
}

// alike is the width of a group's bin over the time in which as many prompts come as the standard deviation of their number in a step.
const alike = 0.25

// gather puts the kinds into groups and finds the first of each backlog.
func (x *chain) gather(m float64) {
	width := alike * math.Sqrt(m) / x.rate
	x.groups, x.of, x.starts[0], x.starts[1] = x.groups[:0], x.of[:0], x.starts[0][:0], x.starts[1][:0]
	for i := range x.steps {
		t := &x.steps[i]
		g := group{plain: t.backlog == backlog{}, full: t.carried != nil, bin: math.Floor(t.time / width), spread: t.spread}
		if x.async {
			g.lead = t.time
			if g.plain {
				g.behind = max(t.before+t.launch-(t.time-t.waits[0]), 0)
			}
		}
		if t.group = slices.IndexFunc(x.groups, g.holds); t.group < 0 {
			t.group = len(x.groups)
			x.groups = append(x.groups, g)
		}
		x.of = append(x.of, t.group)
		starts := &x.starts[t.begun()]
		for len(*starts) <= t.prompts {
			*starts = append(*starts, i)
		}
		x.ends[t.begun()] = i
	}
	for i := range x.left {
		x.left[i] = slices.Grow(x.left[i][:0], len(x.starts[i]))[:len(x.starts[i])]
		clear(x.left[i])
	}
}

// holds reports whether the steps of another group belong to this one.
func (g *group) holds(o group) bool {
	return g.full && o.full || !g.plain && !o.plain && g.full == o.full && g.bin == o.bin
}

// begun is 1 for a backlog with the rest of a prompt.
func (b *backlog) begun() int {
	if b.rest {
		return 1
	}
	return 0
}

// come are the probabilities of 0, 1, 2, ... prompts in a window of a step of a group where m come on average, until the next call.
func (x *chain) come(group int, m float64) []float64 {
	if x.stages == 1 {
		x.chances = poissonChances(x.chances[:0], m)
	} else {
		x.chances = x.phases.come(x.chances[:0], x.phases.now[group], m)
	}
	return x.chances
}

// arrivals are the kinds of the step that follows, each with its probability: it has a backlog, some prompts besides that are certain, and further ones
// of which 0, 1, 2, ... come with the given chances.
func (x *chain) arrivals(b backlog, besides int, chances []float64) iter.Seq2[int, float64] {
	return func(yield func(int, float64) bool) {
		starts, least := x.starts[b.begun()], b.prompts+besides
		if least >= len(starts) {
			return
		}
		for i := starts[least]; i < len(x.steps); i++ {
			t := &x.steps[i]
			if come := t.prompts - least; t.rest != b.rest || come < 0 || come >= len(chances) || !yield(i, chances[come]*t.share) {
				return
			}
		}
	}
}

// add adds the probability of each kind of step after a backlog, times a weight. Backlogs beyond the largest count as the largest.
func (x *chain) add(all []float64, b backlog, chances []float64, weight float64) {
	rest, steps, first := weight, x.steps, len(x.steps)
	if starts := x.starts[b.begun()]; b.prompts < len(starts) {
		first = starts[b.prompts]
	}
	for i := first; i < len(steps); i++ { // as arrivals, which takes longer
		t := &steps[i]
		come := t.prompts - b.prompts
		if t.rest != b.rest || come < 0 || come >= len(chances) {
			break
		}
		chance := weight * (chances[come] * t.share)
		all[i] += chance
		rest -= chance
		if x.stages > 1 {
			x.phases.enter(t.group, come, weight*t.share)
		}
	}
	all[x.ends[b.begun()]] += rest
}

// negligible is the share of the steps below which some play no part.
const negligible = 1e-7

// turn applies the transition probabilities of the chain once, and gives the mean length of a step.
func (x *chain) turn() (mean float64) {
	for i := range x.groups {
		g := &x.groups[i]
		g.share, g.begins, g.gains, g.leads, g.spreads, g.windows = 0, 0, 0, 0, 0, [3]float64{}
		clear(x.next[i])
	}
	for i := range x.groups {
		mean += x.follow(&x.groups[i], x.shares[i])
	}
	for i := range x.groups {
		g := &x.groups[i]
		if g.share == 0 {
			continue
		}
		if g.spread = g.spreads / g.share; x.async {
			g.lead = g.leads / g.share
		}
		if g.behind > 0 && g.begins > 0 {
			g.gained = g.gains / g.begins
			g.ahead = 1 - math.Pow(1-min(g.begins/g.share, 1), g.gained/g.behind)
		}
		if !g.full {
			a, b, ofA, ofB := g.points()
			x.add(x.next[i], backlog{}, x.come(i, x.rate*a), ofA)
			if ofB > 0 {
				x.add(x.next[i], backlog{}, x.come(i, x.rate*b), ofB)
			}
		}
	}
	x.shares, x.next = x.next, x.shares
	x.phases.turn()
	x.balance()
	return mean
}

// follow adds the windows of the steps that come after those of a group, and gives their part of the mean length of a step.
func (x *chain) follow(before *group, shares []float64) (mean float64) {
	full, fullWindow := -1, 0.0
	for j, share := range shares {
		if share < negligible {
			continue
		}
		t := &x.steps[j]
		g := &x.groups[t.group]
		length, late := x.after(before, j)
		window := x.window(before, j, length, late)
		mean += share * length
		if g.share += share; g != before {
			g.begins += share
			g.gains += share * (length - late)
		}
		g.leads += share * (length - late)
		g.spreads += share * t.spread
		g.windows[0] += share * window
		g.windows[1] += share * window * window
		g.windows[2] += share * window * window * window
		if g.full {
			full, fullWindow = t.group, window
			x.leave(t, share)
		}
	}
	if full >= 0 {
		chances := x.come(full, x.rate*fullWindow)
		for b, share := range x.backlogs() {
			x.add(x.next[full], b, chances, share)
		}
	}
	return mean
}

// leave adds the backlogs that a share of full steps leaves.
func (x *chain) leave(t *timed, share float64) {
	for i := range t.carried {
		c := &t.carried[i]
		left := x.left[c.begun()]
		left[min(c.prompts, len(left)-1)] += share * c.chance
	}
}

// backlogs empties the sums of the backlogs that were left, and gives each with its share.
func (x *chain) backlogs() iter.Seq2[backlog, float64] {
	return func(yield func(backlog, float64) bool) {
		for begun, left := range x.left {
			for prompts, share := range left {
				left[prompts] = 0
				if share > negligible && !yield(backlog{prompts, begun > 0}, share) {
					return
				}
			}
		}
	}
}

// points are two windows, and the share of the steps that has each: the distribution on two points with the first three moments of the windows, and so
// of the numbers of prompts that come in them.
func (g *group) points() (a, b, ofA, ofB float64) {
	mean := g.windows[0] / g.share
	variance := g.windows[1]/g.share - mean*mean
	if variance < 1e-4*mean*mean || g.share < 1e-3 { // two make no difference
		return mean, mean, g.share, 0
	}
	deviation := math.Sqrt(variance)
	skew := (g.windows[2]/g.share - mean*(3*variance+mean*mean)) / (variance * deviation)
	half := math.Sqrt(skew*skew+4) / 2
	high, low := skew/2+half, skew/2-half
	return max(mean+high*deviation, 0), max(mean+low*deviation, 0), g.share * -low / (high - low), g.share * high / (high - low)
}

// run is the length of a step of a kind that was formed a lead before its begin, and the time from its begin until the next one is formed.
func (x *chain) run(kind int, lead float64) (length, late float64) {
	if t := &x.steps[kind]; !x.async {
		return t.time, t.time
	}
	return x.steps[kind].run(lead)
}

// after is the mean length of a step of a kind after one of a group, and the mean time from its begin until the next one is formed.
//
// Where a step that only decodes takes the host longer to launch than the GPU to run, the host falls behind by the difference in each of them. A step
// with prompts may let it form the next steps ahead, which do not wait for launches until the lead is lost. The numbers of steps that only decode between
// those with prompts have a geometric distribution, which says for how many of them it is not.
func (x *chain) after(before *group, kind int) (length, late float64) {
	if before.behind == 0 || x.steps[kind].group != x.of[0] {
		return x.run(kind, before.lead)
	}
	t := &x.steps[kind]
	lengthAhead, lateAhead := x.run(kind, max(before.gained/2, t.before+t.waits[0])) // between the lead at the begin and none
	length, late = x.run(kind, 0)
	return length + before.ahead*(lengthAhead-length), late + before.ahead*(lateAhead-late)
}

// window is the time from the forming of a step to that of the next one, in which the prompts of that one come. It depends on one kind alone: on the
// step before where the host has launched the step by its begin, and on the step itself where the GPU waits for the launch.
func (x *chain) window(before *group, kind int, length, late float64) float64 {
	switch t := &x.steps[kind]; {
	case !x.async:
		return late
	case late > 0 && late < length:
		return t.before + t.launch
	}
	return before.lead + late
}

// balance makes the shares sum to 1, and as many steps follow a group as belong to it, which holds for the stationary distribution: where steps are
// formed ahead the iteration needs half as many turns with it.
func (x *chain) balance() {
	sum, groups, of := 0.0, x.groups, x.of
	for i := range groups {
		groups[i].share = 0
	}
	for i, row := range x.shares {
		leads := 0.0
		for j, share := range row {
			leads += share
			groups[of[j]].share += share
			sum += share
		}
		groups[i].leads = leads
	}
	for i, row := range x.shares {
		g := &groups[i]
		scale := g.share / max(g.leads, 1e-300) / sum
		for j := range row {
			row[j] *= scale
		}
	}
}

// solve iterates the chain to its stationary distribution.
func (x *chain) solve() {
	mean, last := 0.0, 0.0 // mean step of the turn before, and by how much that turn changed it
	for i := range 100 {
		now := x.turn()
		more := now - mean
		ratio := more / last
		mean, last = now, more
		if math.Abs(more) < settles*mean*(1-min(max(ratio, 0.5), 0.99)) {
			break
		}
		if i%3 == 2 && ratio > 0 && ratio < 0.95 {
			x.extrapolate(ratio / (1 - ratio))
		}
	}
}

// extrapolate adds a multiple of what the last turn changed.
func (x *chain) extrapolate(times float64) {
	for i, row := range x.shares {
		for j, before := range x.next[i] {
			row[j] = unit.Larger(row[j]+times*(row[j]-before), 0)
		}
	}
	x.balance()
}

// settles is by how much, as a share of the mean step, the turns that are left may change it.
const settles = 2e-4

// means are the means over the steps of the chain, and what prompts meet that come in the windows of each group.
func (x *chain) means(p *piece) (*cycle, []arrived) {
	y, all := &cycle{kinds: make([]kind, len(x.steps))}, make([]arrived, len(x.groups))
	for i := range x.groups {
		before := &x.groups[i]
		for j, share := range x.shares[i] {
			if share < negligible {
				continue
			}
			t := &x.steps[j]
			length, late := x.after(before, j)
			window, spread := x.window(before, j, length, late), t.spread
			if x.async {
				spread = before.spread
			}
			own := &y.kinds[j]
			own.share += share
			own.length += share * length
			own.late += share * late
			all[t.group].add(window, window*window+spread, length-late, share)
			y.energy += share * (t.energy + x.idle*(length-t.time))
			x.leave(t, share)
		}
	}
	decodes := 0.0
	for j := range y.kinds {
		own := &y.kinds[j]
		y.mean += own.length
		decodes += own.share
		if p.apart { // replicas with prompts do not decode, others that share their experts do
			decodes -= own.share * min(float64(x.steps[j].waiting())/p.flow.peers, 1)
		}
		if own.share > 0 {
			own.length, own.late = own.length/own.share, own.late/own.share
		}
	}
	y.plain = y.kinds[0].share
	y.decode, y.energy = y.mean/decodes, y.energy/decodes
	return y, all
}
