//go:build !js

package plots

import (
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
	"llmprof/roofline"
)

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

// header writes the names of the columns.
func (g *graph) header(c *draw.Canvas, x, y vg.Length) {
	s := Sans(CaptionSize, colors.Faint())
	y -= ascent(s) + 2
	c.FillText(s, vg.Point{X: x + rowPad, Y: y}, "operator")
	c.FillText(s, vg.Point{X: x + nameWidth, Y: y}, "shape")
	row := vg.Rectangle{Min: vg.Point{X: x}, Max: vg.Point{X: c.Max.X - 4}}
	for i, col := range g.columns {
		p := g.cells(row, i)
		c.FillText(Bold(CaptionSize, colors.Ink()), vg.Point{X: p.mark, Y: y}, col.name)
		if p.time > 0 {
			right(c, s, p.time, y, "time")
		}
		right(c, s, p.share, y, "share")
		right(c, s, p.flops, y, "FLOP")
		right(c, s, p.bytes, y, "B")
		right(c, s, p.rate, y, "FLOP/B")
	}
}

func right(c *draw.Canvas, s draw.TextStyle, x, y vg.Length, text string) {
	c.FillText(s, vg.Point{X: x - s.Width(text), Y: y}, text)
}

func (g *graph) node(c *draw.Canvas, n *node, box vg.Rectangle) {
	fill(c, box, colors.Paper())
	ink := colors.Faint()
	if n.wire {
		ink = colors.Bound(roofline.ByNetwork)
	}
	outline(c, box, ink)
	s := Bold(CaptionSize, colors.Ink())
	if n.wire {
		s.Color = ink
	}
	base := box.Max.Y - (nodeHeight+ascent(s))/2
	g.label(c, s, n, vg.Point{X: box.Min.X, Y: base})
	for i, col := range g.columns {
		if w := col.of(n); w.done {
			g.work(c, w, n.wire, g.cells(box, i), base)
		}
	}
	if n.more != "" {
		faint := Sans(CaptionSize, colors.Faint())
		c.FillText(faint, vg.Point{X: box.Min.X + rowPad, Y: base - moreHeight}, fit(faint, n.more, box.Max.X-box.Min.X-2*rowPad))
	}
}

// label writes name and shape; a long name goes into the column of a short shape.
func (g *graph) label(c *draw.Canvas, s draw.TextStyle, n *node, at vg.Point) {
	small := Sans(CaptionSize, colors.Ink())
	const apart = 6
	room := nameWidth + shapeWidth - rowPad - apart
	shape := fit(small, n.shape, shapeWidth-3)
	if shape != "" {
		room = max(room-small.Width(shape)-apart, nameWidth-rowPad-apart)
	}
	name := fit(s, strings.Replace(n.name, "layernorm", "norm", 1), room)
	c.FillText(s, vg.Point{X: at.X + rowPad, Y: at.Y}, name)
	c.FillText(small, vg.Point{X: at.X + max(nameWidth, rowPad+s.Width(name)+apart), Y: at.Y}, shape)
}

// work draws the figures of one phase on a line.
func (g *graph) work(c *draw.Canvas, w *work, wire bool, at cells, y vg.Length) {
	s := Sans(CaptionSize, colors.Ink())
	boundMark(c, w.bound, vg.Point{X: at.mark, Y: y - 1.6})
	bar := vg.Rectangle{Min: vg.Point{X: at.bar, Y: y - 0.4}, Max: vg.Point{X: at.barEnd, Y: y + 5.6}}
	fill(c, bar, colors.Rule())
	bar.Max.X = bar.Min.X + (bar.Max.X-bar.Min.X)*vg.Length(w.share/g.most)
	fill(c, bar, colors.Bound(w.bound))
	outline(c, bar, colors.Faint())
	if at.time > 0 {
		right(c, s, at.time, y, w.time.String())
	}
	right(c, s, at.share, y, shareText(w.share))
	if w.flops > 0 {
		right(c, s, at.flops, y, engineering(float64(w.flops)))
	}
	if w.bytes > 0 {
		right(c, s, at.bytes, y, engineering(float64(w.bytes)))
	}
	if w.flops > 0 && w.bytes > 0 && !wire {
		right(c, s, at.rate, y, engineering(w.intensity()))
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
	c.FillText(s, vg.Point{X: at.X + (swatch-s.Width(text))/2, Y: at.Y + (swatch-ascent(s))/2}, text)
}
