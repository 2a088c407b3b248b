package operator

import (
	"math"
	"math/rand/v2"
	"testing"

	"llmprof/models"
)

// ExpertTiles is within 2 % of the mean over drawn numbers of tokens.
func TestTilesAgainstDraws(t *testing.T) {
	random := rand.New(rand.NewPCG(5, 8))
	for _, c := range []struct {
		tokens int
		chance float64
		rows   float64
	}{{1, 0.03, 16}, {64, 0.03, 16}, {512, 0.03, 16}, {512, 0.03, 64}, {2048, 0.03, 64}, {4096, 0.25, 128}, {300, 0.9, 8}} {
		const draws = 4000
		sum := 0.0
		for range draws {
			n := 0.0
			for range c.tokens {
				if random.Float64() < c.chance {
					n++
				}
			}
			sum += math.Ceil(n/c.rows) / draws
		}
		// With one token in 33 draws the mean itself is 9 % uncertain.
		if got := ExpertTiles(float64(c.tokens)*c.chance, c.chance, c.rows); math.Abs(got-sum) > 0.02*sum+0.006 {
			t.Errorf("%+v: %.3f tiles, drawn %.3f", c, got, sum)
		}
	}
}

// An expert that every token takes has whole tiles; tiles of one row are the tokens; no tokens have none; and more rows never
// make more tiles.
func TestTilesLimits(t *testing.T) {
	for _, c := range []struct{ mean, chance, rows, want float64 }{{128, 1, 64, 2}, {129, 1, 64, 3}, {0, 0.5, 16, 0}} {
		if got := ExpertTiles(c.mean, c.chance, c.rows); got != c.want {
			t.Errorf("%+v: %v tiles", c, got)
		}
	}
	for mean := 0.01; mean < 1e5; mean *= 3 {
		if got := ExpertTiles(mean, 0.03, 1); math.Abs(got/mean-1) > 0.05 {
			t.Errorf("%v tokens are %v tiles of one row", mean, got)
		}
		for last, rows := ExpertTiles(mean, 0.03, 8), 16.0; rows <= 256; rows *= 2 {
			got := ExpertTiles(mean, 0.03, rows)
			if got > last*(1+1e-9) || got < mean/rows {
				t.Errorf("%v tokens: %v tiles of %v rows, %v of half as many", mean, got, rows, last)
			}
			last = got
		}
	}
}

// Skewed routing takes more tiles than even routing of the same tokens where popular experts fill several tiles, and
// even loads take as many as even routing.
func TestSkewedTiles(t *testing.T) {
	e := &models.Experts{Count: 128, TopK: 4}
	loads := make([]float64, 128)
	for i := range loads {
		loads[i] = 3
	}
	even, skewed := (&Popularity{Loads: loads}).routing(e, 1), (&Popularity{Zipf: 1}).routing(e, 1)
	if got, want := even.Tiles(512, 32), 128*ExpertTiles(16, 4.0/128, 32); math.Abs(got/want-1) > 1e-9 {
		t.Errorf("even loads: %v tiles, want %v", got, want)
	}
	if got, base := skewed.Tiles(512, 32), even.Tiles(512, 32); got < 1.1*base {
		t.Errorf("skewed: %v tiles of 32 rows, %v if even", got, base)
	}
}
