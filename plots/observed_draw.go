package plots

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// An accuracyPanel is predicted over observed of one quantity.
type accuracyPanel struct {
	title  string
	points []Observed // those that a constant was fitted on first, under the others
	named  []Observed
	looks  *looks
	plot   *plot.Plot
}

// mostNamed is how many outliers of a panel have their names beside them.
const mostNamed = 7

func newAccuracyPanel(points []Observed, decode bool, l *looks) *accuracyPanel {
	p := &accuracyPanel{title: "TTFT: time to the first token, predicted", looks: l}
	if decode {
		p.title = "TPOT: time per output token, predicted"
	}
	var s scope
	for _, o := range points {
		if o.Decode == decode {
			p.points = append(p.points, o)
			s.take(o.Predicted, o.Observed)
		}
	}
	if len(p.points) == 0 {
		return nil
	}
	slices.SortStableFunc(p.points, func(a, b Observed) int { return boolOrder(b.Fitted) - boolOrder(a.Fitted) })
	p.named = outliers(p.points)
	s = s.padded(1.3, 1.3, 10)
	p.plot = newPlot(s, s)
	p.plot.X.Scale, p.plot.Y.Scale = plot.LogScale{}, plot.LogScale{}
	const wide = Width/2 - 60 // of the two panels side by side, less the labels beside them
	ticks := decades{label: func(v float64) string { return si(v, "s") }, wide: wide}
	p.plot.X.Tick.Marker, p.plot.Y.Tick.Marker = ticks, ticks
	p.plot.Add(grid{}, p)
	return p
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// outliers are the points farthest off that are beyond the wider band, one of a
// name, GPU and engine.
func outliers(points []Observed) (far []Observed) {
	off := func(o Observed) float64 { return math.Abs(math.Log(o.Predicted / o.Observed)) }
	sorted := slices.Clone(points)
	slices.SortStableFunc(sorted, func(a, b Observed) int { return cmp.Compare(off(b), off(a)) })
	for _, o := range sorted {
		same := func(x Observed) bool { return x.Name == o.Name && x.GPU == o.GPU && x.Engine == o.Engine }
		if o.Fitted || math.Abs(o.Predicted/o.Observed-1) <= 0.25 || slices.ContainsFunc(far, same) {
			continue
		}
		if far = append(far, o); len(far) == mostNamed {
			break
		}
	}
	return far
}

// Plot implements plot.Plotter.
func (p *accuracyPanel) Plot(c draw.Canvas, pl *plot.Plot) {
	tx, ty := pl.Transforms(&c)
	inside := c
	for _, by := range []float64{0.25, 0.10} {
		band(&inside, pl, tx, ty, by)
	}
	c.StrokeLine2(Line(0.8, Faint()), tx(pl.X.Min), ty(pl.Y.Min), tx(pl.X.Max), ty(pl.Y.Max))
	q := &placer{bounds: c.Rectangle}
	const r = 2.2
	for _, o := range p.points {
		at := vg.Point{X: tx(o.Observed), Y: ty(o.Predicted)}
		ink := p.looks.ink(o.Engine)
		if o.Fitted {
			ink = faded(ink, fittedAlpha)
		}
		p.looks.sign(&c, at, o.GPU, r, ink)
		q.taken = append(q.taken, vg.Rectangle{Min: vg.Point{X: at.X - r, Y: at.Y - r}, Max: vg.Point{X: at.X + r, Y: at.Y + r}})
	}
	p.label(&c, q, tx, ty)
}

// band fills what is within a share of the diagonal, cut off at the border.
func band(c *draw.Canvas, pl *plot.Plot, tx, ty func(float64) vg.Length, by float64) {
	lo, hi := pl.X.Min, pl.X.Max
	outline := []vg.Point{
		{X: tx(lo), Y: ty(lo)}, {X: tx(lo), Y: ty(lo * (1 + by))}, {X: tx(hi / (1 + by)), Y: ty(hi)}, {X: tx(hi), Y: ty(hi)},
		{X: tx(hi), Y: ty(hi * (1 - by))}, {X: tx(lo / (1 - by)), Y: ty(lo)},
	}
	c.FillPolygon(faded(Faint(), 38), outline)
}

// label names the outliers where there is room.
func (p *accuracyPanel) label(c *draw.Canvas, q *placer, tx, ty func(float64) vg.Length) {
	style := Sans(CaptionSize-0.5, Ink())
	const r = 2.2
	for _, o := range p.named {
		at := vg.Point{X: tx(o.Observed), Y: ty(o.Predicted)}
		w, h := style.Width(o.Name), ascent(style)-descent(style)
		corner, ok := q.near(at, r, w, h)
		if !ok {
			continue
		}
		box := vg.Rectangle{Min: corner, Max: vg.Point{X: corner.X + w, Y: corner.Y + h}}
		to := nearest(box, at)
		c.StrokeLine2(Line(0.4, Faint()), at.X, at.Y, to.X, to.Y)
		c.FillText(style, vg.Point{X: corner.X, Y: corner.Y - descent(style)}, o.Name)
	}
}

// An accuracyView is the panels side by side over the legend.
type accuracyView struct {
	panels []*accuracyPanel
	looks  *looks
	keys   []key
}

func (v *accuracyView) draw(c draw.Canvas) {
	legend(&c, v.keys)
	c = draw.Crop(c, 0, 0, legendHeight(v.keys, c.Max.X-c.Min.X), 0)
	const gap = 14
	wide := (c.Max.X - c.Min.X - gap*vg.Length(len(v.panels)-1)) / vg.Length(len(v.panels))
	for i, p := range v.panels {
		left := (wide + gap) * vg.Length(i)
		panel(draw.Crop(c, left, left+wide-(c.Max.X-c.Min.X), 0, 0), p.plot, p.title, "observed")
	}
}
