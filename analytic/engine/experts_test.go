package engine_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/analytic/engine"
	"llmprof/analytic/operator"
	"llmprof/unit"
)

// TestGroups holds the expected groups to those of drawn choices, to Distinct where a group
// has room for all, and to the pairs where it has room for one.
func TestGroups(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct{ experts, k, tokens int }{{128, 8, 64}, {8, 2, 16}, {8, 2, 64}, {64, 6, 40}, {4, 4, 20}, {8, 2, 1}} {
		count, k, tokens := float64(x.experts), float64(x.k), float64(x.tokens)
		near(t, fmt.Sprintf("%+v: whole experts", x), engine.Groups(count, k, tokens, x.tokens), operator.DistinctExperts(count, k, tokens), 1e-9)
		near(t, fmt.Sprintf("%+v: pairs", x), engine.Groups(count, k, tokens, 1), k*tokens, 1e-9)
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
		near(t, fmt.Sprintf("%+v: groups of 8", x), engine.Groups(count, k, tokens, 8), float64(sum)/draws, 0.01)
	}
	near(t, "between", engine.Groups(8, 2, 16.5, 8), (engine.Groups(8, 2, 16, 8)+engine.Groups(8, 2, 17, 8))/2, 1e-9)
}

// Weights that the L2 cache does not hold come for every tile again.
func TestTiles(t *testing.T) {
	for _, x := range []struct{ expert, pairs, tile, want float64 }{{40e6, 1000, 160, 1}, {100e6, 100, 160, 1}, {100e6, 320, 160, 1.5},
		{200e6, 480, 160, 1 + 2*0.75}, {100e6, 320, 64, 1 + 4*0.5}} {
		if got := engine.Tiles(50e6, unit.Bytes(x.expert), x.pairs, x.tile); math.Abs(got-x.want) > 1e-9 {
			t.Errorf("%+v: %v times", x, got)
		}
	}
	if engine.Tiles(0, 100e6, 320, 160) != 1 {
		t.Error("an L2 cache that is not known holds nothing")
	}
}
