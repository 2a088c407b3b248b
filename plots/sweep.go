//go:build !js

package plots

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
	"llmprof/plots/colors"
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
		of    func(*analytic.Estimate) analytic.Span
	}{
		{"TTFT: time to the first token", func(e *analytic.Estimate) analytic.Span { return e.TTFT }},
		{"TPOT: time per output token", func(e *analytic.Estimate) analytic.Span { return e.TPOT }},
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
		for _, s := range []analytic.Span{p.Estimate.TTFT, p.Estimate.TPOT} {
			if !finite(float64(s.Floor), float64(s.Expected), float64(s.Low), float64(s.High)) {
				return fmt.Errorf("sweep: %s at %v %v has a time of %v (%v to %v): it must be finite and not negative", c.Name, v, p.X, s.Expected, s.Low, s.High)
			}
		}
		if !shown(p.X) || i > 0 && p.X <= c.Points[i-1].X {
			return fmt.Errorf("sweep: %s has %v %v in place %d: values must be above 0 and rise", c.Name, v, p.X, i+1)
		}
	}
	return nil
}

// A sample is one point of a panel.
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
	unfit  []scope   // ranges where no curve fits
}

// panelHeight is that of a panel with its titles.
const panelHeight = 2.35 * vg.Inch

// newLatencyPanel chooses the axes; it is nil if no point can be shown.
func newLatencyPanel(curves []Curve, title string, of func(*analytic.Estimate) analytic.Span) *latencyPanel {
	l := &latencyPanel{title: title}
	var x, y scope
	var at []float64
	for _, c := range curves {
		var line []sample
		for i := range c.Points {
			p := &c.Points[i]
			s := of(&p.Estimate)
			if !shown(float64(s.Expected)) {
				continue // one generated token has no TPOT
			}
			line = append(line, sample{p.X, s, p.Estimate.Memory.Fits()})
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
func (l *latencyPanel) unfits() (runs []scope) {
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
			runs, open = append(runs, scope{x, x}), true
		}
	}
	return runs
}

// A latencyView is the panels side by side.
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
			hatch(c, b, colors.Alarm(), 4)
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
