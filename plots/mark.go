package plots

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// mark draws the mark of a phase with the area of a circle of radius r.
func mark(c *draw.Canvas, m PhaseMark, p vg.Point, r vg.Length, ink color.Color) {
	path := shape(m, p, r)
	c.SetColor(ink)
	c.Fill(path)
	c.SetLineStyle(Line(0.7, Ink()))
	c.Stroke(path)
}

// shape is the outline of a mark: a circle, or a square of the same area.
func shape(m PhaseMark, p vg.Point, r vg.Length) vg.Path {
	var path vg.Path
	if _, round := m.Shape.(draw.CircleGlyph); round {
		path.Move(vg.Point{X: p.X + r, Y: p.Y})
		path.Arc(p, r, 0, 2*math.Pi)
		path.Close()
		return path
	}
	h := half(m, r)
	return vg.Rectangle{Min: vg.Point{X: p.X - h, Y: p.Y - h}, Max: vg.Point{X: p.X + h, Y: p.Y + h}}.Path()
}

// half is how far a mark reaches from its middle to each side.
func half(m PhaseMark, r vg.Length) vg.Length {
	if _, round := m.Shape.(draw.CircleGlyph); round {
		return r
	}
	return r * vg.Length(math.Sqrt(math.Pi)/2)
}

// outline draws the border of a rectangle.
func outline(c *draw.Canvas, r vg.Rectangle, ink color.Color) {
	c.SetLineStyle(Line(0.5, ink))
	c.Stroke(r.Path())
}
