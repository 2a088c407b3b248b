package serving

import "math"

// A router that gives requests to replicas in turn brings each of R replicas every R-th arrival of a Poisson process: a renewal process whose intervals
// have an Erlang distribution of R stages. The stages that arrivals have passed are a Poisson process of R times the rate, so that numbers of arrivals
// follow from its. R is 1 for one replica, whose arrivals are Poisson.

// mostStages is how many stages intervals have at most: those of more vary little less.
const mostStages = 16

// behindRouter sets over how many replicas that share nothing the router goes.
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
	return renewals(all, m, stages, func(passed int) float64 { return float64(passed) / float64(stages) })
}

// afterOne appends the probabilities of 0, 1, 2, ... arrivals in a time that begins with an arrival.
func afterOne(all []float64, m float64, stages int) []float64 {
	if stages == 1 {
		return poissonChances(all, m)
	}
	return renewals(all, m, stages, func(int) float64 { return 0 })
}

// poissonChances appends the probabilities of a Poisson distribution.
func poissonChances(all []float64, m float64) []float64 {
	for k, chance := 0.0, math.Exp(-m); chance > negligible || k < m; chance *= m / k {
		all = append(all, chance)
		k++
	}
	return all
}

// renewals appends the probabilities of 0, 1, 2, ... arrivals where more is the probability that the stages beyond the last whole interval bring one.
func renewals(all []float64, m float64, stages int, more func(passed int) float64) []float64 {
	from, expected := len(all), m*float64(stages)
	for i, chance := 0, math.Exp(-expected); chance > negligible || float64(i) < expected; chance *= expected / float64(i) {
		k, one := from+i/stages, more(i%stages)
		for len(all) <= k+1 {
			all = append(all, 0)
		}
		all[k] += chance * (1 - one)
		all[k+1] += chance * one
		i++
	}
	return all
}

// besides turns the probabilities of numbers of arrivals, m on average, into those of the further ones that an arrival meets: a number of
// arrivals is met as often as there are of them.
func besides(chances []float64, m float64) []float64 {
	for k := range chances[1:] {
		chances[k] = chances[k+1] * float64(k+1) / m
	}
	return chances[:len(chances)-1]
}

// birth is the ratio of the probability of n sequences to that of one fewer, where m would decode if each were alone with its step time. Arrivals in
// turn vary less: numbers are those of as many stages as have the variance of a queue with infinitely many servers, which is
// 1 - (1 - 1/R) E[min(S, S')]/E[S] of the Poisson one for service times S (Whitt, "Heavy-traffic approximations for service systems with blocking", 1984).
func (f *flow) birth(n int, m float64) float64 {
	stages := 1
	if f.stages > 1 {
		stages = int(math.Round(1 / (1 - (1-1/float64(f.stages))*f.shorter)))
	}
	if stages == 1 {
		return m / float64(n)
	}
	r, expected := float64(stages), m*float64(stages)
	ratio := around(n, stages, expected) / around(n-1, stages, expected)
	for i := range stages {
		ratio *= expected / (float64(n-1)*r + float64(i+1))
	}
	return ratio
}

// around is the probability of n arrivals over that of n times as many stages.
func around(n, stages int, expected float64) float64 {
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
