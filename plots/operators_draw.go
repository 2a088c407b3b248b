//go:build !js

package plots

import (
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
)

func expectedInk() colors.Color { return colors.Series(0) }
func intervalInk() colors.Color { return expectedInk().Mixed(Paper(), 0.2) }

// operatorKeys are the legend.
func operatorKeys(predicted bool) []key {
	keys := []key{{"observed", func(c *draw.Canvas, b vg.Rectangle) { observedDot(c, middle(b)) }}}
	if !predicted {
		return keys
	}
	return append(keys,
		key{"expected", func(c *draw.Canvas, b vg.Rectangle) { expectedBar(c, middle(b)) }},
		key{"90 % interval", func(c *draw.Canvas, b vg.Rectangle) {
			fill(c, vg.Rectangle{Min: vg.Point{X: b.Min.X, Y: b.Min.Y + 1}, Max: vg.Point{X: b.Max.X, Y: b.Max.Y - 1}}, intervalInk())
		}},
		key{"floor", func(c *draw.Canvas, b vg.Rectangle) { floorTick(c, middle(b)) }},
	)
}

func observedDot(c *draw.Canvas, p vg.Point) {
	paint(c, polygon(signs[0], p, 2.5), colors.Series(1), Line(0.6, Paper()))
}

func expectedBar(c *draw.Canvas, p vg.Point) {
	c.StrokeLine2(Line(1.8, expectedInk()), p.X, p.Y-4.7, p.X, p.Y+4.7) // higher than the dot that may lie on it
}

func floorTick(c *draw.Canvas, p vg.Point) {
	c.StrokeLine2(Line(1, Ink(), 1.6, 1), p.X, p.Y-4.6, p.X, p.Y+4.6)
}

// beyond is the mark of a floor left of the axis.
func beyond(c *draw.Canvas, p vg.Point) {
	c.SetColor(Faint())
	c.Fill(closed(p, vg.Point{X: p.X + 3.4, Y: p.Y + 2.2}, vg.Point{X: p.X + 3.4, Y: p.Y - 2.2}))
}

func (v *operatorsView) draw(c draw.Canvas) {
	legend(&c, v.keys)
	y := c.Max.Y
	for i := range v.panels {
		p := &v.panels[i]
		p.draw(&c, y)
		y -= p.height()
	}
}

// draw draws the panel below y.
func (p *operatorPanel) draw(c *draw.Canvas, y vg.Length) {
	left, right := c.Min.X+operatorNames, c.Max.X
	for _, w := range figureColumns {
		right -= w
	}
	right -= 4
	title := Bold(LabelSize, Ink())
	c.FillText(title, vg.Point{X: c.Min.X, Y: y - 6 - ascent(title)}, fit(title, p.Title, c.Max.X-c.Min.X))
	style := Sans(TickSize-0.5, Faint())
	c.FillText(style, vg.Point{X: left, Y: y - operatorHead + 5}, "time of all layers together")
	p.heads(c, right+4, y-operatorHead+5)
	y -= operatorHead
	bottom := y
	for _, o := range p.rows() {
		bottom -= o.height()
	}
	p.axis(c, left, right, y, bottom)
	for i, o := range p.rows() {
		if i == len(p.Ops) {
			c.StrokeLine2(Line(0.6, Faint()), c.Min.X, y, c.Max.X, y)
		}
		p.row(c, &o, left, right, y, i >= len(p.Ops))
		y -= o.height()
	}
}

// heads names the columns on the right, whose text ends where its column does.
func (p *operatorPanel) heads(c *draw.Canvas, x, y vg.Length) {
	style := Sans(TickSize-0.5, Faint())
	for i, text := range []string{"observed", "share", "over floor", "error"} {
		x += figureColumns[i]
		c.FillText(style, vg.Point{X: x - style.Width(text), Y: y}, text)
	}
}

// at is the place of a time on the axis from left to right.
func (p *operatorPanel) at(v float64, left, right vg.Length) vg.Length {
	return left + (right-left)*vg.Length(math.Log(v/p.span.lo)/math.Log(p.span.hi/p.span.lo))
}

// axis draws the grid of the times and their labels below.
func (p *operatorPanel) axis(c *draw.Canvas, left, right, top, bottom vg.Length) {
	style := Sans(TickSize, Ink())
	free := vg.Length(math.Inf(-1))
	for _, t := range (decades{label: seconds}).Ticks(p.span.lo, p.span.hi) {
		x := p.at(t.Value, left, right)
		if t.Label == "" {
			c.StrokeLine2(Line(0.5, Ink()), x, bottom, x, bottom-2)
			continue
		}
		c.StrokeLine2(Line(0.5, Rule()), x, bottom, x, top)
		c.StrokeLine2(Line(0.5, Ink()), x, bottom, x, bottom-3.5)
		w := style.Width(t.Label)
		if from := x - w/2; from > free {
			c.FillText(style, vg.Point{X: from, Y: bottom - 5 - ascent(style)}, t.Label)
			free = x + w/2 + 3
		}
	}
	c.StrokeLine2(Line(0.6, Ink()), left, bottom, right, bottom)
}

// row draws one operator below y.
func (p *operatorPanel) row(c *draw.Canvas, o *TimedOperator, left, right, y vg.Length, total bool) {
	name, small := Sans(LabelSize-0.3, Ink()), Sans(TickSize-1.2, Faint())
	if total {
		name = Bold(LabelSize-0.3, Ink())
	}
	base := y - operatorRow/2 - ascent(name)/2
	c.FillText(name, vg.Point{X: c.Min.X, Y: base}, fit(name, o.Name, operatorNames-6))
	if text := o.with(); text != "" {
		c.FillText(small, vg.Point{X: c.Min.X + 6, Y: base - operatorWith}, fit(small, text, operatorNames-10))
	}
	mid := y - o.height()/2
	if o.predicted() {
		from, to := p.at(max(float64(o.Low), p.span.lo), left, right), p.at(float64(o.High), left, right)
		fill(c, vg.Rectangle{Min: vg.Point{X: from, Y: mid - 3}, Max: vg.Point{X: to, Y: mid + 3}}, intervalInk())
		if floor := float64(o.Floor); floor >= p.span.lo {
			floorTick(c, vg.Point{X: p.at(floor, left, right), Y: mid})
		} else if floor > 0 {
			beyond(c, vg.Point{X: left + 1, Y: mid})
		}
		expectedBar(c, vg.Point{X: p.at(float64(o.Expected), left, right), Y: mid})
	}
	observedDot(c, vg.Point{X: p.at(o.Observed, left, right), Y: mid})
	x := right + 4
	for i, text := range o.figures(p.whole()) {
		style := Sans(LabelSize-0.3, Ink())
		if o.predicted() && o.Observed < float64(o.Floor) {
			style.Color = Alarm()
		}
		x += figureColumns[i]
		c.FillText(style, vg.Point{X: x - style.Width(text), Y: mid - ascent(style)/2}, text)
	}
}
