package plots

import (
	"fmt"
	"math"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
)

// The measures of a graph. A node is one line high, so that a model of two kinds
// of layer with latent attention and experts fits on a page of A4.
const (
	nodeHeight  vg.Length = 10.8
	moreHeight  vg.Length = 9 // of a second line
	plainGap    vg.Length = 2.9
	laneGap     vg.Length = 6.5  // where a way leaves or joins the spine
	joinGap     vg.Length = 12.4 // of a residual sum, with the way that leaves after it
	clusterHead vg.Length = 14
	clusterGap  vg.Length = 6
	lanes       vg.Length = 20 // left of the nodes, for ways beside the spine
	spineAt     vg.Length = 9  // of the spine, from the nodes' left
	headHeight  vg.Length = 12 // of the columns' names
	nameWidth   vg.Length = 86
	shapeWidth  vg.Length = 84
	graphNotes            = "One layer of each kind is drawn; figures are of all its repeats, on one GPU of each stage. Ways at the left are the residual stream and parallel branches. " +
		"Shapes after \"/\" are cut by tensor parallelism. FLOP counts matrix products; B is memory traffic, of collectives what goes on the wire."
)

// Graph draws the model as a graph of its operators, with what each costs in
// prefill and in decode.
func Graph(c *analytic.Case, r *analytic.Report) (*Figure, error) {
	g, err := newGraph(c, r)
	if err != nil {
		return nil, err
	}
	f := &Figure{Title: "Model graph with the cost of every operator", Caption: g.caption, Notes: []string{graphNotes}}
	room := Width - 2*Margin
	f.Height = f.outside() + g.height() + legendHeight(g.keys(), room)
	f.body = g.draw
	return f, nil
}

func (g *graph) keys() []key {
	keys := boundKeys(analytic.ByCompute, analytic.ByMemory, analytic.ByNetwork, analytic.ByLaunch)
	return append(keys, key{fmt.Sprintf("share of the phase's time; a full bar is %s", shareText(g.most)), func(c *draw.Canvas, b vg.Rectangle) {
		fill(c, b, Rule())
		b.Max.X -= (b.Max.X - b.Min.X) / 3
		fill(c, b, Faint())
	}})
}

// height is that of all clusters.
func (g *graph) height() vg.Length {
	h := headHeight
	for i := range g.clusters {
		h += g.clusters[i].height()
		if i > 0 {
			h += clusterGap
		}
	}
	return h
}

func (cl *cluster) height() (h vg.Length) {
	if cl.title != "" {
		h = clusterHead
	}
	for i := range cl.nodes {
		h += cl.gap(i) + cl.nodes[i].height()
	}
	return h + cl.gap(len(cl.nodes))
}

func (n *node) height() vg.Length {
	if n.more != "" {
		return nodeHeight + moreHeight
	}
	return nodeHeight
}

// joins reports whether a residual sum is in gap i, which is above node i.
func (cl *cluster) joins(i int) bool {
	for _, s := range cl.residual {
		if s.to+1 == i {
			return true
		}
	}
	return false
}

// gap is the height of gap i.
func (cl *cluster) gap(i int) vg.Length {
	if cl.joins(i) || i < len(cl.nodes) && i > 0 && cl.nodes[i].broken && cl.title != "" {
		return joinGap
	}
	for _, s := range append(cl.residual[:len(cl.residual):len(cl.residual)], cl.branches...) {
		if s.from == i || s.to+1 == i {
			return laneGap
		}
	}
	return plainGap
}

// draw draws all clusters, one above the other, with the legend below.
func (g *graph) draw(c draw.Canvas) {
	legend(&c, g.keys())
	x := c.Min.X + lanes
	y := c.Max.Y
	g.columns(&c, x, y)
	y -= headHeight
	for i := range g.clusters {
		cl := &g.clusters[i]
		if i > 0 {
			c.StrokeLine2(Line(1, Ink()), x+spineAt, y, x+spineAt, y-clusterGap)
			y -= clusterGap
		}
		g.cluster(&c, i, x, y)
		y -= cl.height()
	}
}

// columns writes the names of the columns.
func (g *graph) columns(c *draw.Canvas, x, y vg.Length) {
	s := Sans(CaptionSize, Faint())
	y -= ascent(s) + 1
	c.FillText(s, vg.Point{X: x + spineAt + 7, Y: y}, "operator")
	c.FillText(s, vg.Point{X: x + nameWidth + 5, Y: y}, "shape")
	for i, name := range []string{"prefill", "decode"} {
		if i > 0 && !g.decodes {
			continue
		}
		at := g.phaseColumns(c, x, i)
		c.FillText(Bold(CaptionSize, Ink()), vg.Point{X: at[0], Y: y}, name)
		for k, unit := range []string{"time", "FLOP", "B", "FLOP/B"} {
			right(c, s, at[k+1], y, unit)
		}
	}
}

// phaseColumns are the left of the bar, and the right edges of share, FLOPs,
// bytes and intensity.
func (g *graph) phaseColumns(c *draw.Canvas, x vg.Length, phase int) [5]vg.Length {
	left := x + nameWidth + shapeWidth
	wide := (c.Max.X - 4 - left) / 2
	left += wide * vg.Length(phase)
	return [5]vg.Length{left, left + wide*0.415, left + wide*0.583, left + wide*0.763, left + wide*0.967}
}

func right(c *draw.Canvas, s draw.TextStyle, x, y vg.Length, text string) {
	c.FillText(s, vg.Point{X: x - s.Width(text), Y: y}, text)
}

// cluster draws the frame, the nodes and the ways of cluster k below y.
func (g *graph) cluster(c *draw.Canvas, k int, x, y vg.Length) {
	cl := &g.clusters[k]
	if cl.title != "" {
		box := vg.Rectangle{Min: vg.Point{X: c.Min.X, Y: y - cl.height()}, Max: vg.Point{X: c.Max.X, Y: y}}
		fill(c, box, clusterPaper())
		outline(c, box, Faint())
		c.StrokeLine2(Line(1, Ink()), x+spineAt, y, x+spineAt, y-clusterHead)
		s := Bold(LabelSize, Ink())
		title := fit(s, g.heading(cl), c.Max.X-x-spineAt-14)
		c.FillText(s, vg.Point{X: x + spineAt + 7, Y: y - 3.5 - ascent(s)}, title)
		y -= clusterHead
	}
	gaps := make([]vg.Length, 0, len(cl.nodes)+1) // tops
	for i, n := range cl.nodes {
		gaps = append(gaps, y)
		y -= cl.gap(i)
		g.node(c, n, x, y)
		y -= n.height()
	}
	gaps = append(gaps, y)
	for i := range gaps {
		from, to := gaps[i], gaps[i]-cl.gap(i)
		switch {
		case i == 0 && k == 0: // nothing comes before
		case i < len(cl.nodes) && !cl.nodes[i].broken:
			flow(c, x+spineAt, from, to)
		case i == len(cl.nodes) && k+1 < len(g.clusters):
			c.StrokeLine2(Line(1, Ink()), x+spineAt, from, x+spineAt, to)
		}
	}
	cl.ways(c, x, gaps)
}

// heading is the name of a kind of layer, how often there is one, and its share.
func (g *graph) heading(cl *cluster) string {
	var prefill, decode float64
	for _, n := range cl.nodes {
		prefill += n.prefill.share
		decode += n.decode.share
	}
	s := fmt.Sprintf("%d × %s: %s of prefill", cl.count, cl.title, shareText(prefill))
	if g.decodes {
		s += fmt.Sprintf(", %s of decode", shareText(decode))
	}
	return s
}

// node draws one operator below y.
func (g *graph) node(c *draw.Canvas, n *node, x, y vg.Length) {
	box := vg.Rectangle{Min: vg.Point{X: x, Y: y - n.height()}, Max: vg.Point{X: c.Max.X - 4, Y: y}}
	fill(c, box, Paper())
	ink := Faint()
	if n.wire {
		ink = BoundColor(analytic.ByNetwork)
	}
	outline(c, box, ink)
	s := Bold(CaptionSize, Ink())
	if n.wire {
		s.Color = ink
	}
	base := y - (nodeHeight+ascent(s))/2
	c.FillText(s, vg.Point{X: x + 4, Y: base}, fit(s, strings.Replace(n.name, "layernorm", "norm", 1), nameWidth-4))
	small := Sans(CaptionSize, Ink())
	c.FillText(small, vg.Point{X: x + nameWidth + 5, Y: base}, fit(small, n.shape, shapeWidth-9))
	for i, w := range []*work{&n.prefill, &n.decode} {
		if w.done {
			g.work(c, w, n.wire, g.phaseColumns(c, x, i), base)
		}
	}
	if n.more != "" {
		faint := Sans(CaptionSize, Faint())
		c.FillText(faint, vg.Point{X: x + 4, Y: base - moreHeight}, fit(faint, n.more, box.Max.X-x-8))
	}
}

// work draws the figures of one phase on a line.
func (g *graph) work(c *draw.Canvas, w *work, wire bool, at [5]vg.Length, y vg.Length) {
	s := Sans(CaptionSize, Ink())
	const tall = 6
	bar := vg.Rectangle{Min: vg.Point{X: at[0] + tall + 2, Y: y - 0.4}, Max: vg.Point{X: at[1] - 24.5, Y: y - 0.4 + tall}}
	swatch := vg.Rectangle{Min: vg.Point{X: at[0], Y: bar.Min.Y}, Max: vg.Point{X: at[0] + tall, Y: bar.Max.Y}}
	fill(c, swatch, BoundColor(w.bound))
	outline(c, swatch, Faint())
	fill(c, bar, Rule())
	bar.Max.X = bar.Min.X + (bar.Max.X-bar.Min.X)*vg.Length(w.share/g.most)
	fill(c, bar, BoundColor(w.bound))
	outline(c, bar, Faint())
	right(c, s, at[1], y, shareText(w.share))
	if w.flops > 0 {
		right(c, s, at[2], y, brief(float64(w.flops)))
	}
	if w.bytes > 0 {
		right(c, s, at[3], y, brief(float64(w.bytes)))
	}
	if w.flops > 0 && w.bytes > 0 && !wire {
		right(c, s, at[4], y, brief(w.intensity()))
	}
}

// brief is a figure in three digits with a decimal prefix, as "1.31T".
func brief(v float64) string {
	prefixes := []string{"", "k", "M", "G", "T", "P", "E"}
	i := 0
	for v >= 999.5 && i+1 < len(prefixes) {
		v, i = v/1000, i+1
	}
	switch {
	case v >= 1e3:
		return fmt.Sprintf("%.0e", v*math.Pow(1000, float64(i)))
	case v >= 99.95:
		return fmt.Sprintf("%.0f%s", v, prefixes[i])
	case v >= 9.995:
		return fmt.Sprintf("%.1f%s", v, prefixes[i])
	case v < 0.005 && v > 0:
		return "<0.01"
	}
	return fmt.Sprintf("%.2f%s", v, prefixes[i])
}

// shareText is a share of time with a digit after the point where it is small.
func shareText(share float64) string {
	switch {
	case share >= 0.0995:
		return fmt.Sprintf("%.0f %%", share*100)
	case share < 0.0005 && share > 0:
		return "<0.1 %"
	}
	return fmt.Sprintf("%.1f %%", share*100)
}
