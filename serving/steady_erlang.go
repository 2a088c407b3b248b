package serving

import "math"

// A router that gives requests to replicas in turn brings each of R replicas every R-th arrival of a Poisson process: a renewal process
// whose intervals have an Erlang distribution of R stages. The stages that arrivals have passed are a Poisson process of R times the rate,
// so that numbers of arrivals follow from its. R is 1 for one replica, whose arrivals are Poisson.

// mostStages bounds the stages of an interval: intervals of more stages vary little less.
const mostStages = 16

// behindRouter sets the stages of the intervals at one of several queues that a router serves in turn.
func (f *flow) behindRouter(units float64) {
	stages := min(max(int(units+0.5), 1), mostStages)
	if stages != f.stages {
		f.stages = stages
		clear(f.cycles)
	}
}

// stationary appends the probabilities of 0, 1, 2, ... arrivals in a time that begins at any moment, in which m come on average.
func stationary(all []float64, m float64, stages int) []float64 {
	if stages == 1 {
		return poissonChances(all, m)
	}
	passed := stagesPassed(nil, anyStage[:stages], m)
	for t := range passed {
		passed[t] /= float64(stages)
	}
	return arrivalsOf(all, passed, stages)
}

// arrivalsOf appends the probabilities of 0, 1, 2, ... arrivals from those of 0, 1, 2, ... stages.
func arrivalsOf(all, passed []float64, stages int) []float64 {
	from := len(all)
	for t, chance := range passed {
		for len(all) <= from+t/stages {
			all = append(all, 0)
		}
		all[from+t/stages] += chance
	}
	return all
}

// anyStage is a weight of 1 for each stage.
var anyStage = [mostStages]float64{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}

// poissonChances appends the probabilities of a Poisson distribution.
func poissonChances(all []float64, m float64) []float64 {
	for k, chance := 0.0, math.Exp(-m); chance > negligible || k < m; chance *= m / k {
		all = append(all, chance)
		k++
	}
	return all
}

// stagesPassed appends the probabilities of 0, 1, 2, ... stages at the end of a time in which m arrivals come on average, with those of
// its begin counted.
func stagesPassed(all, begin []float64, m float64) []float64 {
	expected, from := m*float64(len(begin)), len(all)
	for i, chance := 0, math.Exp(-expected); chance > negligible || float64(i) < expected; chance *= expected / float64(i) {
		for len(all) < from+i+len(begin) {
			all = append(all, 0)
		}
		for stage, weight := range begin {
			all[from+i+stage] += weight * chance
		}
		i++
	}
	return all
}

// besides turns the probabilities of numbers of arrivals, m on average, into those of the further ones that an arrival meets: a number of
// arrivals is met as often as there are of them.
func besides(chances []float64, m float64) []float64 {
	if len(chances) < 2 || m <= 0 { // others are negligible
		return append(chances[:0], 1)
	}
	for k := range chances[1:] {
		chances[k] = chances[k+1] * float64(k+1) / m
	}
	return chances[:len(chances)-1]
}

// birth is the probability of n sequences over that of one fewer in a queue with infinitely many servers and m sequences on average. For
// Poisson arrivals it is m/n. For intervals of R stages the variance of the number is 1 - (1 - 1/R) E[min(S, S')]/E[S] of its mean, S and
// S' being service times (Whitt, "Heavy-traffic approximations for service systems with blocking", 1984): the number is taken for that of
// arrivals with as many stages as have this variance, which is exact for answers of one length.
func (f *flow) birth(n int, m float64) float64 {
	stages := 1
	if f.stages > 1 {
		stages = int(math.Round(1 / (1 - (1-1/float64(f.stages))*f.shorter)))
	}
	if stages == 1 || m < 1e-6 { // two at once play no part
		return m / float64(n)
	}
	r, expected := float64(stages), m*float64(stages)
	ratio := nearStages(n, stages, expected) / nearStages(n-1, stages, expected)
	for i := range stages {
		ratio *= expected / (float64(n-1)*r + float64(i+1))
	}
	return ratio
}

// nearStages is the probability of n arrivals in a stationary process over that of n times as many stages as an interval has.
func nearStages(n, stages int, expected float64) float64 {
	sum, up, down := 1.0, 1.0, 1.0
	for d := 1; d < stages; d++ {
		share := 1 - float64(d)/float64(stages)
		up *= expected / float64(n*stages+d)
		down *= float64(max(n*stages-d+1, 0)) / expected
		sum += share * (up + down)
	}
	return sum
}

// shorter is the mean of the shorter of two lengths over the mean of one.
func (l *Lengths) shorter() (mean float64) {
	all := l.Quantiles()
	for _, a := range all {
		for _, b := range all {
			mean += float64(min(a, b))
		}
	}
	return mean / float64(len(all)*len(all)) / l.MeanLength()
}

// A phases is what a chain knows of the stages of intervals that were passed when steps were formed.
type phases struct {
	now, next [][]float64 // of the steps of each group: the shares of those formed at each stage
	passed    []float64   // stages at the end of the window that come was asked for last
}

// begin lets all stages be equally likely.
func (p *phases) begin(groups, stages int) {
	p.now, p.next = p.now[:0], p.next[:0]
	for range groups {
		all := make([]float64, 2*stages)
		for i := range stages {
			all[i] = 1 / float64(stages)
		}
		p.now, p.next = append(p.now, all[:stages:stages]), append(p.next, all[stages:])
	}
}

// turn goes to the stages that were entered.
func (p *phases) turn() {
	for i, next := range p.next {
		sum := 0.0
		for _, share := range next {
			sum += share
		}
		for j, share := range next {
			if next[j] = 0; sum > negligible {
				p.now[i][j] = share / sum
			}
		}
	}
}

// enter enters the stages after some arrivals, for the steps of a group.
func (p *phases) enter(group, arrivals int, weight float64) {
	next := p.next[group]
	for stage := range next {
		if t := arrivals*len(next) + stage; t < len(p.passed) {
			next[stage] += weight * p.passed[t]
		}
	}
}

// come appends the probabilities of 0, 1, 2, ... arrivals in a window in which m come on average, from stages at its begin.
func (p *phases) come(all, begin []float64, m float64) []float64 {
	p.passed = stagesPassed(p.passed[:0], begin, m)
	return arrivalsOf(all, p.passed, len(begin))
}

// met is the mean number of arrivals in a window that begins at some stages, by which come was asked last, their mean time to its end over
// the window, and the stages at its end that they find.
func (p *phases) met(begin []float64, m float64) (arrivals, left float64, end []float64) {
	stages := len(begin)
	end = make([]float64, stages)
	for t, chance := range p.passed {
		k := float64(t / stages)
		arrivals += k * chance
		end[t%stages] += k * chance
	}
	if arrivals == 0 { // Their probability is negligible: one that comes all the same does so at any moment, and begins the next interval.
		end[0] = 1
		return m, 0.5, end
	}
	for i := range end {
		end[i] /= arrivals
	}
	// The sum of the times that arrivals have left is the integral of the number of arrivals so far.
	const moments = 8
	var counts []float64
	for i := range moments {
		at := (float64(i) + 0.5) / moments
		counts = stagesPassed(counts[:0], begin, m*at)
		for t, chance := range counts {
			left += float64(t/stages) * chance / moments
		}
	}
	return arrivals, left / arrivals, end
}
