//go:build !js

package plots

import (
	"fmt"
	"image/color"
	"slices"

	"llmprof/plots/colors"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// A Loaded is what a server did under one load.
type Loaded struct {
	Load       string  // short, as "8" requests at a time or "2.5/s"; "" of a mark that needs no name
	Throughput float64 // in the unit of the picture
	TTFT, TPOT Spread
	Failed     bool // More requests failed than may, or the load was interrupted.
}

// A Spread is the median and the 99th percentile of a time in seconds, both 0 if there
// is none.
type Spread struct{ Median, P99 float64 }

// A LoadCurve is the loads of one server, in the order in which they are joined.
type LoadCurve struct {
	Name  string
	Loads []Loaded
}

// A Throughput is the unit of the horizontal axis.
type Throughput string

// The units of throughput.
const (
	TokensPerSecond   Throughput = "generated tokens a second"
	RequestsPerSecond Throughput = "completed requests a second"
)

// UnderLoad draws TTFT and TPOT of servers over their throughput, a line a server and
// a mark a load.
func UnderLoad(caption string, of Throughput, curves []LoadCurve) (*Figure, error) {
	v := &panelGrid{keys: loadKeys(curves)}
	switch {
	case len(curves) == 0:
		return nil, fmt.Errorf("load: there is nothing to draw")
	case len(curves) > NumSeries:
		return nil, fmt.Errorf("load: %d servers: at most %d can be told apart in one picture", len(curves), NumSeries)
	}
	for i := range curves {
		if err := curves[i].check(); err != nil {
			return nil, err
		}
	}
	for _, decode := range []bool{false, true} {
		if p := newLoadPanel(curves, decode); p != nil {
			v.panels = append(v.panels, titled{p.plot, p.title, string(of)})
		}
	}
	if len(v.panels) == 0 {
		return nil, fmt.Errorf("load: no server has a time to draw")
	}
	f := &Figure{
		Title: "Latency over throughput", Caption: caption, body: v.draw,
		Notes: []string{"Marks: median of the completed requests, named after the load: requests at a time, or a second (/s). The vertical " +
			"axes are logarithmic."},
	}
	f.holdOver(2.9*vg.Inch, v.keys)
	return f, nil
}

func (c *LoadCurve) check() error {
	if len(c.Loads) == 0 {
		return fmt.Errorf("load: %s has no loads", c.Name)
	}
	for _, l := range c.Loads {
		if !(l.Throughput >= 0) || !finite(l.Throughput, l.TTFT.Median, l.TTFT.P99, l.TPOT.Median, l.TPOT.P99) {
			return fmt.Errorf("load: %s at %s has a throughput of %v, TTFT %v and TPOT %v: want finite numbers from 0 up", c.Name, l.Load,
				l.Throughput, l.TTFT, l.TPOT)
		}
	}
	return nil
}

// A loadPanel is one time of all servers.
type loadPanel struct {
	title  string
	decode bool
	curves []LoadCurve
	plot   *plot.Plot
}

// spread is the time that the panel is of.
func (p *loadPanel) spread(l *Loaded) Spread {
	if p.decode {
		return l.TPOT
	}
	return l.TTFT
}

// newLoadPanel is nil where no server has that time.
func newLoadPanel(curves []LoadCurve, decode bool) *loadPanel {
	p := &loadPanel{title: "TTFT: time to the first token", decode: decode, curves: curves}
	if decode {
		p.title = "TPOT: time per output token"
	}
	var y limits
	most := 0.
	for i := range curves {
		for j := range curves[i].Loads {
			l := &curves[i].Loads[j]
			s := p.spread(l)
			y.take(s.Median, s.P99)
			if s.Median > 0 {
				most = max(most, l.Throughput)
			}
		}
	}
	if y.hi == 0 || most == 0 {
		return nil
	}
	ticks := values{at: linear(1.1 * most), label: plain, wide: Width/2 - 60}
	p.plot = newPlot(axis{limits{0, 1.1 * most}, ticks}, axis{y.padded(1.4, 1.4, 4), decades{label: seconds}}, p)
	return p
}

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
		whisker(c, vg.Point{X: x, Y: box.Min.Y}, vg.Point{X: x, Y: box.Max.Y}, colors.Faint())
	}})
	if failed {
		keys = append(keys, key{"the run failed", func(c *draw.Canvas, box vg.Rectangle) { Marker(0).hollow(c, middle(box)) }})
	}
	return keys
}
