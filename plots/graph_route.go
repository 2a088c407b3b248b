//go:build !js

package plots

import (
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
	"llmprof/roofline"
)

// gap is the height of gap i: three lines cross it at most in the height of the
// rows beside it, and a sum takes more.
func (cl *cluster) gap(i int) vg.Length {
	es := cl.events(i)
	g := plainGap + 1.6*vg.Length(len(es))
	if slices.Contains(es, adds) {
		g += 3.2
	}
	if i == len(cl.nodes) && len(es) > 0 {
		g += 2 // off the frame
	}
	return g
}

// rows are where nodes and gaps of a cluster are, from the top.
type rows struct {
	node []vg.Rectangle
	port []vg.Length // heights of the nodes' marks
	top  vg.Length   // top of the first gap
	end  vg.Length   // end of the last gap
}

// place stacks the nodes between x and right below y.
func (cl *cluster) place(x, right, y vg.Length) rows {
	p := rows{top: y}
	for i, n := range cl.nodes {
		y -= cl.gap(i)
		box := vg.Rectangle{Min: vg.Point{X: x, Y: y - n.height()}, Max: vg.Point{X: right, Y: y}}
		p.node = append(p.node, box)
		p.port = append(p.port, y-nodeHeight/2)
		y -= n.height()
	}
	p.end = y - cl.gap(len(cl.nodes))
	return p
}

// at is the height of an event in gap i: events share what is between the marks
// above and below.
func (cl *cluster) at(p *rows, i int, e event) vg.Length {
	es := cl.events(i)
	const free = 2.4 // space beside a mark
	from, to := p.top, p.end
	if i > 0 {
		from = p.node[i-1].Min.Y + nodeHeight/2 - free // below the node's last line
	}
	if i < len(p.port) {
		to = p.port[i] + free
	}
	k := slices.Index(es, e)
	return from + (to-from)*(vg.Length(k)+0.5)/vg.Length(len(es))
}

// A route is an edge of a graph as a line, from where it leaves its lane to where it returns.
type route struct {
	lane   int
	points []vg.Point
	sum    bool // ends in a sum
}

// routes are the edges of a cluster that leave a lane for another, of which the lanes are at xs.
func (cl *cluster) routes(p *rows, xs [numLanes]vg.Length) (all []route) {
	add := func(from, to int, top, end vg.Length, sum bool) {
		all = append(all, route{lane: to, sum: sum, points: []vg.Point{
			{X: xs[from], Y: top}, {X: xs[to], Y: top}, {X: xs[to], Y: end}, {X: xs[from], Y: end},
		}})
	}
	for _, s := range cl.residual {
		add(streamLane, blockLane, cl.at(p, s.from, leaves), cl.at(p, s.to+1, adds), true)
	}
	for _, b := range cl.branches {
		add(blockLane, branchLane, cl.at(p, b.fork, forks), cl.at(p, b.to+1, merges), false)
	}
	return all
}

// drawRoute draws an edge with rounded corners, and the sum that it ends in.
func drawRoute(c *draw.Canvas, r *route) {
	ps := r.points
	if r.sum {
		ps[len(ps)-1].X += sumRadius
	}
	style := Line(1, colors.Ink())
	if r.lane == branchLane {
		style = Line(1, colors.Ink(), 2.5, 1.5)
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
		c.SetColor(colors.Ink())
		c.Fill(circle(p, 1.9))
		return
	}
	const r = 2.9
	c.SetColor(colors.Bound(roofline.ByNetwork))
	c.Fill(closed(vg.Point{X: p.X, Y: p.Y + r}, vg.Point{X: p.X + r, Y: p.Y}, vg.Point{X: p.X, Y: p.Y - r}, vg.Point{X: p.X - r, Y: p.Y}))
}

func plus(c *draw.Canvas, p vg.Point) {
	paint(c, circle(p, sumRadius), colors.Paper(), Line(0.8, colors.Ink()))
	c.StrokeLine2(Line(0.8, colors.Ink()), p.X-sumRadius, p.Y, p.X+sumRadius, p.Y)
	c.StrokeLine2(Line(0.8, colors.Ink()), p.X, p.Y-sumRadius, p.X, p.Y+sumRadius)
}
