package plots

import (
	"cmp"
	"fmt"
	"image/color"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
)

// An Observed is a time that was measured beside the one that was predicted.
type Observed struct {
	Decode    bool    // TPOT rather than TTFT
	Name      string  // what an outlier is called
	GPU       string  // has a shape
	Engine    string  // has a colour
	Predicted float64 // seconds
	Observed  float64
	Fitted    bool // a constant was fitted on it
}

// Accuracy draws predicted over observed times, TTFT and TPOT each on a panel of
// its own, with the outliers named.
func Accuracy(caption string, points []Observed) (*Figure, error) {
	for i := range points {
		if p := &points[i]; !shown(p.Predicted) || !shown(p.Observed) {
			return nil, fmt.Errorf("accuracy: %s is predicted to take %v s and observed to take %v s: both must be above 0", p.Name, p.Predicted, p.Observed)
		}
	}
	v := &accuracyView{looks: newLooks(points)}
	if n := len(v.looks.engines); n > numInks {
		return nil, fmt.Errorf("accuracy: %d engines: at most %d can be told apart in one picture", n, numInks)
	}
	if n := len(v.looks.gpus); n > 2*len(signs) {
		return nil, fmt.Errorf("accuracy: %d GPUs: at most %d can be told apart in one picture", n, 2*len(signs))
	}
	for _, decode := range []bool{false, true} {
		if p := newAccuracyPanel(points, decode, v.looks); p != nil {
			v.panels = append(v.panels, p)
		}
	}
	if len(v.panels) == 0 {
		return nil, fmt.Errorf("accuracy: there is no TTFT and no TPOT among the observations, so there is nothing to draw")
	}
	v.keys = v.looks.keys(points)
	f := &Figure{
		Title: "Predicted and observed", Caption: caption, body: v.draw,
		Notes: []string{"Bands: predictions within 10 % and 25 % of the observation. Both axes are logarithmic. Named: the observations farthest off that no constant was fitted on."},
	}
	f.Height = f.outside() + 2.9*vg.Inch + legendHeight(v.keys, Width-2*Margin)
	return f, nil
}

// looks are the shape of each GPU and the colour of each engine.
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

// ink is the colour of an engine.
func (l *looks) ink(engine string) color.Color { return ink(slices.Index(l.engines, engine)) }

// keys are the legend: engines by colour, GPUs by shape, and what is faint.
func (l *looks) keys(points []Observed) (keys []key) {
	for _, e := range l.engines {
		keys = append(keys, key{e, func(c *draw.Canvas, b vg.Rectangle) {
			fill(c, vg.Rectangle{Min: vg.Point{X: b.Min.X, Y: b.Min.Y + 2}, Max: vg.Point{X: b.Max.X, Y: b.Max.Y - 2}}, l.ink(e))
		}})
	}
	for _, g := range l.gpus {
		keys = append(keys, key{g, func(c *draw.Canvas, b vg.Rectangle) {
			l.sign(c, vg.Point{X: (b.Min.X + b.Max.X) / 2, Y: (b.Min.Y + b.Max.Y) / 2}, g, 3, Ink())
		}})
	}
	if slices.ContainsFunc(points, func(p Observed) bool { return p.Fitted }) {
		keys = append(keys, key{"faint: a constant was fitted on it", func(c *draw.Canvas, b vg.Rectangle) {
			l.sign(c, vg.Point{X: (b.Min.X + b.Max.X) / 2, Y: (b.Min.Y + b.Max.Y) / 2}, l.gpus[0], 3, faded(Ink(), fittedAlpha))
		}})
	}
	return keys
}

// fittedAlpha is how much is seen of what a constant was fitted on.
const fittedAlpha = 70

// sign draws the shape of a GPU: the commonest are filled, others outlines of the
// same shapes.
func (l *looks) sign(c *draw.Canvas, p vg.Point, gpu string, r vg.Length, ink color.Color) {
	n := slices.Index(l.gpus, gpu)
	path := polygon(signs[n%len(signs)], p, r)
	if n/len(signs)%2 == 0 {
		c.SetColor(ink)
		c.Fill(path)
		return
	}
	c.SetColor(Paper())
	c.Fill(path)
	c.SetLineStyle(Line(0.9, ink))
	c.Stroke(path)
}

// A sides is a regular figure: how many corners, and where the first is, in turns
// from the right; a star has every other corner nearer to the middle.
type sides struct {
	corners int
	turn    float64
	inner   float64 // 0 for none
	wide    float64 // by how much it is wider than it is high; 0 for 1
}

// signs are told apart by their outlines at a radius of three points.
var signs = [...]sides{
	{corners: 14},                            // circle
	{corners: 4, turn: 0.125},                // square
	{corners: 3, turn: 0.25},                 // triangle
	{corners: 4},                             // diamond
	{corners: 3, turn: 0.75},                 // triangle on its tip
	{corners: 8, turn: 0.25, inner: 0.33},    // star of four rays
	{corners: 8, turn: 0.125, inner: 0.33},   // the same, turned
	{corners: 4, turn: 0.125, wide: 2.6},     // bar
	{corners: 4, turn: 0.125, wide: 1 / 2.6}, // upright bar
}

// polygon is the outline of a sign with the area of a circle of radius r, about.
func polygon(s sides, p vg.Point, r vg.Length) (path vg.Path) {
	r *= vg.Length(math.Sqrt(math.Pi / (float64(s.corners) / 2 * math.Sin(2*math.Pi/float64(s.corners)))))
	wide := vg.Length(1)
	if s.wide > 0 {
		wide = vg.Length(math.Sqrt(s.wide))
	}
	for i := range s.corners {
		at := r
		if s.inner > 0 && i%2 == 1 {
			at *= vg.Length(s.inner)
		}
		sin, cos := math.Sincos(2 * math.Pi * (s.turn + float64(i)/float64(s.corners)))
		q := vg.Point{X: p.X + at*wide*vg.Length(cos), Y: p.Y + at/wide*vg.Length(sin)}
		if i == 0 {
			path.Move(q)
			continue
		}
		path.Line(q)
	}
	path.Close()
	return path
}
