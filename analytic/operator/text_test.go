package operator

import (
	"math"
	"testing"

	"llmprof/models"
)

// The law of a text's loads has the two figures that were published of Qwen3-30B-A3B: how many experts take 90 % of the
// pairs, and the entropy of the loads.
func TestTextLoads(t *testing.T) {
	const experts = 128
	var loads [experts]float64
	sum := 0.0
	for i := range loads {
		loads[i] = math.Exp(-textDecay * (float64(i) + 0.5) / experts)
		sum += loads[i]
	}
	busy, taken, entropy := 0, 0.0, 0.0
	for _, w := range loads {
		if taken < 0.9*sum {
			busy++
		}
		taken += w
		entropy -= w / sum * math.Log(w/sum)
	}
	if concentration := 1 - entropy/math.Log(experts); busy != 65 || math.Abs(concentration-0.111) > 0.005 {
		t.Errorf("%d experts take 90 %%, the concentration is %.3f; want 65 and 0.111", busy, concentration)
	}
}

// The share is that of the loads expert by expert, 1 for one token and for all experts, and never above 1.
func TestOfText(t *testing.T) {
	for _, c := range []struct{ count, k, tokens int }{{128, 8, 1}, {128, 8, 16}, {128, 4, 64}, {256, 8, 32}, {512, 10, 8}, {8, 2, 3},
		{64, 6, 100000}} {
		count, k, tokens := float64(c.count), float64(c.k), float64(c.tokens)
		r := (&Popularity{Text: true}).routing(&models.Experts{Count: c.count, TopK: c.k}, 1)
		want := r.Hit(tokens) / DistinctExperts(count, k, tokens)
		if got := DistinctInText(count, k, tokens); math.Abs(got/want-1) > 0.02 || got > 1+1e-12 || c.tokens == 1 && math.Abs(got-1) > 1e-9 {
			t.Errorf("%+v: %.4f, want %.4f", c, got, want)
		}
	}
	if DistinctInText(8, 8, 5) != 1 || math.Abs(DistinctInText(128, 8, 1e9)-1) > 1e-9 {
		t.Error("all experts are not all")
	}
}
