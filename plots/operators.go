//go:build !js

package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
	"llmprof/plots/colors"
)

// OperatorStep is one prefill or decode step, operator by operator.
type OperatorStep struct {
	Title string          // subject: "decode step at context 1087"
	Ops   []TimedOperator // in the order of the step
	Total []TimedOperator // under a line: their sum, and the whole step
	How   string          // source of the observed times; "" for operators that were replayed
}

// Replayed is what the times of "llmprof measure --ops" are.
const Replayed = "median of each operator of all layers, replayed by itself in a CUDA graph, by the GPU's events"

// A TimedOperator is one operator of all layers: what it took, and what was
// predicted.
type TimedOperator struct {
	Name     string
	Includes []string // operators of the estimate that its kernels do beside it
	Observed float64  // seconds

	// The span is the prediction, all zero if there is none.
	analytic.Span
}

func (o *TimedOperator) predicted() bool { return o.Expected > 0 }

// Operators draws every operator of a step, predicted beside observed: floor,
// expected with its interval, and observed, on a logarithmic axis of time for
// each step.
func Operators(caption string, steps []OperatorStep) (*Figure, error) {
	v := &operatorsView{}
	predicted := false
	for i := range steps {
		s := &steps[i]
		if len(s.Ops) == 0 {
			return nil, fmt.Errorf("operators: %s has no operators", s.Title)
		}
		p := operatorPanel{OperatorStep: *s}
		for _, o := range s.rows() {
			if err := o.check(); err != nil {
				return nil, err
			}
			predicted = predicted || o.predicted()
			p.span.take(o.Observed, float64(o.Expected), float64(o.High))
			// A floor of nothing but arithmetic is far below any kernel: the axis ends
			// where the least time is, and an arrow says that the floor is beyond.
			p.span.take(float64(o.Low))
		}
		p.span = p.span.padded(1.6, 1.25, 10)
		v.panels = append(v.panels, p)
	}
	if len(v.panels) == 0 {
		return nil, fmt.Errorf("operators: there is nothing to draw")
	}
	v.keys = operatorKeys(predicted)
	f := &Figure{
		Title: "Operators: predicted and observed", Caption: caption, body: v.draw,
		Notes: []string{"Observed: " + cmp.Or(steps[0].How, Replayed) +
			". Where one kernel does several operators of the estimate, the prediction is of all of them. " +
			"Share: of the whole. The interval is that of the whole phase. Error: expected over observed, less 1. The axes are logarithmic; a " +
			"triangle at their left end is a floor beyond it."},
	}
	f.holdOver(v.height(), v.keys)
	return f, nil
}

func (s *OperatorStep) rows() []TimedOperator {
	return slices.Concat(s.Ops, s.Total)
}

// check refuses what no axis can show.
func (o *TimedOperator) check() error {
	if !shown(o.Observed) {
		return fmt.Errorf("operators: %.60q was observed to take %v s: want a time above 0", o.Name, o.Observed)
	}
	if !finite(float64(o.Floor), float64(o.Expected), float64(o.Low), float64(o.High)) ||
		o.predicted() && !(shown(float64(o.Expected)) && o.Low <= o.Expected && o.Expected <= o.High) {
		return fmt.Errorf("operators: %.60q is predicted to take %v (%v to %v, floor %v): want times above 0, in order", o.Name, o.Expected,
			o.Low, o.High, o.Floor)
	}
	return nil
}

// figures are the texts on the right of a row: time, its share of the step's, over
// the floor, error.
func (o *TimedOperator) figures(step float64) [4]string {
	out := [4]string{measured(o.Observed, "s"), percent(o.Observed / step)}
	if !o.predicted() {
		return out
	}
	if ratio := o.Observed / float64(o.Floor); o.Floor > 0 && ratio < mostRatio {
		out[2] = fmt.Sprintf("%.2f×", ratio)
	}
	off, digits := 100*(float64(o.Expected)/o.Observed-1), 0
	if math.Abs(off) < 9.95 {
		digits = 1
	}
	out[3] = strings.Replace(fmt.Sprintf("%+.*f %%", digits, off), "-", "−", 1)
	return out
}

// whole is the time that shares are of: that of the step, the last of the totals.
func (s *OperatorStep) whole() float64 {
	if n := len(s.Total); n > 0 {
		return s.Total[n-1].Observed
	}
	sum := 0.0
	for i := range s.Ops {
		sum += s.Ops[i].Observed
	}
	return sum
}

// mostRatio is from where on a ratio to the floor says nothing but that the floor
// is not what the operator waits for.
const mostRatio = 100

// The sizes of a picture of operators.
const (
	operatorNames vg.Length = 134
	operatorRow   vg.Length = 13
	operatorWith  vg.Length = 7.5 // more, where a row says what else its kernels do
	operatorHead  vg.Length = 31  // title and the heads of the columns
	operatorAxis  vg.Length = 24
)

// figureColumns are the widths of the columns on the right.
var figureColumns = [4]vg.Length{41, 35, 42, 36}

// A operatorsView is the panels, one under the other.
type operatorsView struct {
	panels []operatorPanel
	keys   []key
}

type operatorPanel struct {
	OperatorStep
	span limits
}

func (o *TimedOperator) height() vg.Length {
	if len(o.Includes) > 0 {
		return operatorRow + operatorWith
	}
	return operatorRow
}

func (p *operatorPanel) height() vg.Length {
	h := operatorHead + operatorAxis
	for _, o := range p.rows() {
		h += o.height()
	}
	return h
}

func (v *operatorsView) height() (h vg.Length) {
	for i := range v.panels {
		h += v.panels[i].height()
	}
	return h
}

func expectedInk() colors.Color { return colors.Series(0) }
func intervalInk() colors.Color { return expectedInk().Mixed(colors.Paper(), 0.2) }

func operatorKeys(predicted bool) []key {
	keys := []key{{"observed", func(c *draw.Canvas, b vg.Rectangle) { observedDot(c, middle(b)) }}}
	if !predicted {
		return keys
	}
	return append(keys,
		key{"expected", func(c *draw.Canvas, b vg.Rectangle) { expectedBar(c, middle(b)) }},
		key{"90 % interval", func(c *draw.Canvas, b vg.Rectangle) {
			fill(c, rect(b.Min.X, b.Min.Y+1, b.Max.X, b.Max.Y-1), intervalInk())
		}},
		key{"floor", func(c *draw.Canvas, b vg.Rectangle) { floorTick(c, middle(b)) }},
	)
}

func observedDot(c *draw.Canvas, p vg.Point) {
	paint(c, polygon(signs[0], p, 2.5), colors.Series(1), Line(0.6, colors.Paper()))
}

func expectedBar(c *draw.Canvas, p vg.Point) {
	c.StrokeLine2(Line(1.8, expectedInk()), p.X, p.Y-4.7, p.X, p.Y+4.7) // higher than the dot that may lie on it
}

func floorTick(c *draw.Canvas, p vg.Point) {
	c.StrokeLine2(Line(1, colors.Ink(), 1.6, 1), p.X, p.Y-4.6, p.X, p.Y+4.6)
}

// beyond is the mark of a floor left of the axis.
func beyond(c *draw.Canvas, p vg.Point) {
	c.SetColor(colors.Faint())
	c.Fill(closed(p, vg.Point{X: p.X + 3.4, Y: p.Y + 2.2}, vg.Point{X: p.X + 3.4, Y: p.Y - 2.2}))
}

func (v *operatorsView) draw(c draw.Canvas) {
	legend(&c, v.keys)
	y := c.Max.Y
	for _, p := range v.panels {
		p.draw(&c, y)
		y -= p.height()
	}
}

func (p *operatorPanel) draw(c *draw.Canvas, y vg.Length) {
	left, right := c.Min.X+operatorNames, c.Max.X
	for _, w := range figureColumns {
		right -= w
	}
	right -= 4
	title := Bold(LabelSize, colors.Ink())
	write(c, title, c.Min.X, y-6-ascent(title), fit(title, p.Title, c.Max.X-c.Min.X))
	style := Sans(TickSize-0.5, colors.Faint())
	write(c, style, left, y-operatorHead+5, "time of all layers together")
	p.heads(c, right+4, y-operatorHead+5)
	y -= operatorHead
	bottom := y
	for _, o := range p.rows() {
		bottom -= o.height()
	}
	p.axis(c, left, right, y, bottom)
	for i, o := range p.rows() {
		if i == len(p.Ops) {
			c.StrokeLine2(Line(0.6, colors.Faint()), c.Min.X, y, c.Max.X, y)
		}
		p.row(c, &o, left, right, y, i >= len(p.Ops))
		y -= o.height()
	}
}

// heads names the columns on the right, whose text ends where its column does.
func (p *operatorPanel) heads(c *draw.Canvas, x, y vg.Length) {
	style := Sans(TickSize-0.5, colors.Faint())
	for i, text := range []string{"observed", "share", "over floor", "error"} {
		x += figureColumns[i]
		writeUpTo(c, style, x, y, text)
	}
}

// axis draws the grid of the times and their labels below.
func (p *operatorPanel) axis(c *draw.Canvas, left, right, top, bottom vg.Length) {
	style := Sans(TickSize, colors.Ink())
	free := vg.Length(math.Inf(-1))
	for _, t := range (decades{label: seconds}).Ticks(p.span.lo, p.span.hi) {
		x := p.span.at(t.Value, left, right)
		if t.Label == "" {
			c.StrokeLine2(Line(0.5, colors.Ink()), x, bottom, x, bottom-2)
			continue
		}
		c.StrokeLine2(Line(0.5, colors.Rule()), x, bottom, x, top)
		c.StrokeLine2(Line(0.5, colors.Ink()), x, bottom, x, bottom-3.5)
		w := style.Width(t.Label)
		if from := x - w/2; from > free {
			write(c, style, from, bottom-5-ascent(style), t.Label)
			free = x + w/2 + 3
		}
	}
	c.StrokeLine2(Line(0.6, colors.Ink()), left, bottom, right, bottom)
}

func (p *operatorPanel) row(c *draw.Canvas, o *TimedOperator, left, right, y vg.Length, total bool) {
	name, small := Sans(LabelSize-0.3, colors.Ink()), Sans(TickSize-1.2, colors.Faint())
	if total {
		name = Bold(LabelSize-0.3, colors.Ink())
	}
	base := y - operatorRow/2 - ascent(name)/2
	write(c, name, c.Min.X, base, fit(name, o.Name, operatorNames-6))
	if len(o.Includes) > 0 { // what else the row's kernels do
		write(c, small, c.Min.X+6, base-operatorWith, fit(small, "with "+strings.Join(o.Includes, ", "), operatorNames-10))
	}
	mid := y - o.height()/2
	if o.predicted() {
		from, to := p.span.at(max(float64(o.Low), p.span.lo), left, right), p.span.at(float64(o.High), left, right)
		fill(c, rect(from, mid-3, to, mid+3), intervalInk())
		if floor := float64(o.Floor); floor >= p.span.lo {
			floorTick(c, vg.Point{X: p.span.at(floor, left, right), Y: mid})
		} else if floor > 0 {
			beyond(c, vg.Point{X: left + 1, Y: mid})
		}
		expectedBar(c, vg.Point{X: p.span.at(float64(o.Expected), left, right), Y: mid})
	}
	observedDot(c, vg.Point{X: p.span.at(o.Observed, left, right), Y: mid})
	x := right + 4
	for i, text := range o.figures(p.whole()) {
		style := Sans(LabelSize-0.3, colors.Ink())
		if o.predicted() && o.Observed < float64(o.Floor) {
			style.Color = colors.Alarm()
		}
		x += figureColumns[i]
		writeUpTo(c, style, x, mid-ascent(style)/2, text)
	}
}
