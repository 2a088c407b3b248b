//go:build !js

package plots

import (
	"fmt"
	"math"

	"llmprof/plots/colors"

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
			c.StrokeLines(Line(0.5, colors.Paper()), c.ClipLinesXY(under)...)
		}
	}
	capacity := v.points[0].Estimate.Memory.Usable
	full := ty(float64(capacity))
	v.beyond(&c, tx, ty)
	over(&c, Line(1.3, colors.Alarm()), vg.Point{X: c.Min.X, Y: full}, vg.Point{X: c.Max.X, Y: full})
	q := &placer{bounds: c.Rectangle}
	v.marks(&c, q, tx, full)
	text := "capacity " + capacity.String()
	style := Bold(TickSize, colors.Alarm())
	v.put(&c, q, style, text, vg.Point{X: c.Min.X + style.Width(text)/2 + 4, Y: full})
}

// beyond hatches what is used beyond the capacity: strips as wide as a step of the
// curve, from the capacity up to the total.
func (v *memoryView) beyond(c *draw.Canvas, tx, ty func(float64) vg.Length) {
	capacity := float64(v.points[0].Estimate.Memory.Usable)
	var over []vg.Point
	for i, p := range v.points {
		total := float64(p.Estimate.Memory.Total)
		if total <= capacity {
			continue
		}
		if i > 0 && len(over) == 0 {
			over = append(over, vg.Point{X: tx(min(v.most, p.X)), Y: ty(capacity)})
		}
		over = append(over, vg.Point{X: tx(p.X), Y: ty(total)})
	}
	if len(over) < 2 {
		return
	}
	over = append(over, vg.Point{X: over[len(over)-1].X, Y: ty(capacity)}, vg.Point{X: over[0].X, Y: ty(capacity)})
	hatchArea(c, over, 11)
}

// hatchArea draws falling lines over a polygon that rises to the right.
func hatchArea(c *draw.Canvas, area []vg.Point, gap vg.Length) {
	low, high := area[0], area[0]
	for _, p := range area {
		low = vg.Point{X: min(low.X, p.X), Y: min(low.Y, p.Y)}
		high = vg.Point{X: max(high.X, p.X), Y: max(high.Y, p.Y)}
	}
	for d := gap; d < high.X-low.X+high.Y-low.Y; d += gap {
		a, b := vg.Point{X: low.X, Y: low.Y + d}, vg.Point{X: low.X + d, Y: low.Y}
		if from, to, ok := within(area, a, b); ok {
			over(c, Line(0.5, colors.Alarm()), from, to)
		}
	}
}

// within is the part of the line from a to b that lies in a polygon, from the first
// crossing with its border to the last.
func within(area []vg.Point, a, b vg.Point) (from, to vg.Point, ok bool) {
	first, last := 1.0, 0.0
	for i, p := range area {
		q := area[(i+1)%len(area)]
		d := float64((b.X-a.X)*(q.Y-p.Y) - (b.Y-a.Y)*(q.X-p.X))
		if d == 0 {
			continue
		}
		t := float64((p.X-a.X)*(q.Y-p.Y)-(p.Y-a.Y)*(q.X-p.X)) / d
		u := float64((p.X-a.X)*(b.Y-a.Y)-(p.Y-a.Y)*(b.X-a.X)) / d
		if t >= 0 && t <= 1 && u >= 0 && u <= 1 {
			first, last = min(first, t), max(last, t)
		}
	}
	at := func(t float64) vg.Point {
		return vg.Point{X: a.X + (b.X-a.X)*vg.Length(t), Y: a.Y + (b.Y-a.Y)*vg.Length(t)}
	}
	return at(first), at(last), last > first
}

// unfitHatch hatches what does not fit so that it shows on dark and on light.
func unfitHatch(c *draw.Canvas, r vg.Rectangle, gap vg.Length) {
	slanted(c, r, Line(1.1, colors.Paper()), gap)
	slanted(c, r, Line(0.5, colors.Alarm()), gap)
}

// over draws a line that shows on dark and on light.
func over(c *draw.Canvas, s draw.LineStyle, from, to vg.Point) {
	c.StrokeLine2(Line(s.Width+1.4, colors.Paper()), from.X, from.Y, to.X, to.Y)
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
		over(c, Line(1.3, colors.Alarm()), vg.Point{X: x, Y: c.Min.Y}, vg.Point{X: x, Y: c.Max.Y})
		v.put(c, q, Bold(TickSize, colors.Alarm()), "max "+noun+" "+counted(v.most), vg.Point{X: x, Y: c.Min.Y + (full-c.Min.Y)*0.55})
	}
	if math.IsInf(v.most, 0) {
		v.put(c, q, Bold(TickSize, colors.Alarm()), "all fit", vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: full})
	}
	if v.most == 0 {
		v.put(c, q, Bold(TickSize, colors.Alarm()), "nothing fits", vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: (full + c.Max.Y) / 2})
	}
	if v.here >= v.plot.X.Min && v.here <= v.plot.X.Max {
		x := tx(v.here)
		over(c, Line(1, colors.Ink(), 3, 2), vg.Point{X: x, Y: c.Min.Y}, vg.Point{X: x, Y: c.Max.Y})
		v.put(c, q, Sans(TickSize, colors.Ink()), fmt.Sprintf("this workload: %s %s, %v", noun, counted(v.here), v.need), vg.Point{X: x, Y: v.free(c, full)})
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
	fill(c, boxAt(box, w, h), colors.Paper())
	c.FillText(style, vg.Point{X: box.X + 2, Y: box.Y + 0.5 - descent(style)}, text)
}
