package serving

import "llmprof/unit"

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

// unlikelyArrival is the share of the arrivals below which they are left out of the means over all.
const unlikelyArrival = 1e-4

// meets adds the means over the prompts that arrive: the residual window, the step that ends the prompt, and the steps after it.
func (x *chain) meets(y *cycle, all []arrived) {
	var sum arrived
	for i := range all {
		sum.add(all[i].window, all[i].square, 0, 1)
		sum.leads += all[i].leads
	}
	weights, residual, first := 0.0, 0.0, 0.0
	for i := range all {
		a := &all[i]
		weight, come := a.window/sum.window, a.square/a.window
		if weight < unlikelyArrival {
			continue
		}
		j := joining{lead: a.lead / a.share, beside: x.rate * come}
		if x.stages > 1 {
			j.begin = x.phases.now[i]
			x.chances = x.phases.come(x.chances[:0], j.begin, x.rate*a.window/a.share)
			arrivals, left, end := x.phases.met(j.begin, x.rate*a.window/a.share)
			weight, j.end = arrivals*a.share/x.rate/sum.window, end
			residual += weight * (left*a.square/a.window + a.leads/a.window)
		}
		own, computes, excess := x.joins(&j, y.mean)
		weights += weight
		first += weight * own
		y.computes += weight * computes
		y.excess += weight * excess
	}
	y.computes, y.excess = y.computes/weights, max(y.excess/weights, 0)*x.echo
	y.first = (sum.square/2+sum.leads)/sum.window + first/weights
	if x.stages > 1 {
		y.first = (residual + first) / weights
	}
}

// A joining is what a prompt meets that comes in the windows of a group of steps.
type joining struct {
	lead       float64   // from when its step is formed to the begin of that
	beside     float64   // others that come on average
	begin, end []float64 // stages of the interval at the begin and the end of the window; nil where arrivals are Poisson
}

// joins is the step of a prompt, until the host has its token and until it ends, and by how much longer than the mean the steps after it are.
func (x *chain) joins(a *joining, mean float64) (own, computes, excess float64) {
	j := x.joined(a)
	own = j.own
	// The next step has the prompts that came until it was formed; while the host launches it, it keeps the token.
	lead, window := j.length-j.late, j.late
	if x.async {
		window += a.lead
	}
	next, nextLate, held := x.mean(a.end, lead, x.rate*window)
	excess = next - mean
	if x.async {
		own += held
		own += max(min(x.out/2, x.out-lead), 0) // the API server has tokens of the step before, which it got when this one was launched
		after, _, _ := x.mean(nil, next-nextLate, x.rate*(lead+nextLate))
		excess += after - mean
	}
	return own, j.own, excess
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
	length, late float64
}

// joined is the step of a prompt.
func (x *chain) joined(a *joining) (j joined) {
	all := 0.0
	for q, chance := range x.arrivals(1, x.besides(a)) {
		length, late := x.run(q, a.lead)
		all += chance
		j.own += chance * (length + x.kinds[q].decodes)
		j.length += chance * length
		j.late += chance * late
	}
	return joined{j.own / all, j.length / all, j.late / all}
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
	for q, chance := range x.arrivals(0, x.chances) {
		l, a := x.run(q, lead)
		length, late, all = length+chance*l, late+chance*a, all+chance
		if k := &x.kinds[q]; k.prompts >= x.peers { // fewer go to other replicas
			held += chance * unit.Smaller(a, unit.Larger(k.hold-(lead-k.before), 0))
		}
	}
	return length / all, late / all, held
}
