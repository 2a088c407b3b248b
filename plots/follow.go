//go:build !js

package plots

import (
	"fmt"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
	"llmprof/plots/colors"
)

// A BatchLine is one batch of a model over the length of the prompt, by one engine:
// what is predicted, and what was observed.
type BatchLine struct {
	Engine    string // a row of panels each
	Decode    bool   // TPOT rather than TTFT
	Batch     int
	Predicted []PredictedAt
	Observed  []ObservedAt
}

// A PredictedAt is the predicted time at one length of the prompt.
type PredictedAt struct {
	Prompt int
	analytic.Span
}

// An ObservedAt is the observed time at one length of the prompt, in seconds. Low and High
// are the ends of its interval, or both zero if that is not known.
type ObservedAt struct {
	Prompt           int
	Value, Low, High float64
}

// Follow draws TTFT and TPOT of one model over the length of the prompt, a line
// a batch and a row of panels an engine: floor, expected with its interval, and
// observed.
func Follow(caption string, lines []BatchLine) (*Figure, error) {
	v := &followView{}
	for _, c := range lines {
		if err := c.check(); err != nil {
			return nil, err
		}
		if !slices.Contains(v.engines, c.Engine) {
			v.engines = append(v.engines, c.Engine)
		}
		if !slices.Contains(v.batches, c.Batch) {
			v.batches = append(v.batches, c.Batch)
		}
	}
	slices.Sort(v.batches)
	switch {
	case len(lines) == 0:
		return nil, fmt.Errorf("follow: there is nothing to draw")
	case len(v.engines) > mostRows:
		return nil, fmt.Errorf("follow: %d engines: at most %d fit in one picture", len(v.engines), mostRows)
	}
	notes := []string{"Marks: median of the observations, with its 95 % interval where that is wider than the mark. Bands: 90 % interval " +
		"of the expected time. Floor: data-sheet peaks at perfect overlap. Both axes are logarithmic."}
	if left := len(v.batches) - mostBatches; left > 0 {
		v.batches = spread(v.batches, mostBatches)
		lines = slices.DeleteFunc(slices.Clone(lines), func(c BatchLine) bool { return !slices.Contains(v.batches, c.Batch) })
		notes = append(notes, fmt.Sprintf("%d other batches are left out.", left))
	}
	for _, e := range v.engines {
		for _, decode := range []bool{false, true} {
			v.panels = append(v.panels, newFollowPanel(lines, e, decode, v.batches))
		}
	}
	v.keys = v.legend()
	f := &Figure{
		Title: "Floor, expected and observed over the prompt", Caption: caption, body: v.draw,
		Notes: notes,
	}
	f.holdOver(2.1*vg.Inch*vg.Length(len(v.engines)), v.keys)
	return f, nil
}

// spread is n of the values, the first, the last and others evenly between them.
func spread(values []int, n int) []int {
	some := make([]int, n)
	for i := range some {
		some[i] = values[i*(len(values)-1)/(n-1)]
	}
	return some
}

// mostBatches is how many lines one panel keeps apart.
const mostBatches = 6

// mostRows is how many engines fit on a page.
const mostRows = 4

func (c *BatchLine) check() error {
	for i := range c.Predicted {
		s := &c.Predicted[i]
		if s.Prompt < 1 || !finite(float64(s.Floor), float64(s.Expected), float64(s.Low), float64(s.High)) || !shown(float64(s.Expected)) {
			return fmt.Errorf("follow: batch %d, prompt %d is predicted to take %v (%v to %v): want times above 0", c.Batch, s.Prompt, s.Expected,
				s.Low, s.High)
		}
		if i > 0 && s.Prompt <= c.Predicted[i-1].Prompt {
			return fmt.Errorf("follow: batch %d: prompt %d comes after %d: want them to rise", c.Batch, s.Prompt, c.Predicted[i-1].Prompt)
		}
	}
	for _, s := range c.Observed {
		if s.Prompt < 1 || !shown(s.Value) || !finite(s.Low, s.High) {
			return fmt.Errorf("follow: batch %d, prompt %d was observed to take %v s (%v to %v): want times above 0", c.Batch, s.Prompt, s.Value,
				s.Low, s.High)
		}
	}
	return nil
}

// A followPanel is one quantity by one engine.
type followPanel struct {
	title   string
	lines   []BatchLine
	batches []int // batches of all panels, so that each batch has one look
	plot    *plot.Plot
}

func newFollowPanel(lines []BatchLine, engine string, decode bool, batches []int) *followPanel {
	p := &followPanel{title: engine + ": TTFT", batches: batches}
	if decode {
		p.title = engine + ": TPOT"
	}
	var x, y limits
	var at []float64
	for _, c := range lines {
		if c.Engine != engine || c.Decode != decode {
			continue
		}
		p.lines = append(p.lines, c)
		for _, s := range c.Predicted {
			x.take(float64(s.Prompt))
			y.take(float64(s.Floor), float64(s.Low), float64(s.High))
		}
		for _, s := range c.Observed {
			x.take(float64(s.Prompt))
			y.take(s.Value, s.Low, s.High)
			at = append(at, float64(s.Prompt))
		}
	}
	if len(p.lines) == 0 {
		return p
	}
	slices.Sort(at)
	if at = slices.Compact(at); len(at) == 1 { // one tick makes no scale
		for _, s := range p.lines[0].Predicted {
			at = append(at, float64(s.Prompt))
		}
		slices.Sort(at)
	}
	ticks := values{at: slices.Compact(at), label: counted, wide: Width/2 - 60, log: true}
	p.plot = newPlot(axis{x.padded(1.2, 1.2, 2), ticks}, axis{y.padded(1.3, 1.3, 4), decades{label: seconds}}, p)
	return p
}

// Plot implements plot.Plotter.
func (p *followPanel) Plot(c draw.Canvas, pl *plot.Plot) {
	tx, ty := pl.Transforms(&c)
	place := func(x int, y float64) vg.Point { return vg.Point{X: tx(float64(x)), Y: ty(max(y, pl.Y.Min))} }
	for _, o := range p.lines { // all bands under all lines
		var high, low []vg.Point
		for _, s := range o.Predicted {
			high, low = append(high, place(s.Prompt, float64(s.High))), append(low, place(s.Prompt, float64(s.Low)))
		}
		if len(o.Predicted) > 1 {
			ink, _, _ := Series(slices.Index(p.batches, o.Batch))
			c.FillPolygon(ink.Faded(38), between(high, low))
		}
	}
	for _, o := range p.lines {
		p.drawLine(&c, &o, place)
	}
}

func (p *followPanel) drawLine(c *draw.Canvas, o *BatchLine, place func(int, float64) vg.Point) {
	n := slices.Index(p.batches, o.Batch)
	ink, _, _ := Series(n)
	var expected, floor []vg.Point
	for _, s := range o.Predicted {
		expected = append(expected, place(s.Prompt, float64(s.Expected)))
		floor = append(floor, place(s.Prompt, float64(s.Floor)))
	}
	if len(o.Predicted) > 1 {
		c.StrokeLines(Line(0.9, ink, 1.2, 1.8), floor)
		wide := vg.Length(2.2 - 0.5*float64(n)) // ever thinner, so that lines on each other are seen
		c.StrokeLines(Line(max(wide, 0.7), ink), expected)
	}
	const r = 2.6
	for _, s := range o.Observed {
		at := place(s.Prompt, s.Value)
		if s.Low > 0 {
			low, high := place(s.Prompt, s.Low), place(s.Prompt, s.High)
			c.StrokeLine2(Line(0.8, ink), low.X, low.Y, high.X, high.Y)
		}
		paint(c, polygon(signs[n%len(signs)], at, r), ink, Line(0.5, colors.Paper()))
	}
}

// A followView is the panels in rows over the legend.
type followView struct {
	engines []string
	batches []int
	panels  []*followPanel
	keys    []key
}

func (v *followView) legend() (keys []key) {
	for i, b := range v.batches {
		ink, _, _ := Series(i)
		keys = append(keys, key{fmt.Sprintf("batch %d, observed", b), func(c *draw.Canvas, box vg.Rectangle) {
			c.SetColor(ink)
			c.Fill(polygon(signs[i%len(signs)], middle(box), 3))
		}})
	}
	return append(keys,
		lineKey("expected", Line(1.3, colors.Faint())),
		key{"90 % interval", func(c *draw.Canvas, b vg.Rectangle) { fill(c, b, colors.Faint().Faded(60)) }},
		lineKey("floor", Line(0.9, colors.Faint(), 1.2, 1.8)),
	)
}

func (v *followView) draw(c draw.Canvas) {
	legend(&c, v.keys)
	c = draw.Crop(c, 0, 0, legendHeight(v.keys, c.Max.X-c.Min.X), 0)
	whole := c.Max.Y - c.Min.Y
	high := whole / vg.Length(len(v.engines))
	for i := range v.engines {
		top := high * vg.Length(i)
		inColumns(draw.Crop(c, 0, 0, whole-top-high+4, -top), 2, func(j int, c draw.Canvas) {
			if p := v.panels[2*i+j]; p.plot != nil {
				panel(c, p.plot, p.title, "prompt length (tokens)")
			}
		})
	}
}
