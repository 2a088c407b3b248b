//go:build !js

package plots

import (
	"image/color"
	"math"

	"llmprof/plots/colors"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// mark draws the mark of a phase with the area of a circle of radius r.
func mark(c *draw.Canvas, m Marker, p vg.Point, r vg.Length, ink color.Color) {
	paint(c, m.path(p, r), ink, Line(0.7, colors.Ink()))
}

// half is how far the mark of a phase reaches from its middle to each side: a square has the area of a circle.
func half(m Marker, r vg.Length) vg.Length {
	if m == prefillMark {
		return r
	}
	return r * vg.Length(math.Sqrt(math.Pi)/2)
}

// A Marker is the shape of the points of a line. All six are areas, so that a
// hollow one still shows its shape.
type Marker uint8

// The phases differ by shape and not by colour: prefill has a circle, decode a square.
const prefillMark, decodeMark Marker = 0, 1

func (m Marker) phase() string { return [...]string{"prefill", "decode"}[m] }

// path is the outline of a marker with about the area of a circle of radius r.
func (m Marker) path(p vg.Point, r vg.Length) vg.Path {
	var corners [][2]vg.Length
	switch m % NumSeries {
	case prefillMark:
		return circle(p, r)
	case decodeMark:
		return square(p, half(m, r)).Path()
	case 2: // a triangle on its base
		corners = [][2]vg.Length{{-1.35, -0.78}, {1.35, -0.78}, {0, 1.56}}
	case 3: // a diamond
		corners = [][2]vg.Length{{-1.4, 0}, {0, -1.4}, {1.4, 0}, {0, 1.4}}
	case 4: // a triangle on its tip
		corners = [][2]vg.Length{{-1.35, 0.78}, {1.35, 0.78}, {0, -1.56}}
	case 5: // a cross of beams
		const a, b = 0.5, 1.4
		corners = [][2]vg.Length{{-a, -b}, {a, -b}, {a, -a}, {b, -a}, {b, a}, {a, a}, {a, b}, {-a, b}, {-a, a}, {-b, a}, {-b, -a}, {-a, -a}}
	}
	points := make([]vg.Point, len(corners))
	for i, k := range corners {
		points[i] = vg.Point{X: p.X + k[0]*r, Y: p.Y + k[1]*r}
	}
	return closed(points...)
}

// draw draws a marker in a colour, apart from the line below it.
func (m Marker) draw(c *draw.Canvas, p vg.Point, ink color.Color) {
	paint(c, m.path(p, markerRadius), ink, Line(0.6, colors.Paper()))
}

// hollow draws the marker of what does not fit in memory.
func (m Marker) hollow(c *draw.Canvas, p vg.Point) {
	paint(c, m.path(p, markerRadius), colors.Paper(), Line(1.1, colors.Alarm()))
}

const markerRadius vg.Length = 2.6

// A sides is a regular figure: how many corners, and where the first is, in turns
// from the right; a star has every other corner nearer to the middle.
type sides struct {
	corners int
	turn    float64
	inner   float64 // 0 for none
	wide    float64 // width over height; 0 for 1
}

// signs are told apart by their outlines at a radius of three points.
var signs = [...]sides{
	{corners: 14},                            // circle
	{corners: 4, turn: 0.125},                // square
	{corners: 3, turn: 0.25},                 // triangle
	{corners: 4},                             // diamond
	{corners: 3, turn: 0.75},                 // triangle on its tip
	{corners: 8, turn: 0.25, inner: 0.33},    // star of four rays
	{corners: 8, turn: 0.125, inner: 0.33},   // star of four rays, turned
	{corners: 4, turn: 0.125, wide: 2.6},     // bar
	{corners: 4, turn: 0.125, wide: 1 / 2.6}, // upright bar
}

// polygon is the outline of a sign with the area of a circle of radius r, about.
func polygon(s sides, p vg.Point, r vg.Length) vg.Path {
	r *= vg.Length(math.Sqrt(math.Pi / (float64(s.corners) / 2 * math.Sin(2*math.Pi/float64(s.corners)))))
	wide := vg.Length(1)
	if s.wide > 0 {
		wide = vg.Length(math.Sqrt(s.wide))
	}
	corners := make([]vg.Point, s.corners)
	for i := range corners {
		at := r
		if s.inner > 0 && i%2 == 1 {
			at *= vg.Length(s.inner)
		}
		sin, cos := math.Sincos(2 * math.Pi * (s.turn + float64(i)/float64(s.corners)))
		corners[i] = vg.Point{X: p.X + at*wide*vg.Length(cos), Y: p.Y + at/wide*vg.Length(sin)}
	}
	return closed(corners...)
}
