//go:build !js

package plots

import (
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
	"llmprof/roofline"
)

func (v *breakdownView) draw(c draw.Canvas) {
	v.heads(&c)
	y := c.Max.Y - breakdownHead
	name := Sans(LabelSize-0.3, Ink())
	for _, g := range v.rows {
		c.FillText(name, vg.Point{X: c.Min.X, Y: y - breakdownRow/2 - ascent(name)/2}, g.String())
		for i := range v.columns {
			v.columns[i].cell(&c, g, vg.Point{X: c.Min.X + v.left[i], Y: y}, v.width)
		}
		y -= breakdownRow
		c.StrokeLine2(Line(0.4, Rule()), c.Min.X, y+0.8, c.Max.X, y+0.8)
	}
	legend(&c, v.keys)
}

// heads names the quantities, the phases under them, and the totals.
func (v *breakdownView) heads(c *draw.Canvas) {
	section, phase, total := Bold(LabelSize, Ink()), Sans(TickSize-0.5, Faint()), Bold(TickSize, Ink())
	for i := range v.columns {
		col, x := &v.columns[i], c.Min.X+v.left[i]
		if i == 0 || v.columns[i-1].section != col.section {
			c.FillText(section, vg.Point{X: x, Y: c.Max.Y - ascent(section)}, col.section)
		}
		c.FillText(phase, vg.Point{X: x, Y: c.Max.Y - 18}, col.phase)
		c.FillText(total, vg.Point{X: x, Y: c.Max.Y - 29}, col.text(col.total))
	}
	y := c.Max.Y - breakdownHead + 2.5
	c.StrokeLine2(Line(0.7, Faint()), c.Min.X, y, c.Max.X, y)
	whole := Bold(TickSize, Ink())
	c.FillText(whole, vg.Point{X: c.Min.X, Y: c.Max.Y - 29}, "total")
}

// cell draws what a group has of a column: its share, and a bar of it.
func (c *quantity) cell(to *draw.Canvas, g group, at vg.Point, width vg.Length) {
	bar := vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - breakdownRow + 3.2}}
	bar.Max = vg.Point{X: at.X + width, Y: bar.Min.Y + shareBar}
	p := &c.pieces[g]
	if p.value <= 0 {
		return
	}
	fill(to, bar, colors.Panel())
	style := Sans(TickSize-0.5, Ink())
	to.FillText(style, vg.Point{X: at.X, Y: bar.Max.Y + 1.8}, percent(p.value/c.total))
	x := bar.Min.X
	for _, part := range c.parts(p) {
		w := width * vg.Length(part.value/c.total)
		fill(to, vg.Rectangle{Min: vg.Point{X: x, Y: bar.Min.Y}, Max: vg.Point{X: x + max(w, 0.4), Y: bar.Max.Y}}, part.ink)
		outline(to, vg.Rectangle{Min: vg.Point{X: x, Y: bar.Min.Y}, Max: vg.Point{X: x + max(w, 0.4), Y: bar.Max.Y}}, Faint())
		x += w
	}
}

// A part is a piece of a bar in one colour.
type part struct {
	value float64
	ink   colors.Color
}

// parts are the colours of a piece: of time those of the resources that it waits
// for, of FLOPs and traffic those of compute and memory.
func (c *quantity) parts(p *piece) (all []part) {
	switch c.paint {
	case asCompute:
		return []part{{p.value, colors.Bound(roofline.ByCompute)}}
	case asMemory:
		return []part{{p.value, colors.Bound(roofline.ByMemory)}}
	case neutral:
		return []part{{p.value, Faint()}}
	}
	for b, x := range p.byBound {
		if x > 0 {
			all = append(all, part{x, colors.Bound(roofline.Bound(b))})
		}
	}
	return all
}
