package operator

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"llmprof/internal/testkit"
	"llmprof/models"
)

// choose draws the experts of a token such that each is among them with its probability: by points at equal
// distances on a line of the probabilities in a random order (Madow, 1949).
func choose(r *rand.Rand, chance []float64) (chosen []int) {
	at, next := 0.0, r.Float64()
	for _, i := range r.Perm(len(chance)) {
		if at += chance[i]; at > next {
			chosen = append(chosen, i)
			next++
		}
	}
	return chosen
}

// The experts that are hit, and the pairs of the busiest rank, are what drawing them gives.
func TestPopularityMonteCarlo(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for _, x := range []struct {
		count, topK, ranks, tokens int
		zipf                       float64
	}{{128, 8, 1, 1, 0.8}, {128, 8, 8, 32, 0.8}, {64, 6, 4, 200, 1.2}, {16, 4, 2, 10, 2}, {256, 8, 16, 64, 0.5}}[:testkit.Cases(2, 5)] {
		p := &Popularity{Zipf: x.zipf}
		e := &models.Experts{Count: x.count, TopK: x.topK}
		r := p.routing(e, x.ranks)
		chance := inclusion(p.weights(x.count, x.ranks), float64(x.topK))
		const runs = 3000
		each := x.count / x.ranks
		pairs, hit := make([]float64, x.ranks), make([]float64, x.ranks)
		for range runs {
			seen := make([]bool, x.count)
			for range x.tokens {
				for _, i := range choose(random, chance) {
					pairs[i/each]++
					if !seen[i] {
						hit[i/each]++
					}
					seen[i] = true
				}
			}
		}
		busiest := slices.Index(pairs, slices.Max(pairs))
		if got, want := float64(x.tokens)*r.Pairs, pairs[busiest]/runs; math.Abs(got-want) > 0.02*want {
			t.Errorf("%+v: %g pairs on the busiest rank, drawn %g", x, got, want)
		}
		if got, want := r.Hit(float64(x.tokens)), hit[busiest]/runs; math.Abs(got-want) > 0.02*want {
			t.Errorf("%+v: %g experts hit on the busiest rank, drawn %g", x, got, want)
		}
	}
}

// Even loads are what no popularity gives, more skew hits fewer experts and loads a rank more, and no
// expert is chosen more than once by a token.
func TestPopularity(t *testing.T) {
	e := &models.Experts{Count: 128, TopK: 8}
	loads := make([]float64, 128)
	for i := range loads {
		loads[i] = 7
	}
	even := (&Popularity{Loads: loads}).routing(e, 4)
	if want := DistinctExperts(128, 8, 40) / 4; math.Abs(even.Hit(40)-want) > 1e-9*want || math.Abs(even.Pairs-2) > 1e-12 ||
		math.Abs(even.Imbalance-1) > 1e-12 {
		t.Errorf("even loads: %g experts hit, want %g; %g pairs, %g of the mean", even.Hit(40), want, even.Pairs, even.Imbalance)
	}
	last := (&Popularity{Zipf: 1e-9}).routing(e, 1)
	for _, zipf := range []float64{0.3, 0.7, 1, 1.5, 3, 10} {
		p := &Popularity{Zipf: zipf}
		one, spread := p.routing(e, 1), p.routing(e, 8)
		if one.Hit(40) >= last.Hit(40) || spread.Imbalance < 1 || math.Abs(one.Pairs-8) > 1e-9 {
			t.Errorf("zipf %g: %g experts hit of %g with less skew, %g of a mean rank, %g pairs", zipf, one.Hit(40), last.Hit(40), spread.Imbalance,
				one.Pairs)
		}
		if chance := inclusion(p.weights(128, 1), 8); slices.Max(chance) > 1 {
			t.Errorf("zipf %g: a probability of %g", zipf, slices.Max(chance))
		}
		last = one
	}
}

// The number of distinct experts is what random choices touch on average.
func TestDistinctExperts(t *testing.T) {
	const trials = 4000
	rng := rand.New(rand.NewPCG(1, 2))
	for _, x := range []struct{ count, k, tokens int }{{128, 8, 1}, {128, 8, 16}, {8, 2, 3}, {16, 1, 5}, {256, 8, 64}}[:testkit.Cases(4, 5)] {
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
		if got, want := DistinctExperts(float64(x.count), float64(x.k), float64(x.tokens)), sum/trials; math.Abs(got/want-1) > 0.01 {
			t.Errorf("%+v: %g experts, drawn %g", x, got, want)
		}
	}
	if got := DistinctExperts(8, 8, 1); got != 8 {
		t.Errorf("all experts chosen: %v of 8 touched", got)
	}
}

// DeepSeek-V3's router sums the two best scores of each group and takes its experts in the best groups. Of equal experts
// the law reaches as many ranks as draws of their scores say, within 7 %; without groups it is 33 % more over 8 ranks.
func TestReachedByGroups(t *testing.T) {
	e := &models.Experts{Count: 256, TopK: 8, Groups: 8, TopGroups: 4}
	rng := rand.New(rand.NewPCG(1, 2))
	const draws = 3000
	each, hit := e.Count/e.Groups, map[int]float64{4: 0, 16: 0, 32: 0, 64: 0}
	for range draws {
		scores := make([]float64, e.Count)
		for i := range scores {
			scores[i] = rng.NormFloat64()
		}
		best := func(among []int) []int {
			slices.SortFunc(among, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
			return among
		}
		groups := make([][]int, e.Groups)
		for i := range scores {
			groups[i/each] = append(groups[i/each], i)
		}
		for _, g := range groups {
			best(g)
		}
		slices.SortFunc(groups, func(a, b []int) int {
			return cmp.Compare(scores[b[0]]+scores[b[1]], scores[a[0]]+scores[a[1]])
		})
		chosen := best(slices.Concat(groups[:e.TopGroups]...))[:e.TopK]
		for some := range hit {
			ranks := map[int]bool{}
			for _, i := range chosen {
				ranks[i/some] = true
			}
			hit[some] += float64(len(ranks)) * float64(some) / float64(e.Count) / draws
		}
	}
	for some, want := range hit {
		if got := ReachedExpertsOf(e, float64(some)); math.Abs(got/want-1) > 0.07 {
			t.Errorf("%d experts: %v, want %v", some, got, want)
		}
	}
}

// Loads of no more experts than a token takes leave the others without any.
func TestPopularityOfAsManyAsTaken(t *testing.T) {
	p := &Popularity{Loads: []float64{0, 1, 2, 0}}
	m := &models.Model{Layers: []models.Layer{{Count: 1, Blocks: []models.Block{{Experts: &models.Experts{Count: 4, TopK: 2}}}}}}
	r := p.routings(m, 1)[0]
	if hit, tiles := r.Hit(512), r.Tiles(512, 128); math.Abs(hit-2) > 1e-9 || math.Abs(tiles-8) > 1e-9 {
		t.Errorf("512 tokens go to %v experts in %v tiles, want 2 in 8", hit, tiles)
	}
}
