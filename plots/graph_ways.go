//go:build !js

package plots

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
	"llmprof/roofline"
)

// drawRoute draws a way with rounded corners, and the sum that it ends in.
func drawRoute(c *draw.Canvas, r *route) {
	ps := r.points
	if r.sum {
		ps[len(ps)-1].X += sumRadius
	}
	style := Line(1, Ink())
	if r.lane == branchLane {
		style = Line(1, Ink(), 2.5, 1.5)
	}
	c.SetLineStyle(style)
	c.Stroke(rounded(ps))
	if r.sum {
		end := ps[len(ps)-1]
		plus(c, vg.Point{X: end.X - sumRadius, Y: end.Y})
	}
}

// rounded is a line through points with corners cut.
func rounded(ps []vg.Point) vg.Path {
	var path vg.Path
	path.Move(ps[0])
	for i := 1; i+1 < len(ps); i++ {
		path.Line(toward(ps[i], ps[i-1]))
		path.QuadTo(ps[i], toward(ps[i], ps[i+1]))
	}
	path.Line(ps[len(ps)-1])
	return path
}

// toward is the point on the way from p to q where a corner at p begins.
func toward(p, q vg.Point) vg.Point {
	const radius = 3
	dx, dy := float64(q.X-p.X), float64(q.Y-p.Y)
	far := math.Hypot(dx, dy)
	if far == 0 {
		return p
	}
	part := min(radius, far/2) / far
	return vg.Point{X: p.X + vg.Length(dx*part), Y: p.Y + vg.Length(dy*part)}
}

// port draws where a node is on its lane: a disk, or a diamond for a collective.
func port(c *draw.Canvas, n *node, p vg.Point) {
	if !n.wire {
		c.SetColor(Ink())
		c.Fill(circle(p, 1.9))
		return
	}
	const r = 2.9
	c.SetColor(colors.Bound(roofline.ByNetwork))
	c.Fill(closed(vg.Point{X: p.X, Y: p.Y + r}, vg.Point{X: p.X + r, Y: p.Y}, vg.Point{X: p.X, Y: p.Y - r}, vg.Point{X: p.X - r, Y: p.Y}))
}

// plus draws the sign of a sum.
func plus(c *draw.Canvas, p vg.Point) {
	paint(c, circle(p, sumRadius), Paper(), Line(0.8, Ink()))
	c.StrokeLine2(Line(0.8, Ink()), p.X-sumRadius, p.Y, p.X+sumRadius, p.Y)
	c.StrokeLine2(Line(0.8, Ink()), p.X, p.Y-sumRadius, p.X, p.Y+sumRadius)
}
