package serving

import "llmprof/unit"

// The steps that an arriving prompt meets are not the mean steps: it falls into a window between the forming of two steps in proportion to
// the window's length (Kleinrock, Queueing Systems I, 1975, section 5.2), others come in the same window, and the step that they lengthen
// gives those after it more prompts.

// A meeting is sums over the steps of a group, for the prompts that come in the windows of these steps.
type meeting struct {
	share  float64
	window float64
	square float64 // square of the window
	lead   float64 // from the forming of the next step to its begin
	leads  float64 // lead times window
}

func (a *meeting) add(window, square, lead, share float64) {
	a.share += share
	a.window += share * window
	a.square += share * square
	a.lead += share * lead
	a.leads += share * window * lead
}

// unlikelyArrival is the share of the arrivals below which they are left out of the means over all.
const unlikelyArrival = 1e-4

// meets adds the means over the prompts that arrive: the residual window, the step of the prompt, and the steps after it.
func (x *chain) meets(y *cycle, all []meeting) {
	windows, weights := 0.0, 0.0
	for i := range all {
		windows += all[i].window
	}
	for i := range all {
		a := &all[i]
		weight, left := a.window/windows, a.square/2
		if weight < unlikelyArrival {
			continue
		}
		var begin, end []float64 // stages of the interval at the begin and the end of the window; nil where arrivals are Poisson
		if x.stages > 1 {
			m := x.rate * a.window / a.share
			begin = x.phases.now[i]
			x.chances = x.phases.come(x.chances[:0], begin, m)
			var arrivals, share float64
			arrivals, share, end = x.phases.met(begin, m)
			weight, left = arrivals*a.share/x.rate/windows, share*a.square
		}
		own, computes, excess := x.serves(a.lead/a.share, y.mean, x.besides(begin, x.rate*a.square/a.window), end)
		weights += weight
		y.first += weight * ((left+a.leads)/a.window + own)
		y.computes += weight * computes
		y.excess += weight * excess
	}
	y.first, y.computes, y.excess = y.first/weights, y.computes/weights, max(y.excess/weights, 0)*x.echo
}

// besides are the probabilities of 0, 1, 2, ... prompts beside one where m come on average, until the next call.
func (x *chain) besides(begin []float64, m float64) []float64 {
	if begin == nil {
		return x.come(0, m)
	}
	x.chances = x.phases.come(x.chances[:0], begin, m)
	mean := 0.0
	for k, chance := range x.chances {
		mean += float64(k) * chance
	}
	return besides(x.chances, mean)
}

// serves is the step of a prompt that was formed a lead before its begin, with 0, 1, 2, ... others by their chances: the time until the
// host has the token of the prompt and until the step ends, and by how much longer than the mean the steps after it are.
func (x *chain) serves(before, mean float64, others, end []float64) (own, computes, excess float64) {
	all, length, late := 0.0, 0.0, 0.0
	for q, chance := range x.arrivals(1, others) {
		l, a := x.run(q, before)
		all += chance
		computes += chance * (l + x.kinds[q].decodes)
		length += chance * l
		late += chance * a
	}
	computes, length, late = computes/all, length/all, late/all
	// The next step has the prompts that came until it was formed; while the host launches it, it keeps the token.
	lead, window := length-late, late
	if x.async {
		window += before
	}
	next, nextLate, held := x.step(end, lead, x.rate*window)
	own, excess = computes, next-mean
	if x.async {
		own += held
		own += max(min(x.out/2, x.out-lead), 0) // the API server has tokens of the step before, which it got when this one was launched
		after, _, _ := x.step(nil, next-nextLate, x.rate*(lead+nextLate))
		excess += after - mean
	}
	return own, computes, excess
}

// step is the mean step that was formed a lead before its begin, with the prompts of a window in which m come on average from stages at
// its begin (nil for any), and the time for which the host keeps the tokens of the step before while it launches those prompts.
func (x *chain) step(begin []float64, lead, m float64) (length, late, held float64) {
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
