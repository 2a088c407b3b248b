//go:build !js

package plots

import (
	"slices"

	"gonum.org/v1/plot/vg"
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

// A route is a line of a graph, from where it leaves to where it ends.
type route struct {
	lane   int
	points []vg.Point
	sum    bool // ends in a sum
}

// routes are the ways of a cluster, of which the lanes are at xs.
func (cl *cluster) routes(p *rows, xs [numLanes]vg.Length) (all []route) {
	way := func(from, to int, top, end vg.Length, sum bool) {
		all = append(all, route{lane: to, sum: sum, points: []vg.Point{
			{X: xs[from], Y: top}, {X: xs[to], Y: top}, {X: xs[to], Y: end}, {X: xs[from], Y: end},
		}})
	}
	for _, s := range cl.residual {
		way(streamLane, blockLane, cl.at(p, s.from, leaves), cl.at(p, s.to+1, adds), true)
	}
	for _, b := range cl.branches {
		way(blockLane, branchLane, cl.at(p, b.fork, forks), cl.at(p, b.to+1, merges), false)
	}
	return all
}
