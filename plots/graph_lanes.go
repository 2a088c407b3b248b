package plots

import (
	"slices"

	"gonum.org/v1/plot/vg"
)

// A graph is drawn as its operators run, one row each, with what flows between
// them in lanes at the left of the rows: the residual stream, the operators of
// a block, which reads the stream and adds to it, and a branch beside those.
const (
	streamLane = iota
	blockLane
	branchLane
	numLanes
)

// A span is the nodes from one to another: a block between the gap above node
// from, where it reads the residual stream, and that below node to, where it
// adds to it.
type span struct{ from, to int }

// A branch leaves the lane of its block in gap fork and runs beside it to the gap
// below node to. It has the nodes from one to another.
type branch struct{ fork, from, to int }

// An event is what happens to the ways in a gap between two nodes, in the order
// in which it happens.
type event uint8

const (
	merges event = iota // a branch ends
	adds                // a block adds to the stream
	leaves              // a block reads the stream
	forks               // a branch begins
)

// events are those of gap i, which is above node i.
func (cl *cluster) events(i int) (es []event) {
	for _, b := range cl.branches {
		if b.to+1 == i {
			es = append(es, merges)
		}
		if b.fork == i {
			es = append(es, forks)
		}
	}
	for _, s := range cl.residual {
		if s.to+1 == i {
			es = append(es, adds)
		}
		if s.from == i {
			es = append(es, leaves)
		}
	}
	slices.Sort(es)
	return es
}

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

// lane is that of node i.
func (cl *cluster) lane(i int) int {
	for _, b := range cl.branches {
		if b.from <= i && i <= b.to {
			return branchLane
		}
	}
	for _, s := range cl.residual {
		if s.from <= i && i <= s.to {
			return blockLane
		}
	}
	return streamLane
}

// rows are where nodes and gaps of a cluster are, from the top.
type rows struct {
	node []vg.Rectangle
	port []vg.Length // heights of the nodes' marks
	top  vg.Length   // of the first gap
	end  vg.Length   // of the last one
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
	const free = 2.4 // beside a mark
	from, to := p.top, p.end
	if i > 0 {
		from = p.node[i-1].Min.Y + nodeHeight/2 - free // of its last line
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
