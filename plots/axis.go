//go:build !js

package plots

import (
	"math"
	"slices"

	"llmprof/plots/colors"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// limits are the ends of a logarithmic axis; those of no values are both 0.
type limits struct{ lo, hi float64 }

// take widens s to hold x; what no logarithmic axis can show is left aside.
func (s *limits) take(xs ...float64) {
	for _, x := range xs {
		if !(x > 0) || math.IsInf(x, 0) {
			continue
		}
		if s.lo == 0 || x < s.lo {
			s.lo = x
		}
		s.hi = max(s.hi, x)
	}
}

// at is the place of a value on a logarithmic axis from left to right.
func (s limits) at(v float64, left, right vg.Length) vg.Length {
	return left + (right-left)*vg.Length(math.Log(v/s.lo)/math.Log(s.hi/s.lo))
}

// padded is s with room at both ends, by factors, at least a factor of wide apart.
func (s limits) padded(below, above, wide float64) limits {
	s.lo, s.hi = min(max(s.lo, leastShown), mostShown), min(max(s.hi, leastShown), mostShown)
	s.lo /= below
	s.hi *= above
	if s.hi < s.lo*wide {
		by := math.Sqrt(wide * s.lo / s.hi)
		s.lo, s.hi = s.lo/by, s.hi*by
	}
	return s
}

// decades places ticks on a logarithmic axis: at powers of ten if it spans
// several, else also between them.
type decades struct {
	label func(float64) string
	wide  vg.Length // width of the axis, so that no labels touch; 0 where they lie one above the other
}

// multiples are those of a power of ten that may have a label on an axis of a
// span, the most first.
func multiples(span float64) [][]int {
	all := [][]int{{1, 2, 3, 5, 7}, {1, 2, 5}, {1, 3}, {1}}
	switch {
	case span <= 1:
		return all
	case span <= 3:
		return all[1:]
	}
	return all[3:]
}

// Ticks implements plot.Ticker.
func (d decades) Ticks(lo, hi float64) (ticks []plot.Tick) {
	if !(lo > 0) || !(hi > lo) || math.IsInf(hi, 0) {
		return nil
	}
	for _, named := range multiples(math.Log10(hi / lo)) {
		if ticks = d.ticks(lo, hi, named); d.wide == 0 || d.roomy(lo, hi, ticks) {
			break
		}
	}
	return ticks
}

// ticks are those with a label at some multiples of the powers of ten.
func (d decades) ticks(lo, hi float64, named []int) (ticks []plot.Tick) {
	first, last := int(math.Floor(math.Log10(lo))), int(math.Ceil(math.Log10(hi)))
	step := (last-first)/9 + 1
	for e := first; e <= last; e++ {
		for m := 1; m <= 9; m++ {
			v := float64(m) * math.Pow(10, float64(e))
			if v < lo*(1-1e-9) || v > hi*(1+1e-9) {
				continue
			}
			t := plot.Tick{Value: v}
			if slices.Contains(named, m) && (e-first)%step == 0 {
				t.Label = d.label(v)
			}
			if t.Label != "" || step == 1 {
				ticks = append(ticks, t)
			}
		}
	}
	return ticks
}

func (d decades) roomy(lo, hi float64, ticks []plot.Tick) bool {
	v := values{label: d.label, wide: d.wide, log: true}
	for _, t := range ticks {
		if t.Label != "" {
			v.at = append(v.at, t.Value)
		}
	}
	return v.roomy(lo, hi, 1)
}

// values places ticks at given values, as the batches of a sweep. If not all
// labels have room, every second or third or n-th has one.
type values struct {
	at    []float64
	label func(float64) string
	wide  vg.Length // width of the axis
	log   bool
}

// Ticks implements plot.Ticker.
func (v values) Ticks(lo, hi float64) []plot.Tick {
	ticks := make([]plot.Tick, len(v.at))
	for i, x := range v.at {
		ticks[i].Value = x
	}
	stride := 1
	for stride < len(v.at) && !v.roomy(lo, hi, stride) {
		stride++
	}
	for i := 0; i < len(v.at); i += stride {
		ticks[i].Label = v.label(v.at[i])
	}
	return ticks
}

func (v values) roomy(lo, hi float64, stride int) bool {
	style, free := Sans(TickSize, colors.Ink()), vg.Length(math.Inf(-1))
	for i := 0; i < len(v.at); i += stride {
		x, w := v.wide*vg.Length((v.at[i]-lo)/(hi-lo)), style.Width(v.label(v.at[i]))
		if v.log {
			x = v.wide * vg.Length(math.Log(v.at[i]/lo)/math.Log(hi/lo))
		}
		if x-w/2 < free {
			return false
		}
		free = x + w/2 + 3.5
	}
	return true
}

// linear places about six ticks at round values from 0.
func linear(hi float64) (at []float64) {
	if !(hi > 0) || math.IsInf(hi, 0) {
		return nil
	}
	step := math.Pow(10, math.Floor(math.Log10(hi/3)))
	for _, m := range []float64{5, 2} {
		if hi/(m*step) >= 4 {
			step *= m
			break
		}
	}
	for i := range 64 {
		v := float64(i) * step
		if v > hi*(1+1e-9) {
			break
		}
		at = append(at, v)
	}
	return at
}

// An axis is a range with its ticks, which say whether it is logarithmic.
type axis struct {
	limits
	ticks plot.Ticker
}

// newPlot is a plot of a body over a grid in the style of this package.
func newPlot(x, y axis, body plot.Plotter) *plot.Plot {
	p := plot.New()
	p.BackgroundColor = nil
	x.lay(&p.X)
	y.lay(&p.Y)
	p.Add(grid{}, body)
	return p
}

func (x axis) lay(a *plot.Axis) {
	a.Color, a.LineStyle = colors.Ink(), Line(0.6, colors.Ink())
	a.Tick.LineStyle, a.Tick.Length = Line(0.5, colors.Ink()), 3.5
	align, vertical := a.Tick.Label.XAlign, a.Tick.Label.YAlign
	a.Tick.Label = Sans(TickSize, colors.Ink())
	a.Tick.Label.XAlign, a.Tick.Label.YAlign = align, vertical
	a.Padding, a.Tick.Marker, a.Min, a.Max = 0, x.ticks, x.lo, x.hi
	if v, ok := x.ticks.(values); !ok || v.log {
		a.Scale = plot.LogScale{}
	}
}

// inColumns divides a canvas into n columns of the same width and draws each.
func inColumns(c draw.Canvas, n int, column func(i int, c draw.Canvas)) {
	const gap = 14
	whole := c.Max.X - c.Min.X
	wide := (whole - gap*vg.Length(n-1)) / vg.Length(n)
	for i := range n {
		left := (wide + gap) * vg.Length(i)
		column(i, draw.Crop(c, left, left+wide-whole, 0, 0))
	}
}

// A titled is a plot with the titles of its axes.
type titled struct {
	plot         *plot.Plot
	above, below string
}

// A panelGrid is panels in rows of two over a legend.
type panelGrid struct {
	panels []titled
	keys   []key
}

func (s *panelGrid) draw(c draw.Canvas) {
	if len(s.keys) > 0 {
		legend(&c, s.keys)
		c = draw.Crop(c, 0, 0, legendHeight(s.keys, c.Max.X-c.Min.X)+2, 0)
	}
	const gap = 14
	rows := (len(s.panels) + 1) / 2
	high := (c.Max.Y - c.Min.Y - gap*vg.Length(rows-1)) / vg.Length(rows)
	for i := 0; i < len(s.panels); i += 2 {
		top := (high + gap) * vg.Length(i/2)
		row := s.panels[i:min(i+2, len(s.panels))]
		inColumns(draw.Crop(c, 0, 0, c.Max.Y-c.Min.Y-top-high, -top), min(2, len(s.panels)), func(j int, c draw.Canvas) {
			if j < len(row) {
				panel(c, row[j].plot, row[j].above, row[j].below)
			}
		})
	}
}

// panel draws p with the title of its vertical axis above it and that of its
// horizontal one below. They are no labels of the plot, since gonum pads it on
// the right by half of the latter's width.
func panel(c draw.Canvas, p *plot.Plot, above, below string) {
	style := Sans(LabelSize, colors.Ink())
	room := c.Max.X - c.Min.X
	above, below = fit(style, above, room), fit(style, below, room)
	inner := draw.Crop(c, 0, 0, lineHeight(style)+1, -lineHeight(style)-3)
	data := p.DataCanvas(inner)
	x := (data.Min.X+data.Max.X)/2 - style.Width(below)/2
	write(&c, style, c.Min.X, c.Max.Y-ascent(style), above)
	write(&c, style, min(max(x, c.Min.X), c.Max.X-style.Width(below)), c.Min.Y-descent(style), below)
	p.Draw(inner)
}

// grid draws the lines of the labelled ticks.
type grid struct{}

// Plot implements plot.Plotter.
func (grid) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	line := Line(0.5, colors.Rule())
	for _, t := range p.X.Tick.Marker.Ticks(p.X.Min, p.X.Max) {
		if x := tx(t.Value); t.Label != "" && c.ContainsX(x) {
			c.StrokeLine2(line, x, c.Min.Y, x, c.Max.Y)
		}
	}
	for _, t := range p.Y.Tick.Marker.Ticks(p.Y.Min, p.Y.Max) {
		if y := ty(t.Value); t.Label != "" && c.ContainsY(y) {
			c.StrokeLine2(line, c.Min.X, y, c.Max.X, y)
		}
	}
}
