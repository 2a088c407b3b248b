package sweep

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// Numbers are written as strconv writes them.
func TestAppendFloat(t *testing.T) {
	some := []float64{1e-4, math.Nextafter(1e-4, 0), 1, math.Nextafter(1, 0), 0.1, 0.5, 0.01, 0.001, 0.25, 3, 10, 1e5, 120000, 1e6,
		math.Nextafter(1e6, 0), 1e-9, 1.7e10, -0.5, math.Inf(1)}
	for range 20000 {
		some = append(some, rand.Float64(), math.Pow(10, 12*rand.Float64()-6), float64(rand.IntN(1e5))/1e5, float64(rand.IntN(2e6)),
			float64(rand.IntN(2e7))/8)
	}
	for _, v := range some {
		if got, want := string(appendFloat(nil, v)), strconv.FormatFloat(v, 'g', -1, 64); got != want {
			t.Errorf("%v is written %s, want %s", v, got, want)
		}
	}
}
