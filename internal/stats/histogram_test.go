package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"llmprof/internal/testkit"
)

// TestHistogram checks that values come back within a bin, and that their summary holds, however they are spread.
func TestHistogram(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4)) //nolint:gosec // values of a test
	for range 200 {
		xs := make([]float64, 1+random.IntN(300))
		for i := range xs {
			switch random.IntN(4) {
			case 0:
				xs[i] = 0
			case 1:
				xs[i] = xs[random.IntN(i+1)]
			default:
				xs[i] = math.Exp(-25 * random.Float64())
			}
		}
		s, err := Summarize(xs)
		testkit.Must(t, err)
		h := NewHistogram(xs)
		if err := h.Holds(s); err != nil {
			t.Fatal(err)
		}
		i, sorted := 0, slices.Sorted(slices.Values(xs))
		for x := range h.Values() {
			if math.Abs(x-sorted[i]) > max(0.01*sorted[i], 1.1e-9) {
				t.Fatalf("%v is %v", sorted[i], x)
			}
			i++
		}
		if i != len(xs) || h.N() != i {
			t.Fatalf("%d and %d of %d values", i, h.N(), len(xs))
		}
	}
	if h := NewHistogram(nil); h.N() != 0 || h.Holds(&Summary{}) == nil {
		t.Errorf("%+v of nothing", h)
	}
}
