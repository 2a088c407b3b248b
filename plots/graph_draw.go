//go:build !js

package plots

import (
	"fmt"
	"strings"

	"llmprof/plots/colors"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
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
		"Shapes after \"/\" are cut by tensor parallelism; diamonds are collectives. FLOP counts matrix products; B is memory traffic, of collectives what goes on the wire."
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
		f.Title += " in " + p.String()
	}
	room := Width - 2*Margin
	f.hold(g.height(room) + legendHeight(g.keys(), room))
	if f.Height > maxHeight {
		return nil, fmt.Errorf("model graph: %d kinds of layers and what is around them make a picture %.0f points high, and no page is higher than %.0f; DOT has no such limit",
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
				sum += col.of(n).time
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
	return append(keys, key{fmt.Sprintf("share of the phase's time; a full bar is %s", shareText(g.most)), func(c *draw.Canvas, b vg.Rectangle) {
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

func (n *node) height() vg.Length {
	if n.more != "" {
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
	for i := range g.clusters {
		cl := &g.clusters[i]
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
	box := vg.Rectangle{Min: vg.Point{X: c.Min.X, Y: y - cl.height()}, Max: vg.Point{X: c.Max.X, Y: y}}
	fill(c, box, colors.Panel())
	outline(c, box, colors.Faint())
	s := Bold(LabelSize, colors.Ink())
	base := y - 3.5 - ascent(s)
	if len(g.strip.order) > 0 {
		chip := vg.Rectangle{Min: vg.Point{X: x, Y: base - 2}, Max: vg.Point{X: x + cellHeight, Y: base - 2 + cellHeight}}
		g.strip.cells(c, chip, cl.kind, 1)
		x += cellHeight + 4
	}
	c.FillText(s, vg.Point{X: x, Y: base}, fit(s, g.heading(cl), c.Max.X-x-4))
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
