package routing

import "math"

// Busiest is how many experts, and how many pairs of a token and an expert, the busiest of the
// ranks of EP is expected to have, where each token takes k of count experts at random. Ranks
// wait for each other in every layer, so a step takes as long as the busiest, and the fewer tokens it
// has, the farther that is from the mean.
//
//	pairs = mean + z·√(mean·(count − k)/(count − 1)), mean = tokens·k/ranks
//	experts = count/ranks·(1 − (1 − k/count)^(tokens·pairs/mean))
//
// The root is the deviation of one rank's pairs from another's. The largest of n normal deviates, z, is at the
// quantile (n − 3/8)/(n + 1/4) (Blom, 1958). The experts are those of as many tokens as give every rank so many pairs.
func Busiest(count, k, tokens float64, ranks int) (experts, pairs float64) {
	n := float64(ranks)
	each, mean := count/n, tokens*k/n
	if k >= count || ranks == 1 {
		return Distinct(count, k, tokens) / n, mean
	}
	z := math.Sqrt2 * math.Erfinv(2*(n-0.375)/(n+0.25)-1)
	pairs = min(mean+z*math.Sqrt(mean*(count-k)/(count-1)), tokens*min(k, each))
	return Distinct(count, k, tokens*pairs/mean) / n, pairs
}
