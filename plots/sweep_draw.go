//go:build !js

package plots

import (
	"cmp"
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
	"llmprof/unit"
)

// floorLine is the stroke of the fastest that is possible.
func floorLine(ink color.Color) draw.LineStyle { return Line(0.9, ink, 1.2, 1.8) }

// A trace is a curve on the canvas: one of a single value is a short level piece.
type trace struct {
	mid, low, high, floor []vg.Point
	at                    []vg.Point // places of the values
	fits                  []bool
}

// traces are the curves of a panel on a canvas.
func (l *latencyPanel) traces(c *draw.Canvas, p *plot.Plot) []trace {
	tx, ty := p.Transforms(c)
	all := make([]trace, len(l.curves))
	for i, line := range l.curves {
		t := &all[i]
		for _, s := range line {
			place := func(y unit.Seconds) vg.Point { return vg.Point{X: tx(s.x), Y: ty(max(float64(y), p.Y.Min))} }
			t.at, t.fits = append(t.at, place(s.span.Expected)), append(t.fits, s.fits)
			for _, q := range []struct {
				points *[]vg.Point
				y      unit.Seconds
			}{{&t.mid, s.span.Expected}, {&t.low, s.span.Low}, {&t.high, s.span.High}, {&t.floor, s.span.Floor}} {
				at := []vg.Point{place(q.y)}
				if len(line) == 1 {
					at = []vg.Point{{X: at[0].X - 7, Y: at[0].Y}, {X: at[0].X + 7, Y: at[0].Y}}
				}
				*q.points = append(*q.points, at...)
			}
		}
	}
	return all
}

// Plot draws the lines of a panel; it implements plot.Plotter.
func (l *latencyPanel) Plot(c draw.Canvas, p *plot.Plot) {
	tx, _ := p.Transforms(&c)
	for _, u := range l.unfit {
		hatch(&c, vg.Rectangle{
			Min: vg.Point{X: max(tx(u.lo)-6, c.Min.X), Y: c.Min.Y}, Max: vg.Point{X: min(tx(u.hi)+6, c.Max.X), Y: c.Max.Y},
		}, colors.Alarm().Faded(110), 7)
	}
	all := l.traces(&c, p)
	for i, t := range all { // all bands under all lines
		band := slices.Clone(t.high)
		for _, q := range slices.Backward(t.low) {
			band = append(band, q)
		}
		if ink, _, _ := Series(i); len(band) > 0 {
			c.FillPolygon(ink.Faded(45), band)
			if len(all) > 1 {
				t.hatch(&c, ink)
			}
		}
	}
	ends := make([]vg.Point, len(all))
	for i, t := range all {
		if len(t.at) > 0 {
			ends[i] = t.at[len(t.at)-1]
			t.draw(&c, i)
		}
	}
	l.label(&c, ends)
}

// draw draws the i-th curve.
func (t *trace) draw(c *draw.Canvas, i int) {
	ink, dash, marker := Series(i)
	c.StrokeLines(floorLine(ink), t.floor)
	c.StrokeLines(Line(1.4, ink, dash...), t.mid)
	for j, at := range t.at {
		if t.fits[j] {
			marker.draw(c, at, ink)
		} else {
			marker.hollow(c, at)
		}
	}
}

// hatch hatches the band of a curve between values that do not fit.
func (t *trace) hatch(c *draw.Canvas, ink color.Color) {
	for j := 1; j < len(t.at); j++ {
		if t.fits[j-1] || t.fits[j] {
			continue
		}
		from, to := t.at[j-1].X, t.at[j].X
		on := func(line []vg.Point, x vg.Length) vg.Length {
			return line[j-1].Y + (line[j].Y-line[j-1].Y)*(x-from)/(to-from)
		}
		for x := from; x < to; x += 2.5 {
			end := min(x+2.5, to)
			c.StrokeLine2(Line(0.5, ink), x, on(t.low, x), end, on(t.high, end))
		}
	}
}

// label names the lines beside their right ends, pushed apart where they touch.
func (l *latencyPanel) label(c *draw.Canvas, ends []vg.Point) {
	if l.column == 0 {
		return
	}
	var order []int
	for i := range l.names {
		if len(l.curves[i]) > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(ends[a].Y, ends[b].Y) })
	style := Bold(TickSize, colors.Ink())
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
		c.StrokeLine2(Line(0.4, colors.Faint()), ends[i].X+4, ends[i].Y, x-2, ys[k])
		c.FillText(style, vg.Point{X: x, Y: ys[k] - ascent(style)/2}, l.names[i])
	}
}
