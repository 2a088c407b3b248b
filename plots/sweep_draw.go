package plots

import (
	"cmp"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// faded is a colour that lets through what is under it.
func faded(c color.Color, alpha uint8) color.Color {
	r, g, b, _ := c.RGBA()
	return color.NRGBA{uint8(r >> 8), uint8(g >> 8), uint8(b >> 8), alpha}
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
		hatch(&c, vg.Rectangle{Min: vg.Point{X: left, Y: c.Min.Y}, Max: vg.Point{X: min(tx(l.last)+6, c.Max.X), Y: c.Max.Y}}, faded(Alarm(), 110), 7)
	}
	place := func(x, y float64) vg.Point { return vg.Point{X: tx(x), Y: ty(max(y, p.Y.Min))} }
	for i, line := range l.curves { // all bands under all lines
		var band []vg.Point
		for _, s := range line {
			band = append(band, place(s.x, float64(s.span.High)))
		}
		for j := len(line) - 1; j >= 0; j-- {
			band = append(band, place(line[j].x, float64(line[j].span.Low)))
		}
		if ink, _, _ := Series(i); len(line) > 1 {
			c.FillPolygon(faded(ink, 45), band)
		}
	}
	ends := make([]vg.Point, len(l.curves))
	for i, line := range l.curves {
		ends[i] = l.line(&c, i, line, place)
	}
	l.label(&c, ends)
}

// line draws the i-th line and returns its end.
func (l *latencyPanel) line(c *draw.Canvas, i int, line []sample, place func(x, y float64) vg.Point) (end vg.Point) {
	var mid, low []vg.Point
	for _, s := range line {
		mid = append(mid, place(s.x, float64(s.span.Expected)))
		low = append(low, place(s.x, float64(s.span.Floor)))
	}
	ink, dash, glyph := Series(i)
	if len(line) > 1 {
		c.StrokeLines(Line(0.9, ink, 1.2, 1.8), low)
		c.StrokeLines(Line(1.4, ink, dash...), mid)
	}
	for j, s := range line {
		end = mid[j]
		if !s.fits {
			unfitMark(c, end)
			continue
		}
		c.DrawGlyphNoClip(draw.GlyphStyle{Color: ink, Radius: 2.5, Shape: glyph}, end)
	}
	return end
}

// label names the lines beside their right ends, pushed apart where they touch.
func (l *latencyPanel) label(c *draw.Canvas, ends []vg.Point) {
	if !l.general {
		return
	}
	var order []int
	for i := range l.names {
		if len(l.curves[i]) > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ends[a].Y, ends[b].Y) })
	style := Bold(TickSize, Ink())
	h := lineHeight(style)
	free := c.Min.Y + h/2
	ys := make([]vg.Length, len(order))
	for k, i := range order {
		ys[k] = max(ends[i].Y, free)
		free = ys[k] + h
	}
	ceiling := c.Max.Y - h/2
	for k := len(order) - 1; k >= 0; k-- { // back down from the border
		ys[k] = min(ys[k], ceiling)
		ceiling = ys[k] - h
	}
	for k, i := range order {
		style.Color, _, _ = Series(i)
		x := c.Max.X - l.column
		c.StrokeLine2(Line(0.4, Faint()), ends[i].X+4, ends[i].Y, x-2, ys[k])
		c.FillText(style, vg.Point{X: x, Y: ys[k] - ascent(style)/2}, fit(style, l.names[i], l.column))
	}
}
