package plots

import (
	"image/color"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gonum.org/v1/plot/vg"

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

// apart is how far two colours are for an eye (ΔE of CIE 1976), and in grey (L*).
func apart(eye [3][3]float64, a, b color.Color) (delta, grey float64) {
	p, q := lab(seen(eye, a)), lab(seen(eye, b))
	return math.Hypot(math.Hypot(p[0]-q[0], p[1]-q[1]), p[2]-q[2]), math.Abs(p[0] - q[0])
}

// A paint is a colour of a palette and the pattern over it.
type paint struct {
	name    string
	ink     color.Color
	pattern pattern
}

// palettes are the colours that areas of one picture have.
func palettes() map[string][]paint {
	all := map[string][]paint{}
	for b := roofline.ByCompute; b <= roofline.ByLaunch; b++ {
		all["bounds"] = append(all["bounds"], paint{b.String(), BoundColor(b), plain})
	}
	for _, l := range memoryLayers() {
		all["memory"] = append(all["memory"], paint{l.name, l.ink, plain})
	}
	for g := range numGroups {
		all["groups"] = append(all["groups"], paint{g.String(), g.dress().ink, g.dress().pattern})
	}
	return all
}

// TestPalettesAreToldApart holds the colours of areas apart for every kind of eye,
// and in grey, unless they are hatched differently.
func TestPalettesAreToldApart(t *testing.T) {
	for name, paints := range palettes() {
		for kind, eye := range blind() {
			for i, a := range paints {
				for _, b := range paints[:i] {
					delta, grey := apart(eye, a.ink, b.ink)
					if a.pattern != b.pattern {
						continue
					}
					if delta < 15 {
						t.Errorf("%s: %s: %s and %s differ by ΔE %.0f, want 15", name, kind, a.name, b.name, delta)
					}
					if kind == "normal" && grey < 9.5 {
						t.Errorf("%s: in grey %s and %s differ by L* %.1f, want 9.5", name, a.name, b.name, grey)
					}
				}
			}
		}
	}
}

// TestBoundColorsDiffer holds the four colours of every picture farther apart.
func TestBoundColorsDiffer(t *testing.T) {
	for kind, eye := range blind() {
		for a := roofline.ByCompute; a <= roofline.ByLaunch; a++ {
			for b := roofline.ByCompute; b < a; b++ {
				delta, grey := apart(eye, BoundColor(a), BoundColor(b))
				if delta < 20 {
					t.Errorf("%s: %v and %v differ by ΔE %.0f, want 20", kind, a, b, delta)
				}
				if kind == "normal" && grey < 14 {
					t.Errorf("in grey %v and %v differ by L* %.0f, want 14", a, b, grey)
				}
			}
		}
	}
}

// TestSeriesAreToldApart holds the lines of a picture apart by marker and dash,
// whatever the eye or the printer.
func TestSeriesAreToldApart(t *testing.T) {
	origin := vg.Point{}
	for i := range NumSeries {
		_, dash, marker := Series(i)
		for j := range i {
			_, dash2, marker2 := Series(j)
			if cmp.Equal(marker.path(origin, 1), marker2.path(origin, 1)) {
				t.Errorf("series %d and %d have the same marker", i, j)
			}
			if slices.Equal(dash, dash2) {
				t.Errorf("series %d and %d have the same dashes", i, j)
			}
		}
	}
}

// TestInksAreToldApart holds the colours of lines and points apart for every kind
// of eye, and legible as letters.
func TestInksAreToldApart(t *testing.T) {
	for i := range numInks {
		if _, grey := apart(blind()["normal"], ink(i), Paper()); grey < 35 {
			t.Errorf("ink %d has letters of L* %.0f from paper, want 35", i, grey)
		}
		for j := range i {
			for kind, eye := range blind() {
				if delta, _ := apart(eye, ink(i), ink(j)); delta < 10 {
					t.Errorf("%s: inks %d and %d differ by ΔE %.0f, want 10", kind, i, j, delta)
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
