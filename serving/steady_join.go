package serving

import "slices"

// An arrived is sums over the steps of a group, for the prompts that come in the windows of these steps.
type arrived struct {
	share  float64
	window float64
	square float64 // square of the window
	lead   float64 // from the forming of the next step to its begin
	leads  float64 // lead times window
}

func (a *arrived) add(window, square, lead, share float64) {
	a.share += share
	a.window += share * window
	a.square += share * square
	a.lead += share * lead
	a.leads += share * window * lead
}

// unlikelyArrival is the share of the arrivals, or of the backlogs, below which they are left out of the means over all.
const unlikelyArrival = 1e-4

// meets adds the means over the prompts that arrive: the residual window, the step that ends the prompt, and the steps after it.
func (x *chain) meets(y *cycle, all []arrived) {
	var sum arrived
	for i := range all {
		sum.add(all[i].window, all[i].square, 0, 1)
		sum.leads += all[i].leads
	}
	if x.full != nil {
		x.full.among(x)
	}
	left, none := x.leftover(), []carried{{chance: 1}}
	weights, residual := 0.0, 0.0
	for i := range all {
		a := &all[i]
		before, weight, come := none, a.window/sum.window, a.square/a.window
		if x.groups[i].full {
			before = left
		}
		if weight < unlikelyArrival {
			continue
		}
		j := joining{before: before, lead: a.lead / a.share, beside: x.rate * come}
		if x.stages > 1 {
			j.begin = x.phases.now[i]
			x.chances = x.phases.come(x.chances[:0], j.begin, x.rate*a.window/a.share)
			arrivals, left, end := x.phases.met(j.begin, x.rate*a.window/a.share)
			weight, j.end = arrivals*a.share/x.rate/sum.window, end
			residual += weight * (left*a.square/a.window + a.leads/a.window)
		}
		own, computes, behind := x.joins(&j, y.mean)
		weights += weight
		y.own += weight * own
		y.computes += weight * computes
		y.behind += weight * behind
	}
	y.own, y.computes, y.behind = y.own/weights, y.computes/weights, max(y.behind/weights, 0)*x.echo
	y.first = (sum.square/2+sum.leads)/sum.window + y.own
	if x.stages > 1 {
		y.first = residual/weights + y.own
	}
}

// leftover is the distribution of the backlogs that full steps leave, without unlikely ones.
func (x *chain) leftover() (all []carried) {
	sum := 0.0
	for b, share := range x.backlogs() {
		all = append(all, carried{b, share})
		sum += share
	}
	for i := range all {
		all[i].chance /= sum
	}
	return slices.DeleteFunc(all, func(c carried) bool { return c.chance < unlikelyArrival })
}

// A joining is what a prompt meets that comes in the windows of a group of steps.
type joining struct {
	before     []carried // backlogs
	lead       float64   // from when its step is formed to the begin of that
	beside     float64   // others that come on average
	begin, end []float64 // stages of the interval at the begin and the end of the window; nil where arrivals are Poisson
}

// joins is the step of a prompt, until the host has its token and until it ends, and by how much longer than the mean the steps after it are.
func (x *chain) joins(a *joining, mean float64) (own, computes, behind float64) {
	j := x.joined(a)
	own = j.own
	// The next step has the prompts that came until it was formed; while the host launches it, it keeps the token.
	window := j.late
	if x.async {
		window += j.lead
	}
	next, nextLate, held := x.mean(a.end, j.length-j.late, x.rate*window)
	if j.full > 0 {
		next, nextLate, held = next+j.full*(x.full.next-next), nextLate+j.full*(x.full.nextLate-nextLate), held+j.full*(x.full.nextLate-held)
	}
	if x.async {
		own += held
		own += max(min(x.out/2, x.out-(j.length-j.late)), 0) // the API server has tokens of the step before, which it got when this one was launched
	}
	if x.full != nil && x.full.piece.room < 1 {
		return own, j.own, x.full.piece.after(x.rate, j.own, mean)
	}
	behind = next - mean
	if x.async {
		after, _, _ := x.mean(nil, next-nextLate, x.rate*(j.length-j.late+nextLate))
		behind += after - mean
	}
	return own, j.own, behind
}

// besides are the probabilities of 0, 1, 2, ... prompts beside one, until the next call.
func (x *chain) besides(a *joining) []float64 {
	if a.begin == nil {
		return x.come(0, a.beside)
	}
	x.chances = x.phases.come(x.chances[:0], a.begin, a.beside)
	mean := 0.0
	for k, chance := range x.chances {
		mean += float64(k) * chance
	}
	return besides(x.chances, mean)
}

// A joined is the step that ends a prompt and brings its first token.
type joined struct {
	own          float64 // from the begin of the first step after the arrival of the prompt to the end of this one
	lead         float64 // from when it was formed to its begin
	length, late float64
	full         float64 // probability that it leaves a backlog
}

// joined is the step of a prompt.
func (x *chain) joined(a *joining) (j joined) {
	before, lead, all, chances := a.before, a.lead, 0.0, x.besides(a)
	for i := range before {
		b := &before[i]
		for q, chance := range x.arrivals(b.backlog, 1, chances) {
			t := &x.steps[q]
			length, late := x.run(q, lead)
			weight := b.chance * chance
			if all += weight; weight < 1e-6 {
				continue
			}
			if t.carried == nil {
				j.add(&joined{own: length + t.decodes, lead: lead, length: length, late: late}, weight)
				continue
			}
			j.add(x.full.joined(b.backlog, t.prompts-b.prompts-1, lead, length, late), weight)
		}
	}
	if all == 0 { // backlogs are beyond the largest
		return joined{own: x.full.length, lead: x.full.lead, length: x.full.length, late: x.full.nextLate, full: 1}
	}
	return joined{j.own / all, j.lead / all, j.length / all, j.late / all, j.full / all}
}

func (j *joined) add(k *joined, weight float64) {
	j.own += weight * k.own
	j.lead += weight * k.lead
	j.length += weight * k.length
	j.late += weight * k.late
	j.full += weight * k.full
}

// mean is the mean step that was formed a lead before its begin, with the prompts of a window in which m come on average from stages at its begin (nil for
// any), and the time for which the host keeps the tokens of the step before while it launches those prompts.
func (x *chain) mean(begin []float64, lead, m float64) (length, late, held float64) {
	if begin != nil {
		x.chances = x.phases.come(x.chances[:0], begin, m)
	} else {
		x.chances = stationary(x.chances[:0], m, x.stages)
	}
	all := 0.0
	for q, chance := range x.arrivals(backlog{}, 0, x.chances) {
		l, a := x.run(q, lead)
		length, late, all = length+chance*l, late+chance*a, all+chance
		if x.steps[q].prompts >= x.peers { // fewer go to other replicas
			held += chance * a
		}
	}
	return length / all, late / all, held
}
