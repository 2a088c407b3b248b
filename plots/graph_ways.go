package plots

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// clusterPaper is behind the nodes of a layer.
func clusterPaper() color.Color { return color.NRGBA{0xf5, 0xf6, 0xf8, 255} }

// flow draws the spine from one height down to another.
func flow(c *draw.Canvas, x, from, to vg.Length) {
	c.StrokeLine2(Line(1, Ink()), x, from, x, to)
	arrow(c, x, to)
}

// arrow draws a head that points down to y.
func arrow(c *draw.Canvas, x, y vg.Length) {
	var p vg.Path
	p.Move(vg.Point{X: x, Y: y})
	p.Line(vg.Point{X: x - 2, Y: y + 2.7})
	p.Line(vg.Point{X: x + 2, Y: y + 2.7})
	p.Close()
	c.SetColor(Ink())
	c.Fill(p)
}

// The lanes of ways beside the spine, from the nodes' left.
const (
	readLane  vg.Length = -4  // to the begin of a branch
	writeLane vg.Length = -8  // from the end of one
	streamAt  vg.Length = -14 // the residual stream
	sumAt     vg.Length = 4.6 // of a residual sum, below the top of its gap
)

// ways draws what runs beside the spine. gaps are the tops of the gaps.
func (cl *cluster) ways(c *draw.Canvas, x vg.Length, gaps []vg.Length) {
	spine := x + spineAt
	for k, b := range cl.branches {
		from, to := cl.leave(gaps, b.from), gaps[b.to+1]-cl.gap(b.to+1)/2
		lane := x + readLane
		if k%2 == 1 { // from the end of the branch above
			lane, from = x+writeLane, gaps[b.from]-2.5
			if cl.joins(b.to + 1) {
				to = gaps[b.to+1] - sumAt
			}
			c.StrokeLine2(Line(0.8, Ink()), spine, gaps[b.from], spine, from)
		} else {
			to = gaps[b.to+1] - cl.gap(b.to+1) + 4.5
			flow(c, spine, to, gaps[b.to+1]-cl.gap(b.to+1))
		}
		way(c, Line(0.8, Ink(), 2.5, 1.5), spine, lane, from, to)
	}
	for _, s := range cl.residual {
		sum := gaps[s.to+1] - sumAt
		way(c, Line(1, Faint()), spine, x+streamAt, cl.leave(gaps, s.from), sum)
		plus(c, vg.Point{X: spine, Y: sum})
	}
}

// leave is the height at which a way leaves the spine in gap i: below the sum
// that is there.
func (cl *cluster) leave(gaps []vg.Length, i int) vg.Length {
	if cl.joins(i) {
		return gaps[i] - 9.2
	}
	return gaps[i] - 2
}

// way draws a line from the spine to a lane, along it and back.
func way(c *draw.Canvas, s draw.LineStyle, spine, lane, from, to vg.Length) {
	c.StrokeLines(s, []vg.Point{{X: spine, Y: from}, {X: lane, Y: from}, {X: lane, Y: to}, {X: spine, Y: to}})
}

// plus draws the sign of a sum.
func plus(c *draw.Canvas, p vg.Point) {
	const r = 3
	var ring vg.Path
	ring.Move(vg.Point{X: p.X + r, Y: p.Y})
	ring.Arc(p, r, 0, 2*math.Pi)
	ring.Close()
	c.SetColor(Paper())
	c.Fill(ring)
	c.SetLineStyle(Line(0.8, Ink()))
	c.Stroke(ring)
	c.StrokeLine2(Line(0.8, Ink()), p.X-r, p.Y, p.X+r, p.Y)
	c.StrokeLine2(Line(0.8, Ink()), p.X, p.Y-r, p.X, p.Y+r)
}
