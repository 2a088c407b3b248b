package plots

import (
	"image/color"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// faded is the colour of an interval around a line.
func faded(c color.Color) color.Color {
	r, g, b, _ := c.RGBA()
	return color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), 45}
}

// unfitMark draws the mark of what does not fit: a hollow ring.
func unfitMark(c *draw.Canvas, p vg.Point) {
	ring := shape(PrefillMark(), p, 2.6)
	c.SetColor(Paper())
	c.Fill(ring)
	c.SetLineStyle(Line(1.1, Alarm()))
	c.Stroke(ring)
}

// Plot draws the lines of a panel; it implements plot.Plotter.
func (l *latencyPanel) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	if l.unfit > 0 {
		left := max(tx(l.unfit)-4, c.Min.X)
		hatch(&c, vg.Rectangle{Min: vg.Point{X: left, Y: c.Min.Y}, Max: c.Max}, color.NRGBA{0xb0, 0x1e, 0x2d, 110}, 7)
	}
	place := func(x, y float64) vg.Point { return vg.Point{X: tx(x), Y: ty(max(y, p.Y.Min))} }
	q := &placer{bounds: c.Rectangle}
	ends := make([]vg.Point, len(l.curves))
	for i, line := range l.curves {
		if len(line) == 0 {
			continue
		}
		var mid, low, area []vg.Point
		for _, s := range line {
			mid = append(mid, place(s.x, float64(s.span.Expected)))
			low = append(low, place(s.x, float64(s.span.Floor)))
			area = append(area, place(s.x, float64(s.span.High)))
		}
		for j := len(line) - 1; j >= 0; j-- {
			area = append(area, place(line[j].x, float64(line[j].span.Low)))
		}
		ink, dash, glyph := Series(i)
		if len(line) > 1 {
			c.FillPolygon(faded(ink), area)
			c.StrokeLines(Line(0.9, ink, 1.2, 1.8), low)
			c.StrokeLines(Line(1.4, ink, dash...), mid)
		}
		for j := 1; j < len(mid); j++ {
			q.lines = append(q.lines, [2]vg.Point{mid[j-1], mid[j]}, [2]vg.Point{low[j-1], low[j]})
		}
		for j, s := range line {
			at := mid[j]
			q.taken = append(q.taken, vg.Rectangle{Min: vg.Point{X: at.X - 3, Y: at.Y - 3}, Max: vg.Point{X: at.X + 3, Y: at.Y + 3}})
			if !s.fits {
				unfitMark(&c, at)
				continue
			}
			c.DrawGlyphNoClip(draw.GlyphStyle{Color: ink, Radius: 2.5, Shape: glyph}, at)
		}
		ends[i] = mid[len(mid)-1]
	}
	l.label(&c, q, ends)
}

// label names the lines at their right ends, if there are several.
func (l *latencyPanel) label(c *draw.Canvas, q *placer, ends []vg.Point) {
	if !l.general {
		return
	}
	for i, name := range l.names {
		if len(l.curves[i]) == 0 {
			continue
		}
		ink, _, _ := Series(i)
		style := Bold(TickSize, ink)
		name = fit(style, name, (c.Max.X-c.Min.X)*0.6)
		w, h := style.Width(name)+3, style.Font.Size
		box, ok := q.near(ends[i], 3, w, h)
		if !ok {
			continue
		}
		at := vg.Point{X: box.X + 1.5, Y: box.Y - descent(style)}
		fill(c, textBox(style, at, name), color.NRGBA{255, 255, 255, 215})
		c.FillText(style, at, name)
	}
}
