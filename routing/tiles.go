package routing

import "math"

// Tiles is the expected number of tiles of so many rows that hold the tokens of one expert: a router sends it the
// given mean of tokens, each with the same chance, so that their number n is binomial.
//
//	E⌈n/rows⌉ = P(n > 0) + P(n > rows) + P(n > 2·rows) + ...
//
// The first probability is exact, and the others are those of a normal distribution.
func Tiles(mean, chance, rows float64) float64 {
	if mean <= 0 {
		return 0
	}
	deviation := math.Sqrt(mean * max(0, 1-chance))
	if deviation < 1e-6 {
		return math.Ceil(mean/rows - 1e-9)
	}
	sum := -math.Expm1(mean / chance * math.Log1p(-chance))
	const far = 6 // deviations from the mean beyond which a probability is 0 or 1
	first := max(1, math.Floor((mean-far*deviation)/rows))
	sum *= first // the tiles before it are full whenever there is a token
	for j := first; j*rows < mean+far*deviation; j++ {
		sum += above((j*rows + 0.5 - mean) / deviation)
	}
	return max(sum, mean/rows)
}

// above is the probability that a normal deviate is above z, within 2·10⁻⁴ (Page, 1977). Unlike Erfc, Expm1 gives the
// same digits on every kind of processor.
func above(z float64) float64 {
	return 1 / (2 + math.Expm1(z*(1.5976+0.07056*z*z)))
}
