//go:build !js

package plots

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// mark draws the mark of a phase with the area of a circle of radius r.
func mark(c *draw.Canvas, m Marker, p vg.Point, r vg.Length, ink color.Color) {
	path := m.path(p, r)
	c.SetColor(ink)
	c.Fill(path)
	c.SetLineStyle(Line(0.7, Ink()))
	c.Stroke(path)
}

// half is how far the mark of a phase reaches from its middle to each side: a square has the area of a circle.
func half(m Marker, r vg.Length) vg.Length {
	if m == prefillMark {
		return r
	}
	return r * vg.Length(math.Sqrt(math.Pi)/2)
}

// outline draws the border of a rectangle.
func outline(c *draw.Canvas, r vg.Rectangle, ink color.Color) {
	c.SetLineStyle(Line(0.5, ink))
	c.Stroke(r.Path())
}

// A Marker is the shape of the points of a line. All six are areas, so that a
// hollow one still shows its shape.
type Marker uint8

// The phases differ by shape and not by colour: prefill has a circle, decode a square.
const prefillMark, decodeMark Marker = 0, 1

// phase is the name of the phase that a marker stands for.
func (m Marker) phase() string { return [...]string{"prefill", "decode"}[m] }

// path is the outline of a marker with about the area of a circle of radius r.
func (m Marker) path(p vg.Point, r vg.Length) vg.Path {
	var path vg.Path
	var corners [][2]vg.Length
	switch m % NumSeries {
	case prefillMark:
		path.Move(vg.Point{X: p.X + r, Y: p.Y})
		path.Arc(p, r, 0, 2*math.Pi)
		path.Close()
		return path
	case decodeMark:
		h := half(m, r)
		return vg.Rectangle{Min: vg.Point{X: p.X - h, Y: p.Y - h}, Max: vg.Point{X: p.X + h, Y: p.Y + h}}.Path()
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
	for i, k := range corners {
		q := vg.Point{X: p.X + k[0]*r, Y: p.Y + k[1]*r}
		if i == 0 {
			path.Move(q)
			continue
		}
		path.Line(q)
	}
	path.Close()
	return path
}

// draw draws a marker in a colour, apart from the line below it.
func (m Marker) draw(c *draw.Canvas, p vg.Point, ink color.Color) {
	m.paint(c, p, ink, Line(0.6, Paper()))
}

// hollow draws the marker of what does not fit in memory.
func (m Marker) hollow(c *draw.Canvas, p vg.Point) {
	m.paint(c, p, Paper(), Line(1.1, Alarm()))
}

func (m Marker) paint(c *draw.Canvas, p vg.Point, ink color.Color, border draw.LineStyle) {
	path := m.path(p, markerRadius)
	c.SetColor(ink)
	c.Fill(path)
	c.SetLineStyle(border)
	c.Stroke(path)
}

const markerRadius vg.Length = 2.6
