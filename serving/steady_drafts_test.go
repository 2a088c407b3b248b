package serving

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// The numbers of steps have the mean and the variance of steps that are drawn one by one.
func TestStepsOfTokens(t *testing.T) {
	random, n := rand.New(rand.NewPCG(1, 1)), 20000
	for _, drafts := range []int{1, 3, 7} {
		s := &Speculation{Drafts: drafts, Acceptance: 0.7}
		for _, tokens := range []int32{1, 5, 20, manyTokens + 30} {
			var sums, squares [2]float64
			for range n {
				one := int32(0)
				for left := tokens; left > 0; one++ {
					left -= int32(1 + firstFailure(random, drafts, s.Acceptance))
				}
				for i, steps := range []int32{one, s.stepsOf(tokens, random)} {
					sums[i] += float64(steps) / float64(n)
					squares[i] += float64(steps) * float64(steps) / float64(n)
				}
			}
			what := fmt.Sprintf("%d tokens with %d drafts: ", tokens, drafts)
			agree(t, what+"mean of drawn steps", sums[1], sums[0], 0.015)
			if tokens >= manyTokens {
				agree(t, what+"variance of drawn steps", squares[1]-sums[1]*sums[1], squares[0]-sums[0]*sums[0], 0.1)
			}
		}
	}
}

// firstFailure draws how many of some drafts are accepted.
func firstFailure(random *rand.Rand, drafts int, acceptance float64) (accepted int) {
	for accepted < drafts && random.Float64() < acceptance {
		accepted++
	}
	return accepted
}
