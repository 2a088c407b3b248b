//go:build !js

package plots

import (
	"image/color"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// Plot implements plot.Plotter.
func (p *loadPanel) Plot(c draw.Canvas, pl *plot.Plot) {
	tx, ty := pl.Transforms(&c)
	place := func(x, y float64) vg.Point { return vg.Point{X: tx(x), Y: ty(max(y, pl.Y.Min))} }
	q := &placer{bounds: c.Rectangle}
	for i := range p.curves {
		p.curve(&c, q, i, place)
	}
	for i := range p.curves { // once all marks are known
		p.label(&c, q, i, place)
	}
}

// curve draws the lines and marks of a server, which no label is to cover.
func (p *loadPanel) curve(c *draw.Canvas, q *placer, i int, place func(x, y float64) vg.Point) {
	median, tail := p.lines(&p.curves[i], place)
	ink, dash, marker := Series(i)
	for j := range tail {
		whisker(c, median[j], tail[j], ink)
		q.lines = append(q.lines, line{median[j], tail[j], 3})
	}
	c.StrokeLines(Line(1.4, ink, dash...), median)
	for j := 1; j < len(median); j++ {
		q.lines = append(q.lines, line{median[j-1], median[j], 2})
	}
	for j, l := range p.timed(&p.curves[i]) {
		at := median[j]
		if l.Failed {
			marker.hollow(c, at)
		} else {
			marker.draw(c, at, ink)
		}
		const r = markerRadius
		q.taken = append(q.taken, square(at, r))
	}
}

// whisker is a line from a median up to its 99th percentile. Where more load brings
// less throughput, a band between the two would cross itself.
func whisker(c *draw.Canvas, from, to vg.Point, ink color.Color) {
	const half = 2.2
	c.StrokeLine2(Line(0.7, ink), from.X, from.Y, to.X, to.Y)
	c.StrokeLine2(Line(0.7, ink), to.X-half, to.Y, to.X+half, to.Y)
}

// label names the loads of a server, a load that was run again once, with a leader where the name
// is not beside its mark.
func (p *loadPanel) label(c *draw.Canvas, q *placer, i int, place func(x, y float64) vg.Point) {
	ink, _, _ := Series(i)
	style := Bold(CaptionSize, ink)
	median, _ := p.lines(&p.curves[i], place)
	named := ""
	for j, l := range p.timed(&p.curves[i]) {
		if l.Load == named {
			continue
		}
		named = l.Load
		nameMark(c, q, median[j], markerRadius, style, l.Load, 3*markerRadius)
	}
}

// timed are the loads of a server that have the panel's time.
func (p *loadPanel) timed(curve *LoadCurve) []Loaded {
	return slices.DeleteFunc(slices.Clone(curve.Loads), func(l Loaded) bool { return p.spread(&l).Median <= 0 })
}

// lines are the medians and the 99th percentiles of a server's loads.
func (p *loadPanel) lines(curve *LoadCurve, place func(x, y float64) vg.Point) (median, tail []vg.Point) {
	for _, l := range p.timed(curve) {
		s := p.spread(&l)
		median, tail = append(median, place(l.Throughput, s.Median)), append(tail, place(l.Throughput, max(s.P99, s.Median)))
	}
	return median, tail
}

// loadKeys are the legend.
func loadKeys(curves []LoadCurve) (keys []key) {
	failed := false
	for i := range curves {
		ink, dash, marker := Series(i)
		keys = append(keys, key{curves[i].Name, func(c *draw.Canvas, box vg.Rectangle) {
			lineKey("", Line(1.4, ink, dash...)).draw(c, box)
			marker.draw(c, middle(box), ink)
		}})
		failed = failed || slices.ContainsFunc(curves[i].Loads, func(l Loaded) bool { return l.Failed })
	}
	keys = append(keys, key{"up to the 99th percentile", func(c *draw.Canvas, box vg.Rectangle) {
		x := middle(box).X
		whisker(c, vg.Point{X: x, Y: box.Min.Y}, vg.Point{X: x, Y: box.Max.Y}, Faint())
	}})
	if failed {
		keys = append(keys, key{"the run failed", func(c *draw.Canvas, box vg.Rectangle) { Marker(0).hollow(c, middle(box)) }})
	}
	return keys
}
