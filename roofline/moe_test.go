package roofline

import (
	"fmt"
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

// TestGroups holds the expected groups to those of drawn choices, to Distinct where a group
// has room for all, and to the pairs where it has room for one.
func TestGroups(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct{ experts, k, tokens int }{{128, 8, 64}, {8, 2, 16}, {8, 2, 64}, {64, 6, 40}, {4, 4, 20}, {8, 2, 1}} {
		count, k, tokens := float64(x.experts), float64(x.k), float64(x.tokens)
		near(t, fmt.Sprintf("%+v: whole experts", x), Groups(count, k, tokens, x.tokens), Distinct(count, k, tokens), 1e-9)
		near(t, fmt.Sprintf("%+v: pairs", x), Groups(count, k, tokens, 1), k*tokens, 1e-9)
		const draws = 4000
		sum := 0
		for range draws {
			n := make([]int, x.experts)
			for range x.tokens {
				for _, e := range random.Perm(x.experts)[:x.k] {
					n[e]++
				}
			}
			for _, n := range n {
				sum += (n + 7) / 8
			}
		}
		near(t, fmt.Sprintf("%+v: groups of 8", x), Groups(count, k, tokens, 8), float64(sum)/draws, 0.01)
	}
	near(t, "between", Groups(8, 2, 16.5, 8), (Groups(8, 2, 16, 8)+Groups(8, 2, 17, 8))/2, 1e-9)
}
