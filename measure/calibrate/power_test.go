package calibrate

import (
	"math"
	"testing"

	"llmprof/roofline"
)

// The slopes of the law of power are its derivatives by the logarithms of the constants, whether the memory draws all that it can or
// less, at full clocks and at lower ones, and over links.
func TestSlopesOfDraws(t *testing.T) {
	e := draws(roofline.PowerMemory, roofline.PowerAttention, roofline.PowerFixed)
	for _, d := range []drawing{
		{of: 1, matrix: 0.1, moves: 0.8, fixed: 0.05, fall: 1.4}, {of: 1, matrix: 0.1, moves: 0.8, fixed: 0.05, fall: 1},
		{of: 1, moves: 0.9, fall: 1.2, links: true}, {of: 0, moves: 0.5, fixed: 0.1, fall: 1.3},
	} {
		for _, p := range [][]float64{{0.3, 0.5, 0.2}, {0.6, 0.4, 0.2}} {
			s := &sample{drawing: d}
			slopes := make([]float64, len(p))
			e.time(p, s, slopes)
			for k := range p {
				const h = 1e-6
				at := func(factor float64) float64 {
					q := append([]float64{}, p...)
					q[k] *= factor
					return e.time(q, s, nil)
				}
				if want := (at(1+h) - at(1-h)) / (2 * h); math.Abs(slopes[k]-want) > 1e-6 {
					t.Errorf("%+v at %v: %v has the slope %v, want %v", d, p, e.keys[k], slopes[k], want)
				}
			}
		}
	}
}
