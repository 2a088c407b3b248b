//go:build !js

package plots

import (
	"fmt"
	"math"
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
		curve.Points = append(curve.Points, Point{float64(x), e})
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
	if m := &ps[0].Estimate.Memory; !m.Fits() {
		return 0
	}
	for i := 1; i < len(ps); i++ {
		a, b := &ps[i-1].Estimate.Memory, &ps[i].Estimate.Memory
		if !b.Fits() {
			share := float64(a.Usable-a.Total) / float64(b.Total-a.Total)
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
		m := &p.Estimate.Memory
		if !finite(p.X, float64(m.Weights), float64(m.KV), float64(m.State), float64(m.Activations), float64(m.Reserve), float64(m.Total), float64(m.Capacity)) || m.Capacity == 0 {
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

// layOut chooses the axes and the legend.
func (v *memoryView) layOut() {
	first, last := v.points[0], v.points[len(v.points)-1]
	top := float64(last.Estimate.Memory.Capacity) * 1.06
	for _, p := range v.points {
		top = max(top, float64(p.Estimate.Memory.Total)*1.04)
	}
	x := values{at: linear(last.X), label: func(x float64) string { return strings.ReplaceAll(si(x, ""), " ", "") }, wide: Width - 70}
	y := values{at: linear(top), label: func(x float64) string { return si(x, "B") }, wide: 1e4}
	v.plot = newPlot(axis{scope{first.X, last.X}, x}, axis{scope{0, top}, y}, v)
	for _, l := range memoryLayers() {
		if l.of(&last.Estimate.Memory) > 0 {
			v.keys = append(v.keys, colorKey(l.name, l.ink))
		}
	}
	if v.most < last.X {
		v.keys = append(v.keys, key{"does not fit", func(c *draw.Canvas, box vg.Rectangle) {
			unfitHatch(c, box, 4)
			outline(c, box, Faint())
		}})
	}
}

func (v *memoryView) draw(c draw.Canvas) {
	panel(draw.Crop(c, 0, 0, legendHeight(v.keys, c.Max.X-c.Min.X), 0), v.plot, "memory used", v.variable.title())
	legend(&c, v.keys)
}
