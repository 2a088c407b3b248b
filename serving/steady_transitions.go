package serving

import (
	"iter"
	"math"
	"slices"

	"llmprof/unit"
)

// A step has the prompts that came in a window: from the forming of the step before it to its own. Where scheduling is asynchronous a step
// is formed while the one before it runs, as soon as the host has launched that one, so that windows depend on both. The power iteration
// below has the stationary distribution.

// A group is the kinds of steps that take about as long, so that one distribution of the steps after them serves all of them. Its sums are
// over the stationary distribution of the chain.
type group struct {
	plain  bool    // its steps only decode
	bin    float64 // times of its steps in widths of a bin
	lead   float64 // from the forming of the next step to its begin
	spread float64 // variance of the time
	lag    float64 // time by which the host falls behind in each step that only decodes; 0 if it does not
	slack  float64 // lead that the host has after the first of them
	ahead  float64 // share of the others before which it still has some

	share   float64
	begins  float64 // share of its steps before which there is one of another group
	gains   float64 // leads after these
	leads   float64
	spreads float64
	windows [3]float64 // sums of the first three powers of the window: the time from the forming of such a step to that of the next one
}

// alike is the width of a group's bin over the time in which as many prompts come as the standard deviation of their number in a step.
const alike = 0.25

// gather puts the kinds into groups and finds the first kind of each number of prompts.
func (x *chain) gather(m float64) {
	width := alike * math.Sqrt(m) / x.rate
	x.groups, x.of, x.starts = x.groups[:0], x.of[:0], x.starts[:0]
	for i := range x.kinds {
		k := &x.kinds[i]
		g := group{plain: k.prompts == 0, bin: math.Floor(k.time / width), spread: k.spread}
		if x.async {
			g.lead = k.time
			if g.plain {
				g.lag = max(k.before+k.launch-(k.time-k.waits[0]), 0)
			}
		}
		if k.group = slices.IndexFunc(x.groups, func(o group) bool { return !g.plain && !o.plain && g.bin == o.bin }); k.group < 0 {
			k.group = len(x.groups)
			x.groups = append(x.groups, g)
		}
		x.of = append(x.of, k.group)
		for len(x.starts) <= k.prompts {
			x.starts = append(x.starts, i)
		}
	}
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

// arrivals are the kinds of the step that follows, each with its probability: it has some prompts that are certain, and further ones of
// which 0, 1, 2, ... come with the given chances.
func (x *chain) arrivals(certain int, chances []float64) iter.Seq2[int, float64] {
	return func(yield func(int, float64) bool) {
		if certain >= len(x.starts) {
			return
		}
		for i := x.starts[certain]; i < len(x.kinds); i++ {
			k := &x.kinds[i]
			if come := k.prompts - certain; come >= len(chances) || !yield(i, chances[come]*k.share) {
				return
			}
		}
	}
}

// add adds the probability of each kind of step, times a weight. More prompts than the largest kind has count as those of the largest.
func (x *chain) add(all, chances []float64, weight float64) {
	rest, kinds := weight, x.kinds
	for i := range kinds { // as arrivals, which takes longer
		k := &kinds[i]
		if k.prompts >= len(chances) {
			break
		}
		chance := weight * (chances[k.prompts] * k.share)
		all[i] += chance
		rest -= chance
		if x.stages > 1 {
			x.phases.enter(k.group, k.prompts, weight*k.share)
		}
	}
	all[len(kinds)-1] += rest
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
		if g.lag > 0 && g.begins > 0 {
			g.slack = g.gains / g.begins
			g.ahead = 1 - math.Pow(1-min(g.begins/g.share, 1), g.slack/g.lag)
		}
		a, b, ofA, ofB := g.points()
		x.add(x.next[i], x.come(i, x.rate*a), ofA)
		if ofB > 0 {
			x.add(x.next[i], x.come(i, x.rate*b), ofB)
		}
	}
	x.shares, x.next = x.next, x.shares
	x.phases.turn()
	x.balance()
	return mean
}

// follow adds the windows of the steps that come after those of a group, and gives their part of the mean length of a step.
func (x *chain) follow(before *group, shares []float64) (mean float64) {
	for j, share := range shares {
		if share < negligible {
			continue
		}
		k := &x.kinds[j]
		g := &x.groups[k.group]
		length, late := x.after(before, j)
		window := x.window(before, j, length, late)
		mean += share * length
		if g.share += share; g != before {
			g.begins += share
			g.gains += share * (length - late)
		}
		g.leads += share * (length - late)
		g.spreads += share * k.spread
		g.windows[0] += share * window
		g.windows[1] += share * window * window
		g.windows[2] += share * window * window * window
	}
	return mean
}

// points are two windows, and the share of the steps that has each: the distribution on two points with the first three moments of the
// windows, and so of the numbers of prompts that come in them.
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
	if k := &x.kinds[kind]; !x.async {
		return k.time, k.time
	}
	return x.kinds[kind].run(lead)
}

// after is the mean length of a step of a kind after one of a group, and the mean time from its begin until the next one is formed.
//
// Where a step that only decodes takes the host longer to launch than the GPU to run, the host falls behind by the difference in each of
// them. A step with prompts may let it form the next steps ahead, which do not wait for launches until the lead is lost. The numbers of
// steps that only decode between those with prompts have a geometric distribution, which says for how many of them it is not.
func (x *chain) after(before *group, kind int) (length, late float64) {
	if before.lag == 0 || x.kinds[kind].group != x.of[0] {
		return x.run(kind, before.lead)
	}
	k := &x.kinds[kind]
	lengthAhead, lateAhead := x.run(kind, max(before.slack/2, k.before+k.waits[0])) // between the lead at the begin and none
	length, late = x.run(kind, 0)
	return length + before.ahead*(lengthAhead-length), late + before.ahead*(lateAhead-late)
}

// window is the time from the forming of a step to that of the next one, in which the prompts of that one come. It depends on one kind
// alone: on the step before where the host has launched the step by its begin, and on the step itself where the GPU waits for the launch.
func (x *chain) window(before *group, kind int, length, late float64) float64 {
	switch k := &x.kinds[kind]; {
	case !x.async:
		return late
	case late > 0 && late < length:
		return k.before + k.launch
	}
	return before.lead + late
}

// balance makes the shares sum to 1, and as many steps follow a group as belong to it, which holds for the stationary distribution: where
// steps are formed ahead the iteration needs half as many turns with it.
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
func (x *chain) means(p *level) (*cycle, []meeting) {
	y, all := &cycle{}, make([]meeting, len(x.groups))
	decodes := 0.0
	for i := range x.groups {
		before := &x.groups[i]
		for j, share := range x.shares[i] {
			if share < negligible {
				continue
			}
			k := &x.kinds[j]
			length, late := x.after(before, j)
			window, spread := x.window(before, j, length, late), k.spread
			if x.async {
				spread = before.spread
			}
			all[k.group].add(window, window*window+spread, length-late, share)
			y.mean += share * length
			y.energy += share * (k.energy + x.idle*(length-k.time))
			if decodes += share; k.prompts == 0 {
				y.plain += share
			}
			if p.apart { // replicas with prompts do not decode, others that share their experts do
				decodes -= share * min(float64(k.prompts)/p.flow.peers, 1)
			}
		}
	}
	y.decode, y.energy = y.mean/decodes, y.energy/decodes
	return y, all
}
