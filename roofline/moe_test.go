package roofline

import (
	"math"
	"math/rand/v2"
	"testing"
)

func near(t *testing.T, what string, got, want, rel float64) {
	t.Helper()
	if d := math.Abs(got - want); !(d <= rel*math.Abs(want)) {
		t.Errorf("%s: got %.10g, want %.10g", what, got, want)
	}
}

// The number of distinct experts is what random choices touch on average.
func TestDistinctExperts(t *testing.T) {
	const trials = 4000
	rng := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct{ count, k, tokens int }{{128, 8, 1}, {128, 8, 16}, {8, 2, 3}, {256, 8, 64}, {16, 1, 5}} {
		var sum float64
		for range trials {
			hit := make([]bool, x.count)
			for range x.tokens {
				for _, e := range rng.Perm(x.count)[:x.k] {
					hit[e] = true
				}
			}
			for _, h := range hit {
				if h {
					sum++
				}
			}
		}
		near(t, "distinct", Distinct(float64(x.count), float64(x.k), float64(x.tokens)), sum/trials, 0.01)
	}
	if got := Distinct(8, 8, 1); got != 8 {
		t.Errorf("all experts chosen: %v of 8 touched", got)
	}
}
