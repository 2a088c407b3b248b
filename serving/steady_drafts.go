package serving

import (
	"math"
	"math/rand/v2"
)

// The steps of an answer are a renewal process: each gains the token of its own and as many drafts as are accepted, up to the first that
// is not. By Wald's identity their mean number is that of the tokens, with those by which the last step exceeds them, over the mean gain
// of a step. By how many tokens a sum of gains exceeds a number hardly depends on that number beyond a few gains: it is the residual life
// of a gain.

// exceeds is the mean number of tokens by which the last step of an answer gains too many, and the variance of the gain of a step.
func (s *Speculation) exceeds() (mean, variance float64) {
	gain, square, chance := s.Yields(), 0.0, 1.0
	for k := 1.0; k <= float64(s.Drafts); k++ {
		square += chance * (1 - s.Acceptance) * k * k
		chance *= s.Acceptance
	}
	square += chance * float64((s.Drafts+1)*(s.Drafts+1))
	return (square/gain - 1) / 2, square - gain*gain
}

// manyTokens is from how many tokens on the number of their steps is about normal.
const manyTokens = 50

// stepsOf draws in how many steps so many tokens come.
func (s *Speculation) stepsOf(tokens int32, random *rand.Rand) (steps int32) {
	switch {
	case s.Drafts == 0 || s.Acceptance == 0:
		return tokens
	case tokens >= manyTokens:
		gain := s.Yields()
		excess, variance := s.exceeds()
		mean, deviation := (float64(tokens)+excess)/gain, math.Sqrt(float64(tokens)*variance/(gain*gain*gain))
		return min(max(int32(math.Round(mean+deviation*random.NormFloat64())), 1), tokens)
	}
	for ; tokens > 0; steps++ {
		tokens--
		for i := 0; i < s.Drafts && random.Float64() < s.Acceptance; i++ {
			tokens--
		}
	}
	return steps
}
