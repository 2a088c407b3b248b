package serving

import "slices"

// An arrived is what prompts meet that come in the windows of a group of steps: sums over the steps.
type arrived struct {
	share  float64
	window float64
	square float64 // square of the window
	lead   float64 // lead of the next step: from when it is formed to its begin
	leads  float64 // lead times window
}

func (a *arrived) add(window, square, lead, share float64) {
	a.share += share
	a.window += share * window
	a.square += share * square
	a.lead += share * lead
	a.leads += share * window * lead
}

// unlikelyArrival is the share of the arrivals, or of the backlogs, below which what they meet is taken for that of the others.
const unlikelyArrival = 1e-4

// meets adds what prompts meet: their own step with those that came besides, and what follows it.
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
	weights := 0.0
	for i := range all {
		a := &all[i]
		before, weight, come := none, a.window/sum.window, a.square/a.window
		if x.groups[i].full {
			before = left
		}
		if x.closed {
			weight, come = a.share, a.window/a.share
		}
		if weight < unlikelyArrival {
			continue
		}
		own, computes, behind := x.joins(before, a.lead/a.share, x.rate*come, y.mean)
		weights += weight
		y.own += weight * own
		y.computes += weight * computes
		y.behind += weight * behind
	}
	y.own, y.computes, y.behind = y.own/weights, y.computes/weights, max(y.behind/weights, 0)*x.echo
	if x.closed {
		y.behind = 0
	}
	y.first = (sum.square/2+sum.leads)/sum.window + y.own
}

// leftover is the backlogs that full steps leave but for unlikely ones.
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

// joins is the step of a prompt that was formed so long ahead, after some backlogs and with m others on average, until the
// host has its token and until it ends, and by how much longer than the mean the steps after it are.
func (x *chain) joins(before []carried, lead, m, mean float64) (own, computes, behind float64) {
	j := x.joined(before, lead, m)
	own = j.own
	// The next step has the prompts that came until it was formed; while the host launches it, it keeps the token.
	window := j.late
	switch {
	case x.closed && x.async: // requests come a while after the ends of steps: of the one before last, and of the last if there is time until the next is formed
		window = mean
		if j.late > x.way {
			window += mean
		}
	case x.async:
		window += j.lead
	}
	next, nextLate, held := x.mean(j.length-j.late, x.rate*window)
	if j.full > 0 {
		next, nextLate, held = next+j.full*(x.full.next-next), nextLate+j.full*(x.full.nextLate-nextLate), held+j.full*(x.full.nextLate-held)
	}
	if x.async {
		own += held
		own += max(min(x.out/2, x.out-(j.length-j.late)), 0) // the output of the step before came out when it was launched
	}
	if x.full != nil && x.full.piece.room < 1 {
		return own, j.own, x.full.piece.after(x.rate, j.own, mean)
	}
	behind = next - mean
	if x.async {
		after, _, _ := x.mean(next-nextLate, x.rate*(j.length-j.late+nextLate))
		behind += after - mean
	}
	return own, j.own, behind
}

// A joined is the step that brings the first token of a prompt.
type joined struct {
	own          float64 // from the begin of the first step after its arrival to the end of this one
	lead         float64 // from when it was formed to its begin
	length, late float64
	full         float64 // probability that it leaves a backlog
}

// joined is the step of a prompt that follows backlogs, so long ahead, with m others on average.
func (x *chain) joined(before []carried, lead, m float64) (j joined) {
	all, chances := 0.0, x.besides(m)
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
	if all == 0 { // the largest backlog that is counted
		return joined{own: x.full.length, lead: x.full.lead, length: x.full.length, late: x.full.nextLate, full: 1}
	}
	return joined{j.own / all, j.lead / all, j.length / all, j.late / all, j.full / all}
}

// add adds a step of so much weight.
func (j *joined) add(k *joined, weight float64) {
	j.own += weight * k.own
	j.lead += weight * k.lead
	j.length += weight * k.length
	j.late += weight * k.late
	j.full += weight * k.full
}

// mean is a step that was formed so long ahead, with the prompts that come at a mean of m, and how long the host keeps the tokens of the step
// before it while it launches those prompts.
func (x *chain) mean(lead, m float64) (length, late, held float64) {
	all := 0.0
	for q, chance := range x.arrivals(backlog{}, 0, x.come(m)) {
		l, a := x.run(q, lead)
		length, late, all = length+chance*l, late+chance*a, all+chance
		if x.steps[q].prompts >= x.peers { // fewer go to other replicas
			held += chance * a
		}
	}
	return length / all, late / all, held
}
