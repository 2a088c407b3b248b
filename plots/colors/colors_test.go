package colors

import (
	"image/color"
	"math"
	"strings"
	"testing"

	"llmprof/roofline"
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

// linearRGB converts sRGB to linear RGB (IEC 61966-2-1).
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

// distance is how far two colours differ for an eye (ΔE of CIE 1976), and in grey (L*).
func distance(eye [3][3]float64, a, b color.Color) (delta, grey float64) {
	p, q := lab(seen(eye, a)), lab(seen(eye, b))
	return math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2]), math.Abs(p[0] - q[0])
}

func seen(m [3][3]float64, c color.Color) (out [3]float64) {
	l := linearRGB(c)
	for i := range out {
		out[i] = min(max(m[i][0]*l[0]+m[i][1]*l[1]+m[i][2]*l[2], 0), 1)
	}
	return out
}

// grounds are the two values of a colour.
func grounds(c Color) map[string]color.Color {
	return map[string]color.Color{"light": c.Light, "dark": c.Dark}
}

// TestColorsAreDistinct checks that the colours of areas, lines and points differ for every kind of
// colour vision, on either ground, and those of areas on paper also in grey.
func TestColorsAreDistinct(t *testing.T) {
	for _, q := range []struct {
		name        string
		n           int
		of          func(int) Color
		delta, grey float64
	}{
		{"bounds", int(roofline.NumBounds), func(i int) Color { return Bound(roofline.Bound(i)) }, 20, 14},
		{"stack", NumStack, Stack, 15, 9.5},
		{"series", NumSeries, Series, 10, 0},
	} {
		for kind, eye := range blind() {
			for i := range q.n {
				for j := range i {
					for ground := range grounds(Paper()) {
						a, b := grounds(q.of(i))[ground], grounds(q.of(j))[ground]
						delta, grey := distance(eye, a, b)
						if delta < q.delta {
							t.Errorf("%s, %s ground: %s: %d and %d differ by ΔE %.0f, want %.0f", q.name, ground, kind, i, j, delta, q.delta)
						}
						if kind == "normal" && ground == "light" && grey < q.grey {
							t.Errorf("%s: in grey %d and %d differ by L* %.1f, want %.1f", q.name, i, j, grey, q.grey)
						}
					}
				}
			}
		}
	}
}

// TestSeriesAreLegible checks that lines and letters in the colours of series differ from their
// ground.
func TestSeriesAreLegible(t *testing.T) {
	for i := range NumSeries {
		for ground, paper := range grounds(Paper()) {
			if _, grey := distance(blind()["normal"], grounds(Series(i))[ground], paper); grey < 35 {
				t.Errorf("series %d has L* %.0f from the %s ground, want 35", i, grey, ground)
			}
		}
	}
}

// TestRowsAreDistinct checks that the marks of predicted and observed, series 0 and 1, differ, and
// that observed is visible on the interval of predicted.
func TestRowsAreDistinct(t *testing.T) {
	for kind, eye := range blind() {
		if delta, _ := distance(eye, Series(0), Series(1)); delta < 20 {
			t.Errorf("%s: observed and expected differ by ΔE %.0f, want 20", kind, delta)
		}
	}
	if _, grey := distance(blind()["normal"], Series(0).Mixed(Paper(), 0.2), Series(1)); grey < 35 {
		t.Errorf("in grey the interval and what lies on it differ by L* %.0f, want 35", grey)
	}
}

// TestOnIsLegible holds text on areas to the contrast of WCAG 2.2 for large text,
// which a bold number in its mark is.
func TestOnIsLegible(t *testing.T) {
	for b := range roofline.NumBounds {
		for ground, area := range grounds(Bound(b)) {
			x, y := relative(area), relative(grounds(Bound(b).On())[ground])
			if ratio := (max(x, y) + 0.05) / (min(x, y) + 0.05); ratio < 3.4 {
				t.Errorf("%v on %s ground: contrast %.1f", b, ground, ratio)
			}
		}
	}
}

func relative(c color.Color) float64 {
	l := linearRGB(c)
	return 0.2126*l[0] + 0.7152*l[1] + 0.0722*l[2]
}

// TestCSS finds each bound in the declarations of a page, in the colour that
// pictures have.
func TestCSS(t *testing.T) {
	for b := range roofline.NumBounds {
		for dark, want := range map[bool]color.NRGBA{false: Bound(b).Light, true: Bound(b).Dark} {
			if css := CSS(dark); !strings.Contains(css, "--"+b.String()+":"+Hex(want)+";") {
				t.Errorf("dark %t: no %v of %s in %s", dark, b, Hex(want), css)
			}
		}
	}
}
