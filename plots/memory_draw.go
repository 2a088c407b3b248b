package plots

import (
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Plot draws the areas, the capacity and the marks; it implements plot.Plotter.
func (v *memoryView) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	base := make([]float64, len(v.points))
	for _, l := range memoryLayers() {
		var under, over []vg.Point
		for i := range v.points {
			x := tx(v.points[i].X)
			under = append(under, vg.Point{X: x, Y: ty(base[i])})
			base[i] += float64(l.of(&v.points[i].Estimate.Memory))
			over = append(over, vg.Point{X: x, Y: ty(base[i])})
		}
		for i := len(under) - 1; i >= 0; i-- {
			over = append(over, under[i])
		}
		if area := c.ClipPolygonXY(over); len(area) > 2 {
			c.FillPolygon(l.ink, area)
			c.StrokeLines(Line(0.5, Paper()), c.ClipLinesXY(under)...)
		}
	}
	capacity := v.points[0].Estimate.Memory.Capacity
	full := ty(float64(capacity))
	v.beyond(&c, tx)
	over(&c, Line(1.3, Alarm()), vg.Point{X: c.Min.X, Y: full}, vg.Point{X: c.Max.X, Y: full})
	q := &placer{bounds: c.Rectangle}
	v.marks(&c, q, tx, full)
	text := "capacity " + capacity.String()
	style := Bold(TickSize, Alarm())
	v.put(&c, q, style, text, vg.Point{X: c.Min.X + style.Width(text)/2 + 4, Y: full})
}

// beyond hatches what does not fit.
func (v *memoryView) beyond(c *draw.Canvas, tx func(float64) vg.Length) {
	from := c.Min.X
	if v.most > 0 {
		from = tx(min(v.most, v.plot.X.Max))
	}
	unfitHatch(c, vg.Rectangle{Min: vg.Point{X: max(from, c.Min.X), Y: c.Min.Y}, Max: c.Max}, 9)
}

// unfitHatch hatches what does not fit so that it shows on dark and on light.
func unfitHatch(c *draw.Canvas, r vg.Rectangle, gap vg.Length) {
	slanted(c, r, Line(1.1, Paper()), gap, false)
	slanted(c, r, Line(0.5, Alarm()), gap, false)
}

// over draws a line that shows on dark and on light.
func over(c *draw.Canvas, s draw.LineStyle, from, to vg.Point) {
	c.StrokeLine2(Line(s.Width+1.4, Paper()), from.X, from.Y, to.X, to.Y)
	c.StrokeLine2(s, from.X, from.Y, to.X, to.Y)
}

// marks draws where the memory is full and where the workload is.
func (v *memoryView) marks(c *draw.Canvas, q *placer, tx func(float64) vg.Length, full vg.Length) {
	noun := "batch"
	if v.variable == ByContext {
		noun = "prompt"
	}
	if v.most > 0 && !math.IsInf(v.most, 0) {
		x := tx(v.most)
		over(c, Line(1.3, Alarm()), vg.Point{X: x, Y: c.Min.Y}, vg.Point{X: x, Y: c.Max.Y})
		v.put(c, q, Bold(TickSize, Alarm()), "max "+noun+" "+counted(v.most), vg.Point{X: x, Y: c.Min.Y + (full-c.Min.Y)*0.55})
	}
	if math.IsInf(v.most, 0) {
		v.put(c, q, Bold(TickSize, Alarm()), "all fit", vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: full})
	}
	if v.most == 0 {
		v.put(c, q, Bold(TickSize, Alarm()), "nothing fits", vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: c.Min.Y + (full-c.Min.Y)*0.55})
	}
	if v.here >= v.plot.X.Min && v.here <= v.plot.X.Max {
		x := tx(v.here)
		over(c, Line(1, Ink(), 3, 2), vg.Point{X: x, Y: c.Min.Y}, vg.Point{X: x, Y: c.Max.Y})
		v.put(c, q, Sans(TickSize, Ink()), "this workload: "+noun+" "+counted(v.here), vg.Point{X: x, Y: v.free(c, full)})
	}
}

// free is a height where the label of the workload hides nothing: between what
// the workload takes and the capacity, if there is room.
func (v *memoryView) free(c *draw.Canvas, full vg.Length) vg.Length {
	_, ty := v.plot.Transforms(c)
	for _, p := range v.points {
		if top := ty(float64(p.Estimate.Memory.Total)); p.X >= v.here && full-top > 14 {
			return (top + full) / 2
		}
	}
	return c.Min.Y + (full-c.Min.Y)*0.8
}

// put writes text on paper near a place.
func (v *memoryView) put(c *draw.Canvas, q *placer, style draw.TextStyle, text string, at vg.Point) {
	w, h := style.Width(text)+4, style.Font.Size+2
	box, ok := q.near(at, 1, w, h)
	if !ok {
		return
	}
	fill(c, vg.Rectangle{Min: box, Max: vg.Point{X: box.X + w, Y: box.Y + h}}, Paper())
	c.FillText(style, vg.Point{X: box.X + 2, Y: box.Y + 0.5 - descent(style)}, text)
}
