package operator

import (
	"math"
	"math/rand/v2"
	"testing"
)

// BusiestRank is within 10 % of the mean over drawn routings.
func TestBusiestAgainstDraws(t *testing.T) {
	d := rand.New(rand.NewPCG(1, 2))
	for _, c := range []struct{ count, k, tokens, ranks int }{
		{128, 4, 4, 8}, {128, 4, 4, 2}, {128, 8, 1, 4}, {256, 8, 4, 8}, {256, 8, 64, 8}, {128, 8, 16, 4}, {128, 4, 1024, 8}, {256, 8, 512, 64},
	} {
		const draws = 200
		var experts, pairs float64
		for range draws {
			hit, load := make([]map[int]bool, c.ranks), make([]float64, c.ranks)
			for range c.tokens {
				for _, e := range d.Perm(c.count)[:c.k] {
					rank := e * c.ranks / c.count
					if hit[rank] == nil {
						hit[rank] = map[int]bool{}
					}
					hit[rank][e] = true
					load[rank]++
				}
			}
			most, mostPairs := 0, 0.0
			for i := range hit {
				most, mostPairs = max(most, len(hit[i])), max(mostPairs, load[i])
			}
			experts += float64(most) / draws
			pairs += mostPairs / draws
		}
		gotExperts, gotPairs := BusiestRank(float64(c.count), float64(c.k), float64(c.tokens), c.ranks)
		if math.Abs(gotExperts/experts-1) > 0.1 || math.Abs(gotPairs/pairs-1) > 0.1 {
			t.Errorf("%+v: %.2f experts and %.2f pairs on the busiest rank, want %.2f and %.2f", c, gotExperts, gotPairs, experts, pairs)
		}
	}
}

// One rank has all experts, and no rank has more than there are.
func TestBusiestLimits(t *testing.T) {
	if e, p := BusiestRank(128, 8, 16, 1); e != DistinctExperts(128, 8, 16) || p != 128 {
		t.Errorf("one rank: %v experts, %v pairs", e, p)
	}
	if e, p := BusiestRank(8, 8, 3, 4); e != 2 || p != 6 {
		t.Errorf("all experts of each token: %v experts, %v pairs", e, p)
	}
	for tokens := 0.5; tokens < 1e6; tokens *= 1.7 {
		for _, ranks := range []int{2, 4, 8, 64} {
			e, p := BusiestRank(64, 6, tokens, ranks)
			if !(e > 0 && e <= 64/float64(ranks) && e >= DistinctExperts(64, 6, tokens)/float64(ranks)*(1-1e-12)) ||
				!(p >= tokens*6/float64(ranks)*(1-1e-12) && p <= tokens*6) {
				t.Errorf("%v tokens on %d ranks: %v experts, %v pairs", tokens, ranks, e, p)
			}
		}
	}
}
