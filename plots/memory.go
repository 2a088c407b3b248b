//go:build !js

package plots

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
	"llmprof/plots/colors"
	"llmprof/unit"
)

// A layer is one thing that memory is taken by, from the bottom up.
type layer struct {
	name string
	ink  colors.Color
	of   func(*analytic.Memory) unit.Bytes
}

// memoryLayers are ordered so that what does not change is at the bottom.
func memoryLayers() []layer {
	return []layer{
		{"weights", colors.Stack(0), func(m *analytic.Memory) unit.Bytes { return m.Weights }},
		{"reserve of driver and engine", colors.Stack(1), func(m *analytic.Memory) unit.Bytes { return m.Reserve }},
		{"KV cache", colors.Stack(2), func(m *analytic.Memory) unit.Bytes { return m.KV }},
		{"state", colors.Stack(3), func(m *analytic.Memory) unit.Bytes { return m.State }},
		{"activations", colors.Stack(4), func(m *analytic.Memory) unit.Bytes { return m.Activations }},
	}
}

// MemorySweep answers for the memory of the case over batch or context, from
// nearly nothing to beyond what fits.
func MemorySweep(c *analytic.Case, v Variable) (Curve, error) {
	if v == ByTP {
		return Curve{}, fmt.Errorf("memory: drawn over batch or context, not over %v", v)
	}
	p, err := analytic.NewPredictor(c)
	if err != nil {
		return Curve{}, err
	}
	now, err := p.Predict(&c.Workload)
	if err != nil {
		return Curve{}, err
	}
	step, hi := max(c.Parallel.MicroBatches, 1), max(c.Workload.Batch*5/4, now.Memory.MaxBatch*5/4, 4)
	if v == ByContext {
		step, hi = c.Workload.CachedPrefix+1, max(c.Workload.PromptLen*5/4, now.Memory.MaxTokens/c.Workload.Batch*5/4, 64)
	}
	curve, err := memoryUpTo(c, p, v, step, min(hi, 1<<28))
	if err != nil {
		return curve, err
	}
	// The guess above is too far where more than the cache grows.
	if most := mostThatFits(curve.Points); most > 0 && !math.IsInf(most, 0) {
		here := max(c.Workload.Batch, 4)
		if v == ByContext {
			here = max(c.Workload.PromptLen, 64)
		}
		return memoryUpTo(c, p, v, step, min(hi, max(int(most), here)*5/4))
	}
	return curve, nil
}

// memoryUpTo samples the memory from least to hi.
func memoryUpTo(c *analytic.Case, p *analytic.Predictor, v Variable, least, hi int) (Curve, error) {
	curve := Curve{Name: c.Model.Name}
	for i := range 65 {
		x := least + (hi-min(hi, least))*i/64
		if v == ByBatch {
			x = max(least, hi*i/64/least*least) // whole micro-batches
		}
		if n := len(curve.Points); n > 0 && curve.Points[n-1].X == float64(x) {
			continue
		}
		w := v.Set(*c, x).Workload
		e, err := p.Predict(&w)
		if err != nil {
			return curve, err
		}
		curve.Points = append(curve.Points, newPoint(x, &e))
	}
	return curve, nil
}

// Memory draws what one GPU's memory is taken by over batch or context, up to
// and beyond what it has.
func Memory(c *analytic.Case, v Variable, curve Curve) (*Figure, error) {
	view := &memoryView{variable: v, points: curve.Points}
	if err := view.check(); err != nil {
		return nil, err
	}
	here := float64(c.Workload.Batch)
	if v == ByContext {
		here = float64(c.Workload.PromptLen)
	}
	view.most, view.here = mostThatFits(curve.Points), here
	now, err := analytic.Predict(c)
	if err != nil {
		return nil, err
	}
	view.need = now.Memory.Total
	view.layOut()
	f := &Figure{
		Title: "Memory of one GPU", Caption: SweepCaption(v, c), body: view.draw,
		Notes: []string{
			"KV cache: of the whole batch at its longest. Activations: at the peak of the prefill.",
		},
	}
	if c.Parallel.PP > 1 {
		f.Notes = append(f.Notes, "Of the pipeline's stages: the fullest GPU.")
	}
	f.hold(2.7 * vg.Inch)
	return f, nil
}

// mostThatFits is where the memory is full: the last whole value that fits by
// interpolation, 0 if none does and infinite if all do.
func mostThatFits(ps []Point) float64 {
	if m := &ps[0].Memory; !m.Fits() {
		return 0
	}
	for i := 1; i < len(ps); i++ {
		a, b := &ps[i-1].Memory, &ps[i].Memory
		if !b.Fits() {
			if b.Short() <= 0 { // The memory suffices, but not so many sequences run at once.
				return ps[i-1].X
			}
			share := float64(a.Usable-a.Total) / float64(a.Usable-a.Total+b.Short())
			return math.Floor(ps[i-1].X + share*(ps[i].X-ps[i-1].X) + 1e-9)
		}
	}
	return math.Inf(1)
}

// A memoryView is the memory over a variable, ready to be drawn.
type memoryView struct {
	variable   Variable
	points     []Point
	most, here float64
	need       unit.Bytes // memory that the workload needs
	plot       *plot.Plot
	keys       []key
}

func (v *memoryView) check() error {
	if len(v.points) < 2 {
		return fmt.Errorf("memory: %s: at least two are needed to draw an area", count(len(v.points), "estimate"))
	}
	for i, p := range v.points {
		m := &p.Memory
		if !finite(p.X, float64(m.Weights), float64(m.KV), float64(m.State), float64(m.Activations), float64(m.Reserve), float64(m.Total),
			float64(m.Capacity)) || m.Capacity == 0 {
			return fmt.Errorf("memory: at %v %v it is %v of %v: both must be finite and the latter above 0", v.variable, p.X, m.Total, m.Capacity)
		}
		if m.Total > mostShown || m.Capacity > mostShown || p.X > mostShown {
			return fmt.Errorf("memory: at %v %v it is %v of %v: no axis shows that", v.variable, p.X, m.Total, m.Capacity)
		}
		if i > 0 && !(p.X > v.points[i-1].X) {
			return fmt.Errorf("memory: %v %v comes after %v: values must rise", v.variable, p.X, v.points[i-1].X)
		}
	}
	return nil
}

func (v *memoryView) layOut() {
	first, last := v.points[0], v.points[len(v.points)-1]
	top := float64(last.Memory.Capacity) * 1.06
	for _, p := range v.points {
		top = max(top, float64(p.Memory.Total)*1.04)
	}
	x := values{at: linear(last.X), label: func(x float64) string { return strings.ReplaceAll(si(x, ""), " ", "") }, wide: Width - 70}
	y := values{at: linear(top), label: func(x float64) string { return si(x, "B") }, wide: 1e4}
	v.plot = newPlot(axis{limits{first.X, last.X}, x}, axis{limits{0, top}, y}, v)
	for _, l := range memoryLayers() {
		if l.of(&last.Memory) > 0 {
			v.keys = append(v.keys, colorKey(l.name, l.ink))
		}
	}
	if v.most < last.X {
		v.keys = append(v.keys, key{"does not fit", func(c *draw.Canvas, box vg.Rectangle) {
			unfitHatch(c, box, 4)
			outline(c, box, colors.Faint())
		}})
	}
}

func (v *memoryView) draw(c draw.Canvas) {
	panel(draw.Crop(c, 0, 0, legendHeight(v.keys, c.Max.X-c.Min.X), 0), v.plot, "memory used", v.variable.title())
	legend(&c, v.keys)
}

// Plot draws the areas, the capacity and the marks; it implements plot.Plotter.
func (v *memoryView) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	base := make([]float64, len(v.points))
	for _, l := range memoryLayers() {
		var under, over []vg.Point
		for i := range v.points {
			x := tx(v.points[i].X)
			under = append(under, vg.Point{X: x, Y: ty(base[i])})
			base[i] += float64(l.of(&v.points[i].Memory))
			over = append(over, vg.Point{X: x, Y: ty(base[i])})
		}
		if area := c.ClipPolygonXY(between(over, under)); len(area) > 2 {
			c.FillPolygon(l.ink, area)
			c.StrokeLines(Line(0.5, colors.Paper()), c.ClipLinesXY(under)...)
		}
	}
	full := v.capacity(tx, ty)
	v.beyond(&c, tx, ty)
	for i, to := range full[1:] {
		over(&c, Line(1.3, colors.Alarm()), full[i], to)
	}
	q, least := &placer{bounds: c.Rectangle}, full[0].Y
	v.marks(&c, q, tx, least)
	text := "capacity " + v.points[0].Memory.Usable.String()
	if most := v.points[len(v.points)-1].Memory.Usable.String(); !strings.HasSuffix(text, " "+most) {
		text += " to " + most
	}
	style := Bold(TickSize, colors.Alarm())
	v.put(&c, q, style, text, vg.Point{X: c.Min.X + style.Width(text)/2 + 4, Y: least})
}

// capacity is the line of what the engine takes of the memory, with activations beside it: the points at which it bends.
func (v *memoryView) capacity(tx, ty func(float64) vg.Length) (line []vg.Point) {
	for i, p := range v.points {
		y := ty(float64(p.Memory.Usable))
		if n := len(line); n > 1 && line[n-1].Y == y && line[n-2].Y == y {
			line = line[:n-1]
		}
		line = append(line, vg.Point{X: tx(v.points[i].X), Y: y})
	}
	return line
}

// beyond hatches what is used beyond the capacity: strips as wide as a step of the
// curve, from the capacity up to the total.
func (v *memoryView) beyond(c *draw.Canvas, tx, ty func(float64) vg.Length) {
	first := slices.IndexFunc(v.points, func(p Point) bool { return !p.Memory.Fits() })
	if first < 0 {
		return
	}
	var total []vg.Point
	unfit := memoryView{points: v.points[first:]}
	for _, p := range unfit.points {
		total = append(total, vg.Point{X: tx(p.X), Y: ty(float64(p.Memory.Total))})
	}
	full := unfit.capacity(tx, ty)
	if first > 0 { // the total meets the capacity before that point
		full = slices.Insert(full, 0, vg.Point{X: tx(min(v.most, v.points[first].X)), Y: full[0].Y})
	}
	area := between(total, full)
	hatch(area, 11, func(from, to vg.Point) { over(c, Line(0.5, colors.Alarm()), to, from) })
}

// unfitHatch hatches what does not fit so that it shows on dark and on light.
func unfitHatch(c *draw.Canvas, r vg.Rectangle, gap vg.Length) {
	slanted(c, r, Line(1.1, colors.Paper()), gap)
	slanted(c, r, Line(0.5, colors.Alarm()), gap)
}

// over draws a line that shows on dark and on light.
func over(c *draw.Canvas, s draw.LineStyle, from, to vg.Point) {
	c.StrokeLine2(Line(s.Width+1.4, colors.Paper()), from.X, from.Y, to.X, to.Y)
	c.StrokeLine2(s, from.X, from.Y, to.X, to.Y)
}

func (v *memoryView) marks(c *draw.Canvas, q *placer, tx func(float64) vg.Length, full vg.Length) {
	noun := "batch"
	if v.variable == ByContext {
		noun = "prompt"
	}
	if v.most > 0 && !math.IsInf(v.most, 0) {
		x := tx(v.most)
		over(c, Line(1.3, colors.Alarm()), vg.Point{X: x, Y: c.Min.Y}, vg.Point{X: x, Y: c.Max.Y})
		v.put(c, q, Bold(TickSize, colors.Alarm()), "max "+noun+" "+counted(v.most), vg.Point{X: x, Y: c.Min.Y + (full-c.Min.Y)*0.55})
	}
	if math.IsInf(v.most, 0) {
		v.put(c, q, Bold(TickSize, colors.Alarm()), "all fit", vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: full})
	}
	if v.most == 0 {
		v.put(c, q, Bold(TickSize, colors.Alarm()), "nothing fits", vg.Point{X: (c.Min.X + c.Max.X) / 2, Y: (full + c.Max.Y) / 2})
	}
	if v.here >= v.plot.X.Min && v.here <= v.plot.X.Max {
		x := tx(v.here)
		over(c, Line(1, colors.Ink(), 3, 2), vg.Point{X: x, Y: c.Min.Y}, vg.Point{X: x, Y: c.Max.Y})
		v.put(c, q, Sans(TickSize, colors.Ink()), fmt.Sprintf("this workload: %s %s, %v", noun, counted(v.here), v.need),
			vg.Point{X: x, Y: v.free(c, full)})
	}
}

// free is a height where the label of the workload hides nothing: between what
// the workload takes and the capacity, if there is room.
func (v *memoryView) free(c *draw.Canvas, full vg.Length) vg.Length {
	_, ty := v.plot.Transforms(c)
	for _, p := range v.points {
		if top := ty(float64(p.Memory.Total)); p.X >= v.here && full-top > 14 {
			return (top + full) / 2
		}
	}
	return c.Min.Y + (full-c.Min.Y)*0.8
}

// put writes text on paper near a place.
func (v *memoryView) put(c *draw.Canvas, q *placer, style draw.TextStyle, text string, at vg.Point) {
	w, h := style.Width(text)+4, style.Font.Size+2
	box, ok := q.near(at, 1, w, h)
	if !ok {
		return
	}
	fill(c, boxAt(box, w, h), colors.Paper())
	write(c, style, box.X+2, box.Y+0.5-descent(style), text)
}
