//go:build !js

package plots

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/plots/colors"
	"llmprof/roofline"
	"llmprof/unit"
)

// The measures of a graph. A node is one line high, so that a model of two kinds
// of layer with latent attention and experts fits on a page of A4.
const (
	nodeHeight  vg.Length = 10.8
	moreHeight  vg.Length = 9 // height of a second line
	plainGap    vg.Length = 1.7
	clusterHead vg.Length = 14
	clusterGap  vg.Length = 5
	laneWidth   vg.Length = 9.5
	headHeight  vg.Length = 13 // height of the columns' names
	sumRadius   vg.Length = 3
	maxHeight   vg.Length = 14400 // largest height of a page in PDF: ISO 32000-1, annex C
	graphNotes            = "One layer of each kind is drawn; figures are of all its repeats, on one GPU of each stage. " +
		"The line at the left is the residual stream: blocks leave it and add to it again, branches run beside their block. " +
		"Shapes after \"/\" are cut by tensor parallelism; diamonds are collectives. FLOP counts matrix products; B is memory traffic, of " +
		"collectives what goes on the wire."
)

// Graph draws the model as a graph of its operators, with what each costs in the chosen phases.
func Graph(c *analytic.Case, r *breakdown.Report, p Phases) (*Figure, error) {
	only, err := p.of(r)
	if err != nil {
		return nil, err
	}
	g, err := newGraph(c, only)
	if err != nil {
		return nil, err
	}
	f := &Figure{Title: "Model graph with the cost of every operator", Caption: g.caption, Notes: []string{g.phaseNote(only), graphNotes}}
	if p != BothPhases {
		f.Title += " in " + string(p)
	}
	room := Width - 2*Margin
	f.hold(g.height(room) + legendHeight(g.keys(), room))
	if f.Height > maxHeight {
		return nil, fmt.Errorf("model graph: %d kinds of layers and what is around them make a picture %.0f points high, and no page is "+
			"higher than %.0f; DOT has no such limit",
			len(g.clusters), f.Height.Points(), maxHeight.Points())
	}
	f.body = g.draw
	return f, nil
}

// phaseNote says what the figures of either phase are of, and its time.
func (g *graph) phaseNote(r *breakdown.Report) string {
	var parts []string
	for _, col := range g.columns {
		var sum unit.Seconds
		for i := range g.clusters {
			for _, n := range g.clusters[i].nodes {
				if w := col.of(n); w != nil {
					sum += w.Expected
				}
			}
		}
		of := "the prompt"
		if col.name == "decode" {
			of = "one step"
			if r.Context > 0 {
				of += fmt.Sprintf(" at context %.0f", r.Context)
			}
		}
		parts = append(parts, fmt.Sprintf("%s is of %s and takes %s", col.name, of, sum))
	}
	s := strings.Join(parts, "; ") + "."
	return strings.ToUpper(s[:1]) + s[1:]
}

func (g *graph) keys() (keys []key) {
	for _, b := range []roofline.Bound{roofline.ByCompute, roofline.ByMemory, roofline.ByNetwork, roofline.ByLaunch} {
		keys = append(keys, key{b.String() + "-bound", func(c *draw.Canvas, box vg.Rectangle) {
			box.Min.X += (keyWidth - swatch) / 2
			boundMark(c, b, vg.Point{X: box.Min.X, Y: box.Min.Y - 0.2})
		}})
	}
	return append(keys, key{fmt.Sprintf("share of the phase's time; a full bar is %s", shareText(g.most)), func(
		c *draw.Canvas, b vg.Rectangle) {
		fill(c, b, colors.Rule())
		b.Max.X -= (b.Max.X - b.Min.X) / 3
		fill(c, b, colors.Faint())
	}})
}

// height is that of all clusters and what stands above them.
func (g *graph) height(room vg.Length) vg.Length {
	h := g.strip.height(room) + headHeight
	for i := range g.clusters {
		h += g.clusters[i].height()
		if i > 0 {
			h += clusterGap
		}
	}
	return h
}

func (cl *cluster) head() vg.Length {
	if cl.title == "" {
		return 0
	}
	return clusterHead
}

func (cl *cluster) height() vg.Length {
	p := cl.place(0, 0, 0)
	return cl.head() - p.end
}

func (n *GraphNode) height() vg.Length {
	if n.More != "" {
		return nodeHeight + moreHeight
	}
	return nodeHeight
}

// An arrangement is where everything of a graph is: the tops of the clusters and
// the rows in them, the lanes, and the left of the nodes.
type arrangement struct {
	tops  []vg.Length
	rows  []rows
	lanes [numLanes]vg.Length
	x     vg.Length
	head  vg.Length // the top of the columns' names
}

// arrange fills an area from the top.
func (g *graph) arrange(area vg.Rectangle) *arrangement {
	a := &arrangement{head: area.Max.Y - g.strip.height(area.Max.X-area.Min.X)}
	used := blockLane
	for i := range g.clusters {
		if len(g.clusters[i].branches) > 0 {
			used = branchLane
		}
	}
	for i := range a.lanes {
		a.lanes[i] = area.Min.X + 8 + laneWidth*vg.Length(i)
	}
	a.x = a.lanes[used] + 6
	y := a.head - headHeight
	for _, cl := range g.clusters {
		a.tops = append(a.tops, y)
		a.rows = append(a.rows, cl.place(a.x, area.Max.X-4, y-cl.head()))
		y -= cl.height() + clusterGap
	}
	return a
}

// draw draws all clusters, one below the other, with the legend below.
func (g *graph) draw(c draw.Canvas) {
	legend(&c, g.keys())
	g.strip.draw(&c, c.Max.Y)
	a := g.arrange(c.Rectangle)
	g.header(&c, a.x, a.head)
	for i := range g.clusters {
		g.frame(&c, &g.clusters[i], a.x, a.tops[i])
	}
	if from, to := g.stream(a); from > to {
		x := a.lanes[streamLane]
		c.StrokeLine2(Line(1.8, colors.Faint()), x, from, x, to)
	}
	for i := range g.clusters {
		cl := &g.clusters[i]
		for _, r := range cl.routes(&a.rows[i], a.lanes) {
			drawRoute(&c, &r)
		}
		for k, n := range cl.nodes {
			if !n.apart {
				port(&c, n, vg.Point{X: a.lanes[cl.lane(k)], Y: a.rows[i].port[k]})
			}
			g.node(&c, n, a.rows[i].node[k])
		}
	}
}

// frame draws what is behind the nodes of a layer, with its name.
func (g *graph) frame(c *draw.Canvas, cl *cluster, x, y vg.Length) {
	if cl.title == "" {
		return
	}
	box := rect(c.Min.X, y-cl.height(), c.Max.X, y)
	fill(c, box, colors.Panel())
	outline(c, box, colors.Faint())
	s := Bold(LabelSize, colors.Ink())
	base := y - 3.5 - ascent(s)
	if len(g.strip.order) > 0 {
		chip := rect(x, base-2, x+cellHeight, base-2+cellHeight)
		g.strip.cells(c, chip, cl.kind, 1)
		x += cellHeight + 4
	}
	write(c, s, x, base, fit(s, g.heading(cl), c.Max.X-x-4))
}

// stream is from where to where the residual stream runs: from the first node
// that is part of it to the last.
func (g *graph) stream(a *arrangement) (from, to vg.Length) {
	found := false
	for i := range g.clusters {
		for k, n := range g.clusters[i].nodes {
			if n.apart {
				continue
			}
			if to = a.rows[i].port[k]; !found {
				from, found = to, true
			}
		}
	}
	return from, to
}

// The measures of a row.
const (
	nameWidth  vg.Length = 81
	shapeWidth vg.Length = 71
	swatch     vg.Length = 8.4 // the side of a bound's mark
	rowPad     vg.Length = 4
)

// cells are the left of a phase's mark and bar, and the right edges of the bar
// and of the figures: time, share, FLOPs, bytes and intensity.
type cells struct {
	mark, bar, barEnd               vg.Length
	time, share, flops, bytes, rate vg.Length
}

// cells are those of column i in a row. One phase alone has room for its time.
func (g *graph) cells(row vg.Rectangle, i int) cells {
	left := row.Min.X + nameWidth + shapeWidth
	wide := (row.Max.X - left) / vg.Length(max(len(g.columns), 1))
	left += wide * vg.Length(i)
	p := cells{mark: left, bar: left + swatch + 2}
	end := left + wide - rowPad
	p.rate = end
	if len(g.columns) > 1 {
		p.bytes, p.flops, p.share = end-28.5, end-51.5, end-74.5
		p.barEnd = p.share - 24.5
		return p
	}
	p.bytes, p.flops, p.share, p.time = end-32, end-66, end-98, end-124
	p.barEnd = p.time - 35
	return p
}

func (g *graph) header(c *draw.Canvas, x, y vg.Length) {
	s := Sans(CaptionSize, colors.Faint())
	y -= ascent(s) + 2
	write(c, s, x+rowPad, y, "operator")
	write(c, s, x+nameWidth, y, "shape")
	row := vg.Rectangle{Min: vg.Point{X: x}, Max: vg.Point{X: c.Max.X - 4}}
	for i, col := range g.columns {
		p := g.cells(row, i)
		write(c, Bold(CaptionSize, colors.Ink()), p.mark, y, col.name)
		if p.time > 0 {
			writeUpTo(c, s, p.time, y, "time")
		}
		writeUpTo(c, s, p.share, y, "share")
		writeUpTo(c, s, p.flops, y, "FLOP")
		writeUpTo(c, s, p.bytes, y, "B")
		writeUpTo(c, s, p.rate, y, "FLOP/B")
	}
}

func (g *graph) node(c *draw.Canvas, n *GraphNode, box vg.Rectangle) {
	fill(c, box, colors.Paper())
	ink := colors.Faint()
	if n.Wire {
		ink = colors.Bound(roofline.ByNetwork)
	}
	outline(c, box, ink)
	s := Bold(CaptionSize, colors.Ink())
	if n.Wire {
		s.Color = ink
	}
	base := box.Max.Y - (nodeHeight+ascent(s))/2
	g.label(c, s, n, vg.Point{X: box.Min.X, Y: base})
	for i, col := range g.columns {
		if w := col.of(n); w != nil {
			g.work(c, w, n.Wire, g.cells(box, i), base)
		}
	}
	if n.More != "" {
		faint := Sans(CaptionSize, colors.Faint())
		write(c, faint, box.Min.X+rowPad, base-moreHeight, fit(faint, n.More, box.Max.X-box.Min.X-2*rowPad))
	}
}

// label writes name and shape; a long name goes into the column of a short shape.
func (g *graph) label(c *draw.Canvas, s draw.TextStyle, n *GraphNode, at vg.Point) {
	small := Sans(CaptionSize, colors.Ink())
	const apart = 6
	room := nameWidth + shapeWidth - rowPad - apart
	shape := fit(small, n.Shape, shapeWidth-3)
	if shape != "" {
		room = max(room-small.Width(shape)-apart, nameWidth-rowPad-apart)
	}
	name := fit(s, strings.Replace(n.Name, "layernorm", "norm", 1), room)
	write(c, s, at.X+rowPad, at.Y, name)
	write(c, small, at.X+max(nameWidth, rowPad+s.Width(name)+apart), at.Y, shape)
}

// work draws the figures of one phase on a line.
func (g *graph) work(c *draw.Canvas, w *GraphWork, wire bool, at cells, y vg.Length) {
	s := Sans(CaptionSize, colors.Ink())
	boundMark(c, w.Bound, vg.Point{X: at.mark, Y: y - 1.6})
	bar := rect(at.bar, y-0.4, at.barEnd, y+5.6)
	fill(c, bar, colors.Rule())
	bar.Max.X = bar.Min.X + (bar.Max.X-bar.Min.X)*vg.Length(w.Share/g.most)
	fill(c, bar, colors.Bound(w.Bound))
	outline(c, bar, colors.Faint())
	if at.time > 0 {
		writeUpTo(c, s, at.time, y, w.Expected.String())
	}
	writeUpTo(c, s, at.share, y, shareText(w.Share))
	if w.FLOPs > 0 {
		writeUpTo(c, s, at.flops, y, engineering(float64(w.FLOPs)))
	}
	if w.Bytes > 0 {
		writeUpTo(c, s, at.bytes, y, engineering(float64(w.Bytes)))
	}
	if w.FLOPs > 0 && w.Bytes > 0 && !wire {
		writeUpTo(c, s, at.rate, y, engineering(w.intensity()))
	}
}

// boundMark draws a bound as a field of its colour with its first letter, for
// who does not see the colour.
func boundMark(c *draw.Canvas, b roofline.Bound, at vg.Point) {
	box := boxAt(at, swatch, swatch)
	fill(c, box, colors.Bound(b))
	outline(c, box, colors.Faint())
	s := Bold(CaptionSize, colors.Bound(b).On())
	text := strings.ToUpper(b.String()[:1])
	write(c, s, at.X+(swatch-s.Width(text))/2, at.Y+(swatch-ascent(s))/2, text)
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
		box := rect(x, y-n.height(), right, y)
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
func port(c *draw.Canvas, n *GraphNode, p vg.Point) {
	if !n.Wire {
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
