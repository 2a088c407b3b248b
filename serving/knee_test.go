package serving

import (
	"errors"
	"math"
	"testing"
)

// The search ends within the interval that its refinement leaves, tries no rate twice and stops at errors.
func TestSearch(t *testing.T) {
	for _, x := range []struct{ low, high, limit, want float64 }{
		{1, 32, 11, 11}, {1, 32, 100, 32}, {2, 32, 1, 0}, {1, 20, 17, 17}, {0.5, 1e5, 7000, 7000},
	} {
		tried := map[float64]bool{}
		got, err := Search(x.low, x.high, 4, func(rate float64) (bool, error) {
			if tried[rate] || rate < x.low || rate > x.high {
				t.Errorf("%+v: %g is tried again or beyond", x, rate)
			}
			tried[rate] = true
			return rate <= x.limit, nil
		})
		if err != nil || got > x.want || got < x.want/math.Pow(2, 1.0/16)-0.01*x.want {
			t.Errorf("%+v: %g, %v", x, got, err)
		}
	}
	if _, err := Search(1, 8, 2, func(float64) (bool, error) { return true, errors.New("down") }); err == nil {
		t.Error("an error is lost")
	}
	if _, err := Search(8, 1, 2, nil); err == nil {
		t.Error("a falling interval is taken")
	}
}
