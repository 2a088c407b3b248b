//go:build !js

package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
)

// An Observed is a time that was measured beside the one that was predicted.
type Observed struct {
	Decode    bool    // TPOT rather than TTFT
	Name      string  // label of an outlier
	GPU       string  // has a shape and a colour
	Engine    string  // has a row of panels
	Predicted float64 // seconds
	Low, High float64 // the prediction's 90 % interval, both 0 for none
	Observed  float64
	Fitted    bool // a constant was fitted on it
}

// off is how far the prediction is from the observation: 0 where they are the same,
// and as much above as below for twice and half of it.
func (o *Observed) off() float64 { return math.Log(o.Predicted / o.Observed) }

func (o *Observed) hasInterval() bool { return o.Low > 0 && o.High >= o.Low }

// inside reports whether the observation is in the prediction's interval.
func (o *Observed) inside() bool { return o.Low <= o.Observed && o.Observed <= o.High }

// Accuracy draws the errors of predicted times over what was observed, a row of
// panels an engine, TTFT on the left and TPOT on the right. Each error has the
// interval of its prediction, which touches zero where it holds.
func Accuracy(caption string, points []Observed) (*Figure, error) {
	for i := range points {
		if p := &points[i]; !shown(p.Predicted) || !shown(p.Observed) || !finite(p.Low, p.High) {
			return nil, fmt.Errorf("accuracy: %s is predicted to take %v s (%v to %v) and observed to take %v s: both must be above 0", p.Name, p.Predicted, p.Low, p.High, p.Observed)
		}
	}
	v := &accuracyView{looks: newLooks(points)}
	if n := len(v.looks.engines); n > mostEngines {
		return nil, fmt.Errorf("accuracy: %d engines: at most %d fit in one picture", n, mostEngines)
	}
	if n := len(v.looks.gpus); n > mostGPUs {
		return nil, fmt.Errorf("accuracy: %d GPUs: at most %d can be told apart in one picture", n, mostGPUs)
	}
	v.layOut(points)
	if len(v.panels) == 0 {
		return nil, fmt.Errorf("accuracy: there is no TTFT and no TPOT among the observations, so there is nothing to draw")
	}
	f := &Figure{
		Title: "Predicted and observed, by engine", Caption: caption, body: v.draw,
		Notes: []string{"Error: predicted over observed, less 1; half and twice are equally far from zero. A mark is an observation, the line through it the 90 % interval of its prediction, which holds where it crosses zero. " +
			"Held out: no constant was fitted on it. Named: the farthest off. What is beyond an axis is drawn at its end."},
	}
	f.holdOver(v.height(), v.keys)
	return f, nil
}

// mostEngines is how many rows of panels fit on a page, mostGPUs how many pairs of a
// shape and a colour there are.
const (
	mostEngines = 12
	mostGPUs    = len(signs) * colors.NumSeries
)

// looks are the shape and the colour of each GPU, and the order of the engines.
type looks struct{ gpus, engines []string }

func newLooks(points []Observed) *looks {
	count := map[string]int{}
	l := &looks{}
	for i := range points {
		p := &points[i]
		if count[p.GPU]++; count[p.GPU] == 1 {
			l.gpus = append(l.gpus, p.GPU)
		}
		if !slices.Contains(l.engines, p.Engine) {
			l.engines = append(l.engines, p.Engine)
		}
	}
	slices.SortStableFunc(l.gpus, func(a, b string) int { return cmp.Or(count[b]-count[a], cmp.Compare(a, b)) })
	slices.Sort(l.engines)
	return l
}

// keys are the legend: GPUs, and what intervals look like.
func (l *looks) keys(points []Observed) (keys []key) {
	for _, g := range l.gpus {
		keys = append(keys, key{g, func(c *draw.Canvas, b vg.Rectangle) { l.sign(c, middle(b), g, 3, false) }})
	}
	upright := func(text string, s draw.LineStyle) {
		keys = append(keys, key{text, func(c *draw.Canvas, b vg.Rectangle) {
			c.StrokeLine2(s, middle(b).X, b.Min.Y-1, middle(b).X, b.Max.Y+1)
		}})
	}
	if slices.ContainsFunc(points, func(o Observed) bool { return o.hasInterval() && o.inside() }) {
		upright("interval that holds", intervalLine(true))
	}
	if slices.ContainsFunc(points, func(o Observed) bool { return o.hasInterval() && !o.inside() }) {
		upright("interval that does not", intervalLine(false))
	}
	if slices.ContainsFunc(points, func(o Observed) bool { return o.Fitted }) {
		keys = append(keys, key{"faint: a constant was fitted on it", func(c *draw.Canvas, b vg.Rectangle) {
			l.sign(c, middle(b), l.gpus[0], 3, true)
		}})
	}
	return keys
}

// fittedAlpha is how much is seen of what a constant was fitted on.
const fittedAlpha = 70

// sign draws the shape of a GPU in its colour.
func (l *looks) sign(c *draw.Canvas, p vg.Point, gpu string, r vg.Length, faint bool) {
	n := slices.Index(l.gpus, gpu)
	ink := colors.Series(n)
	if faint {
		ink = ink.Faded(fittedAlpha)
	}
	c.SetColor(ink)
	c.Fill(polygon(signs[n%len(signs)], p, r))
}

// A sides is a regular figure: how many corners, and where the first is, in turns
// from the right; a star has every other corner nearer to the middle.
type sides struct {
	corners int
	turn    float64
	inner   float64 // 0 for none
	wide    float64 // width over height; 0 for 1
}

// signs are told apart by their outlines at a radius of three points.
var signs = [...]sides{
	{corners: 14},                            // circle
	{corners: 4, turn: 0.125},                // square
	{corners: 3, turn: 0.25},                 // triangle
	{corners: 4},                             // diamond
	{corners: 3, turn: 0.75},                 // triangle on its tip
	{corners: 8, turn: 0.25, inner: 0.33},    // star of four rays
	{corners: 8, turn: 0.125, inner: 0.33},   // star of four rays, turned
	{corners: 4, turn: 0.125, wide: 2.6},     // bar
	{corners: 4, turn: 0.125, wide: 1 / 2.6}, // upright bar
}

// polygon is the outline of a sign with the area of a circle of radius r, about.
func polygon(s sides, p vg.Point, r vg.Length) vg.Path {
	r *= vg.Length(math.Sqrt(math.Pi / (float64(s.corners) / 2 * math.Sin(2*math.Pi/float64(s.corners)))))
	wide := vg.Length(1)
	if s.wide > 0 {
		wide = vg.Length(math.Sqrt(s.wide))
	}
	corners := make([]vg.Point, s.corners)
	for i := range corners {
		at := r
		if s.inner > 0 && i%2 == 1 {
			at *= vg.Length(s.inner)
		}
		sin, cos := math.Sincos(2 * math.Pi * (s.turn + float64(i)/float64(s.corners)))
		corners[i] = vg.Point{X: p.X + at*wide*vg.Length(cos), Y: p.Y + at/wide*vg.Length(sin)}
	}
	return closed(corners...)
}
