package plots

import (
	"image/color"
	"math"
	"testing"

	"llmprof/analytic"
)

// lab is a colour in CIE L*a*b* under D65.
func lab(c [3]float64) [3]float64 {
	x := (0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.9505
	y := 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2]
	z := (0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.089
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	return [3]float64{116*f(y) - 16, 500 * (f(x) - f(y)), 200 * (f(y) - f(z))}
}

// linear RGB of sRGB, IEC 61966-2-1.
func linearRGB(c color.Color) (l [3]float64) {
	r, g, b, _ := c.RGBA()
	for i, v := range []uint32{r, g, b} {
		x := float64(v) / 0xffff
		if l[i] = x / 12.92; x > 0.04045 {
			l[i] = math.Pow((x+0.055)/1.055, 2.4)
		}
	}
	return l
}

// blind are the matrices of Machado, Oliveira and Fernandes, "A Physiologically-
// based Model for Simulation of Color Vision Deficiency" (IEEE TVCG 15(6), 2009)
// at severity 1.
func blind() map[string][3][3]float64 {
	return map[string][3][3]float64{
		"normal":       {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
		"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
		"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
		"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
	}
}

// TestBoundColorsDiffer holds the four colours apart for every kind of eye, and
// in grey.
func TestBoundColorsDiffer(t *testing.T) {
	for kind, m := range blind() {
		for a := analytic.ByCompute; a <= analytic.ByLaunch; a++ {
			for b := analytic.ByCompute; b < a; b++ {
				p, q := lab(seen(m, BoundColor(a))), lab(seen(m, BoundColor(b)))
				d := math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2])
				if d < 20 {
					t.Errorf("%s: %v and %v differ by ΔE %.0f, want 20", kind, a, b, d)
				}
				if grey := math.Abs(p[0] - q[0]); kind == "normal" && grey < 14 {
					t.Errorf("in grey %v and %v differ by L* %.0f, want 14", a, b, grey)
				}
			}
		}
	}
}

func seen(m [3][3]float64, c color.Color) (out [3]float64) {
	l := linearRGB(c)
	for i := range out {
		out[i] = min(max(m[i][0]*l[0]+m[i][1]*l[1]+m[i][2]*l[2], 0), 1)
	}
	return out
}
