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
			return nil, fmt.Errorf("accuracy: %s is predicted to take %v s (%v to %v) and observed to take %v s: both must be above 0", p.Name,
				p.Predicted, p.Low, p.High, p.Observed)
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
		Notes: []string{"Error: predicted over observed, less 1; half and twice are equally far from zero. A mark is an observation, the line " +
			"through it the 90 % interval of its prediction, which holds where it crosses zero. " +
			"Held out: no constant was fitted on it. Named: the farthest off. What is beyond an axis is drawn at its end."},
	}
	f.holdOver(vg.Length(len(v.looks.engines))*(errorTitle+errorHigh+errorGap)+errorAxis, v.keys)
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
	for _, p := range points {
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

// An accuracyPanel is the errors of one quantity of one engine.
type accuracyPanel struct {
	points []Observed // points, with those that a constant was fitted on first, under the others
	times  limits     // range of all engines, so that panels above one another compare
}

// An accuracyView is a row of panels for each engine over the legend.
type accuracyView struct {
	looks  *looks
	panels map[string]*[2]accuracyPanel // TTFT and TPOT by engine
	times  [2]limits
	far    float64 // the largest error that is shown, as a logarithm
	keys   []key
}

// The sizes of a panel of errors.
const (
	errorLabels  vg.Length = 33
	errorTitle   vg.Length = 13
	errorHigh    vg.Length = 52
	errorGap     vg.Length = 8
	errorBetween vg.Length = 9
	errorAxis    vg.Length = 26
)

// layOut sorts the points into panels and chooses the axes.
func (v *accuracyView) layOut(points []Observed) {
	v.panels = map[string]*[2]accuracyPanel{}
	for _, o := range points {
		i := 0
		if o.Decode {
			i = 1
		}
		if v.panels[o.Engine] == nil {
			v.panels[o.Engine] = &[2]accuracyPanel{}
		}
		p := &v.panels[o.Engine][i]
		p.points = append(p.points, o)
		v.times[i].take(o.Observed)
	}
	v.far = v.reach()
	for i := range v.times {
		v.times[i] = v.times[i].padded(1.4, 1.4, 10)
	}
	for _, row := range v.panels {
		for i := range row {
			row[i].times = v.times[i]
			slices.SortStableFunc(row[i].points, func(a, b Observed) int { return boolOrder(b.Fitted) - boolOrder(a.Fitted) })
		}
	}
	v.keys = v.looks.keys(points)
}

// reach is the error that the axes go to: what nine in ten of the held-out points of
// every panel are within. What is beyond is drawn at the border.
func (v *accuracyView) reach() float64 {
	most := math.Log(1.5)
	for _, row := range v.panels {
		for i := range row {
			var far []float64
			for _, o := range row[i].points {
				if !o.Fitted {
					far = append(far, math.Abs(o.off()))
				}
			}
			slices.Sort(far)
			if n := len(far); n > 0 {
				most = max(most, far[(n-1)*9/10])
			}
		}
	}
	return min(most, math.Log(4)) * 1.15
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (v *accuracyView) draw(c draw.Canvas) {
	legend(&c, v.keys)
	wide := (c.Max.X - c.Min.X - 2*errorLabels - errorBetween) / 2
	y := c.Max.Y
	for _, engine := range v.looks.engines {
		for i := range v.panels[engine] {
			left := c.Min.X + errorLabels + (errorLabels+errorBetween+wide)*vg.Length(i)
			box := rect(left, y-errorTitle-errorHigh, left+wide, y-errorTitle)
			p := &v.panels[engine][i]
			p.head(&c, engine+[2]string{": TTFT", ": TPOT"}[i], box)
			v.frame(&c, box, p)
			v.errors(&c, box, p)
		}
		y -= errorTitle + errorHigh + errorGap
	}
	y += errorGap
	for i := range v.times {
		left := c.Min.X + errorLabels + (errorLabels+errorBetween+wide)*vg.Length(i)
		v.timeAxis(&c, i, left, left+wide, y)
	}
}

// head names a panel and sums it up.
func (p *accuracyPanel) head(c *draw.Canvas, title string, box vg.Rectangle) {
	style, small := Bold(TickSize, colors.Ink()), Sans(TickSize-0.5, colors.Faint())
	y := box.Max.Y + 3.5
	left := box.Min.X - errorLabels
	write(c, style, left, y, title)
	text := p.summary()
	if x := box.Max.X - small.Width(text); x > left+style.Width(title)+4 {
		write(c, small, x, y, text)
	}
}

// summary is the median error of what no constant was fitted on, or of all if there
// is nothing else, and how many observations are in their intervals.
func (p *accuracyPanel) summary() string {
	if len(p.points) == 0 {
		return "none observed"
	}
	points, kind := slices.DeleteFunc(slices.Clone(p.points), func(o Observed) bool { return o.Fitted }), "held out"
	if len(points) == 0 {
		points, kind = p.points, "fitted"
	}
	var off []float64
	inside, known := 0, 0
	for _, o := range points {
		off = append(off, math.Abs(o.Predicted/o.Observed-1))
		if o.hasInterval() {
			known++
			inside += boolOrder(o.inside())
		}
	}
	slices.Sort(off)
	text := fmt.Sprintf("%d %s, median %.1f %%", len(points), kind, 100*(off[len(off)/2]+off[(len(off)-1)/2])/2)
	if known > 0 {
		text += fmt.Sprintf(", %.0f %% inside", 100*float64(inside)/float64(known))
	}
	return text
}

// frame draws the box of a panel with the grid of errors and of times.
func (v *accuracyView) frame(c *draw.Canvas, box vg.Rectangle, p *accuracyPanel) {
	for _, t := range (decades{label: seconds, wide: box.Max.X - box.Min.X}).Ticks(p.times.lo, p.times.hi) {
		if t.Label != "" {
			x := p.times.at(t.Value, box.Min.X, box.Max.X)
			c.StrokeLine2(Line(0.5, colors.Rule()), x, box.Min.Y, x, box.Max.Y)
		}
	}
	style := Sans(TickSize-0.5, colors.Ink())
	for _, t := range v.errorTicks() {
		y := v.at(t.off, box)
		line := Line(0.5, colors.Rule())
		if t.off == 0 {
			line = Line(0.7, colors.Faint())
		}
		c.StrokeLine2(line, box.Min.X, y, box.Max.X, y)
		writeUpTo(c, style, box.Min.X-3, y-ascent(style)/2, t.text)
	}
	outline(c, box, colors.Faint())
}

type errorTick struct {
	off  float64
	text string
}

func (v *accuracyView) errorTicks() []errorTick {
	switch {
	case v.far > math.Log(3.2):
		return []errorTick{{-math.Log(3), "−67 %"}, {0, "0"}, {math.Log(3), "+200 %"}}
	case v.far > math.Log(2.1):
		return []errorTick{{-math.Log(2), "−50 %"}, {0, "0"}, {math.Log(2), "+100 %"}}
	}
	return []errorTick{{-math.Log(1.5), "−33 %"}, {0, "0"}, {math.Log(1.5), "+50 %"}}
}

// at is the height of an error, at the border for what is beyond it.
func (v *accuracyView) at(off float64, box vg.Rectangle) vg.Length {
	off = min(max(off, -v.far), v.far)
	return (box.Min.Y+box.Max.Y)/2 + (box.Max.Y-box.Min.Y)/2*vg.Length(off/v.far)
}

// timeAxis labels the times of a column of panels.
func (v *accuracyView) timeAxis(c *draw.Canvas, i int, left, right, y vg.Length) {
	style, title := Sans(TickSize, colors.Ink()), Sans(LabelSize-0.5, colors.Ink())
	for _, t := range (decades{label: seconds, wide: right - left}).Ticks(v.times[i].lo, v.times[i].hi) {
		x := v.times[i].at(t.Value, left, right)
		long := vg.Length(2)
		if t.Label != "" {
			long = 3.5
			writeAround(c, style, x, y-5-ascent(style), t.Label)
		}
		c.StrokeLine2(Line(0.5, colors.Ink()), x, y, x, y-long)
	}
	text := "observed " + [2]string{"TTFT", "TPOT"}[i]
	writeAround(c, title, (left+right)/2, y-errorAxis+3, text)
}

func intervalLine(holds bool) draw.LineStyle {
	if holds {
		return Line(0.9, colors.Faint().Faded(75))
	}
	return Line(0.9, colors.Alarm().Faded(130))
}

// errors draws the intervals, the marks over all of them, and the name of the
// farthest.
func (v *accuracyView) errors(c *draw.Canvas, box vg.Rectangle, p *accuracyPanel) {
	r := vg.Length(2.1)
	if len(p.points) > manyPoints {
		r = 1.4
	}
	q := &placer{bounds: box}
	place := func(o *Observed) vg.Point {
		return vg.Point{X: p.times.at(o.Observed, box.Min.X, box.Max.X), Y: v.at(o.off(), box)}
	}
	for i := range p.points {
		o := &p.points[i]
		if o.hasInterval() {
			x := place(o).X
			c.StrokeLine2(intervalLine(o.inside()), x, v.at(math.Log(o.Low/o.Observed), box), x, v.at(math.Log(o.High/o.Observed), box))
		}
	}
	for i := range p.points {
		o := &p.points[i]
		at := place(o)
		v.looks.sign(c, at, o.GPU, r, o.Fitted)
		q.taken = append(q.taken, square(at, r))
	}
	if o := p.farthest(); o != nil {
		nameMark(c, q, place(o), r, Sans(CaptionSize, colors.Ink()), o.Name, 0)
	}
}

// manyPoints is from how many points on the marks of a panel are small.
const manyPoints = 200

// leastNamed is the error from which the farthest observation has its name.
const leastNamed = 0.25

// farthest is the point farthest off that no constant was fitted on.
func (p *accuracyPanel) farthest() *Observed {
	far := func(o Observed) float64 { return math.Abs(o.off()) * float64(1-boolOrder(o.Fitted)) }
	if len(p.points) == 0 {
		return nil
	}
	o := slices.MaxFunc(p.points, func(a, b Observed) int { return cmp.Compare(far(a), far(b)) })
	if o.Fitted || math.Abs(o.Predicted/o.Observed-1) <= leastNamed {
		return nil
	}
	return &o
}
