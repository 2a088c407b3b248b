//go:build !js

package plots

import (
	"cmp"
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
	"llmprof/plots/colors"
	"llmprof/unit"
)

// Latency draws TTFT and TPOT, each on a panel of its own, over what was varied.
// The caption may leave out what the curves differ in.
func Latency(caption string, v Variable, curves []Curve) (*Figure, error) {
	if len(curves) > NumSeries {
		return nil, fmt.Errorf("sweep: %d curves: at most %d can be told apart in one picture", len(curves), NumSeries)
	}
	for i := range curves {
		if err := checkCurve(&curves[i], v); err != nil {
			return nil, err
		}
	}
	view := &latencyView{variable: v}
	for _, q := range []struct {
		title string
		of    func(*Point) analytic.Span
	}{
		{"TTFT: time to the first token", func(p *Point) analytic.Span { return p.TTFT }},
		{"TPOT: time per output token", func(p *Point) analytic.Span { return p.TPOT }},
	} {
		if p := newLatencyPanel(curves, q.title, q.of); p != nil {
			view.panels = append(view.panels, p)
		}
	}
	if len(view.panels) == 0 {
		return nil, fmt.Errorf("sweep: no curve has a time above zero, so there is nothing to draw")
	}
	view.legend(curves)
	f := &Figure{
		Title: "Latency by " + v.noun(), Caption: caption, body: view.draw,
		Notes: []string{"Floor: data-sheet peaks at perfect overlap; nothing is faster. Both axes are logarithmic."},
	}
	f.hold(panelHeight + view.legendHeight(Width-2*Margin))
	return f, nil
}

func checkCurve(c *Curve, v Variable) error {
	for i, p := range c.Points {
		for _, s := range []analytic.Span{p.TTFT, p.TPOT} {
			if !finite(float64(s.Floor), float64(s.Expected), float64(s.Low), float64(s.High)) {
				return fmt.Errorf("sweep: %s at %v %v has a time of %v (%v to %v): it must be finite and not negative", c.Name, v, p.X, s.Expected,
					s.Low, s.High)
			}
		}
		if !shown(p.X) || i > 0 && p.X <= c.Points[i-1].X {
			return fmt.Errorf("sweep: %s has %v %v in place %d: values must be above 0 and rise", c.Name, v, p.X, i+1)
		}
	}
	return nil
}

type sample struct {
	x    float64
	span analytic.Span
	fits bool
}

// A latencyPanel is one quantity over the variable.
type latencyPanel struct {
	title  string
	curves [][]sample
	names  []string
	plot   *plot.Plot
	column vg.Length // width of the names' column; 0 if the legend has them
	unfit  []limits  // ranges where no curve fits
}

// panelHeight is that of a panel with its titles.
const panelHeight = 2.35 * vg.Inch

// newLatencyPanel chooses the axes; it is nil if no point can be shown.
func newLatencyPanel(curves []Curve, title string, of func(*Point) analytic.Span) *latencyPanel {
	l := &latencyPanel{title: title}
	var x, y limits
	var at []float64
	for _, c := range curves {
		var line []sample
		for i := range c.Points {
			p := &c.Points[i]
			s := of(p)
			if !shown(float64(s.Expected)) {
				continue // one generated token has no TPOT
			}
			line = append(line, sample{p.X, s, p.Memory.Fits()})
			x.take(p.X)
			y.take(float64(s.Expected), float64(s.Low), float64(s.High), float64(s.Floor))
			at = append(at, p.X)
		}
		l.curves, l.names = append(l.curves, line), append(l.names, c.Name)
	}
	if len(at) == 0 {
		return nil
	}
	slices.Sort(at)
	x, y = x.padded(1.12, 1.12, 1.5), y.padded(1.4, 1.6, 4)
	x.hi *= math.Pow(x.hi/x.lo, l.nameColumn())
	ticks := values{at: slices.Compact(at), label: counted, wide: Width/2 - 60, log: true}
	l.plot = newPlot(axis{x, ticks}, axis{y, decades{label: seconds}}, l)
	l.unfit = l.unfits()
	return l
}

// nameColumn makes room for the names at the right and returns it as a share of
// what is left of the axis: 0 for a single curve, and for long names, which the
// legend has.
func (l *latencyPanel) nameColumn() float64 {
	const wide = Width/2 - 55 // approximate width of the axis
	var column vg.Length
	for _, n := range l.names {
		column = max(column, Bold(TickSize, colors.Ink()).Width(n)+1)
	}
	if len(l.names) < 2 || column > wide*0.45 {
		return 0
	}
	l.column = column
	return float64((column + 8) / (wide - column - 8))
}

// unfits are the runs of values at which no curve fits.
func (l *latencyPanel) unfits() (runs []limits) {
	fits := map[float64]bool{}
	for _, line := range l.curves {
		for _, s := range line {
			fits[s.x] = fits[s.x] || s.fits
		}
	}
	open := false
	for _, x := range slices.Sorted(maps.Keys(fits)) {
		switch {
		case fits[x]:
			open = false
		case open:
			runs[len(runs)-1].hi = x
		default:
			runs, open = append(runs, limits{x, x}), true
		}
	}
	return runs
}

type latencyView struct {
	variable Variable
	panels   []*latencyPanel
	names    []key // names of curves, if they have no room beside them
	keys     []key
}

func (v *latencyView) legend(curves []Curve) {
	color, dash, marker := Series(0)
	if len(curves) > 1 {
		color, dash = colors.Faint(), nil
	}
	if len(curves) > 1 && v.panels[0].column == 0 {
		for i := range curves {
			v.names = append(v.names, curveKeys(i, curves[i].Name)...)
		}
	}
	v.keys = append(v.keys,
		lineKey("expected", Line(1.4, color, dash...)),
		key{"90 % interval", func(c *draw.Canvas, b vg.Rectangle) { fill(c, b, color.Faded(45)) }},
		lineKey("floor", floorLine(color)),
	)
	if slices.ContainsFunc(v.panels, func(p *latencyPanel) bool { return p.anyUnfit() }) {
		v.keys = append(v.keys, key{"does not fit in memory", func(c *draw.Canvas, b vg.Rectangle) {
			slanted(c, b, Line(0.5, colors.Alarm()), 4)
			marker.hollow(c, middle(b))
		}})
	}
}

// curveKeys are the legend's entry for a curve, in several if its name is longer
// than a row.
func curveKeys(i int, name string) (keys []key) {
	ink, dash, marker := Series(i)
	for n, text := range wrap(legendText(), name, Width-2*Margin-keyWidth-3) {
		k := lineKey(text, Line(1.4, ink, dash...))
		line := k.draw
		k.draw = func(c *draw.Canvas, b vg.Rectangle) {
			if n == 0 {
				line(c, b)
				marker.draw(c, middle(b), ink)
			}
		}
		keys = append(keys, k)
	}
	return keys
}

func (l *latencyPanel) anyUnfit() bool {
	return slices.ContainsFunc(l.curves, func(line []sample) bool {
		return slices.ContainsFunc(line, func(s sample) bool { return !s.fits })
	})
}

// legendHeight is what both legends take.
func (v *latencyView) legendHeight(room vg.Length) vg.Length {
	return legendHeight(v.keys, room) + legendRow*vg.Length(len(legendRows(v.names, room)))
}

func (v *latencyView) draw(c draw.Canvas) {
	room := c.Max.X - c.Min.X
	legend(&c, v.keys)
	if len(v.names) > 0 {
		above := draw.Crop(c, 0, 0, legendRow*vg.Length(len(legendRows(v.keys, room))), 0)
		legend(&above, v.names)
	}
	c = draw.Crop(c, 0, 0, v.legendHeight(room), 0)
	inColumns(c, len(v.panels), func(i int, c draw.Canvas) { panel(c, v.panels[i].plot, v.panels[i].title, v.variable.title()) })
}

// floorLine is the stroke of the fastest that is possible.
func floorLine(ink color.Color) draw.LineStyle { return Line(0.9, ink, 1.2, 1.8) }

// A trace is a curve on the canvas: one of a single value is a short level piece.
type trace struct {
	mid, low, high, floor []vg.Point
	at                    []vg.Point // places of the values
	fits                  []bool
}

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
		slanted(&c, rect(max(tx(u.lo)-6, c.Min.X), c.Min.Y, min(tx(u.hi)+6, c.Max.X), c.Max.Y), Line(0.5, colors.Alarm().Faded(110)), 7)
	}
	all := l.traces(&c, p)
	for i, t := range all { // all bands under all lines
		if ink, _, _ := Series(i); len(t.at) > 0 {
			c.FillPolygon(ink.Faded(45), between(t.high, t.low))
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
		write(c, style, x, ys[k]-ascent(style)/2, l.names[i])
	}
}
