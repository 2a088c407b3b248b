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

// hatch draws falling lines over a convex area.
func hatch(area []vg.Point, gap vg.Length, stroke func(from, to vg.Point)) {
	low, high := area[0], area[0]
	for _, p := range area {
		low = vg.Point{X: min(low.X, p.X), Y: min(low.Y, p.Y)}
		high = vg.Point{X: max(high.X, p.X), Y: max(high.Y, p.Y)}
	}
	for d := gap; d < high.X-low.X+high.Y-low.Y; d += gap {
		if from, to, ok := within(area, vg.Point{X: low.X + d, Y: low.Y}, vg.Point{X: low.X, Y: low.Y + d}); ok {
			stroke(from, to)
		}
	}
}

func slanted(c *draw.Canvas, r vg.Rectangle, line draw.LineStyle, gap vg.Length) {
	corners := []vg.Point{r.Min, {X: r.Max.X, Y: r.Min.Y}, r.Max, {X: r.Min.X, Y: r.Max.Y}}
	hatch(corners, gap, func(from, to vg.Point) { c.StrokeLine2(line, from.X, from.Y, to.X, to.Y) })
}

// within is the part of the line from a to b that lies in a polygon, from the first
// crossing with its border to the last.
func within(area []vg.Point, a, b vg.Point) (from, to vg.Point, ok bool) {
	first, last := 1.0, 0.0
	for i, p := range area {
		q := area[(i+1)%len(area)]
		d := float64((b.X-a.X)*(q.Y-p.Y) - (b.Y-a.Y)*(q.X-p.X))
		if d == 0 {
			continue
		}
		t := float64((p.X-a.X)*(q.Y-p.Y)-(p.Y-a.Y)*(q.X-p.X)) / d
		u := float64((p.X-a.X)*(b.Y-a.Y)-(p.Y-a.Y)*(b.X-a.X)) / d
		if t >= 0 && t <= 1 && u >= 0 && u <= 1 {
			first, last = min(first, t), max(last, t)
		}
	}
	at := func(t float64) vg.Point {
		return vg.Point{X: a.X + (b.X-a.X)*vg.Length(t), Y: a.Y + (b.Y-a.Y)*vg.Length(t)}
	}
	return at(first), at(last), last > first
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
