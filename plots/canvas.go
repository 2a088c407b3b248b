//go:build !js

package plots

import (
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// rect is the rectangle between two corners, the lower left one first.
func rect(left, bottom, right, top vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: vg.Point{X: left, Y: bottom}, Max: vg.Point{X: right, Y: top}}
}

// square is the rectangle that reaches r from p to each side.
func square(p vg.Point, r vg.Length) vg.Rectangle {
	return rect(p.X-r, p.Y-r, p.X+r, p.Y+r)
}

// boxAt is the rectangle of w by h with its lower left corner at p.
func boxAt(p vg.Point, w, h vg.Length) vg.Rectangle {
	return vg.Rectangle{Min: p, Max: vg.Point{X: p.X + w, Y: p.Y + h}}
}

func middle(b vg.Rectangle) vg.Point {
	return vg.Point{X: (b.Min.X + b.Max.X) / 2, Y: (b.Min.Y + b.Max.Y) / 2}
}

func inside(b vg.Rectangle, p vg.Point) bool { return nearest(b, p) == p }

func nearest(b vg.Rectangle, p vg.Point) vg.Point {
	return vg.Point{X: min(max(p.X, b.Min.X), b.Max.X), Y: min(max(p.Y, b.Min.Y), b.Max.Y)}
}

func paint(c *draw.Canvas, path vg.Path, ink color.Color, border draw.LineStyle) {
	c.SetColor(ink)
	c.Fill(path)
	c.SetLineStyle(border)
	c.Stroke(path)
}

func circle(p vg.Point, r vg.Length) (path vg.Path) {
	path.Move(vg.Point{X: p.X + r, Y: p.Y})
	path.Arc(p, r, 0, 2*math.Pi)
	path.Close()
	return path
}

// closed is the outline of a figure with these corners.
func closed(corners ...vg.Point) (path vg.Path) {
	path.Move(corners[0])
	for _, q := range corners[1:] {
		path.Line(q)
	}
	path.Close()
	return path
}

func outline(c *draw.Canvas, r vg.Rectangle, ink color.Color) {
	c.SetLineStyle(Line(0.5, ink))
	c.Stroke(r.Path())
}

func fill(c *draw.Canvas, r vg.Rectangle, ink color.Color) {
	c.SetColor(ink)
	c.Fill(r.Path())
}

// slanted draws lines over a rectangle that fall to the right.
func slanted(c *draw.Canvas, r vg.Rectangle, line draw.LineStyle, gap vg.Length) {
	w, h := r.Max.X-r.Min.X, r.Max.Y-r.Min.Y
	if w <= 0 || h <= 0 {
		return
	}
	for d := gap; d < w+h; d += gap {
		x0, y0 := d, vg.Length(0)
		if d > w {
			x0, y0 = w, d-w
		}
		x1, y1 := vg.Length(0), d
		if d > h {
			x1, y1 = d-h, h
		}
		c.StrokeLine2(line, r.Min.X+x0, r.Min.Y+y0, r.Min.X+x1, r.Min.Y+y1)
	}
}

// between is the outline of the area between two lines.
func between(upper, lower []vg.Point) []vg.Point {
	area := slices.Clone(upper)
	for _, p := range slices.Backward(lower) {
		area = append(area, p)
	}
	return area
}

// write writes text from x on to the right, on the baseline y.
func write(c *draw.Canvas, s draw.TextStyle, x, y vg.Length, text string) {
	c.FillText(s, vg.Point{X: x, Y: y}, text)
}

// writeUpTo writes text that ends at x.
func writeUpTo(c *draw.Canvas, s draw.TextStyle, x, y vg.Length, text string) {
	write(c, s, x-s.Width(text), y, text)
}

// writeAround writes text whose middle is at x.
func writeAround(c *draw.Canvas, s draw.TextStyle, x, y vg.Length, text string) {
	write(c, s, x-s.Width(text)/2, y, text)
}
