//go:build !js

package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/plots/colors"
	"llmprof/roofline"
	"llmprof/unit"
)

// Roofline draws the operators of a report under the roofs of its GPU, after
// Williams, Waterman and Patterson, "Roofline" (CACM 52(4), 2009): FLOPs by
// memory traffic to the right, FLOPs by expected time upwards. Operators that were timed have marks too, none
// over its roof: one that would be is named in a note.
func Roofline(c *analytic.Case, r *breakdown.Report, measured []MeasuredOperator) (*Figure, error) {
	r, err := oneByOne(c, r)
	if err != nil {
		return nil, err
	}
	prefill, err := dots(r.PrefillOps, prefillMark)
	if err != nil {
		return nil, err
	}
	decode, err := dots(r.DecodeOps, decodeMark)
	if err != nil {
		return nil, err
	}
	v := &rooflineView{roofs: roofs(c.Machine, r)}
	v.under(slices.Concat(prefill, decode))
	if len(v.dots) == 0 {
		return nil, fmt.Errorf("roofline: no operator has both FLOPs and memory traffic, so there is nothing to draw")
	}
	for _, r := range v.roofs {
		if !shown(r.peak) || !shown(r.bandwidth) {
			return nil, fmt.Errorf("roofline: %s has a peak of %v FLOP/s in %v and a bandwidth of %v B/s: both must be finite and above 0",
				c.Machine.GPU.Name, r.peak, r.format, r.bandwidth)
		}
	}
	v.tables = []phaseTable{newPhaseTable(prefill, prefillMark)}
	if len(r.DecodeOps) > 0 {
		v.tables = append(v.tables, newPhaseTable(decode, decodeMark))
	}
	// Long ones first, so that their numbers are nearest and small ones lie on top.
	slices.SortStableFunc(v.dots, func(a, b *dot) int { return cmp.Compare(b.share, a.share) })
	f := &Figure{Title: "Roofline of one GPU", Caption: Caption(c)}
	f.Notes = append(f.Notes, "Share: of the phase's expected time. Of roof: the least time by the data sheet's peak arithmetic, memory "+
		"bandwidth or link, over the expected time. "+
		"Achieved: by large matrix products in bursts, "+c.Machine.Cal.Name+".")
	if m := c.Parallel.MicroBatches; m > 1 {
		f.Notes = append(f.Notes, fmt.Sprintf("One micro-batch of %d is drawn.", m))
	}
	if measured != nil {
		notes, err := v.measure(measured)
		if err != nil {
			return nil, err
		}
		f.Notes = append(f.Notes, notes...)
	}
	if left := v.layOut(f); left > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("Without a number for want of room: %s.", count(left, "mark")))
		f.hold(v.height())
	}
	return f, nil
}

// under takes the operators that have a place on the roofline, each under the roof of the number format that its GEMMs run in.
func (v *rooflineView) under(all []*dot) {
	for _, d := range all {
		if !d.marked() {
			continue
		}
		if i := slices.IndexFunc(v.roofs, func(r roof) bool { return r.format == d.format }); i >= 0 {
			d.roof = &v.roofs[i]
		}
		v.dots = append(v.dots, d)
	}
}

// oneByOne is the report of one micro-batch by itself: those of a pipeline overlap,
// and what several GPUs do in the time of one lies above its roofs.
func oneByOne(c *analytic.Case, r *breakdown.Report) (*breakdown.Report, error) {
	m := c.Parallel.MicroBatches
	if m <= 1 {
		return r, nil
	}
	one := *c
	one.Workload.Batch, one.Parallel.MicroBatches = c.Workload.Batch/m, 1
	alone, err := breakdown.Explain(&one)
	return &alone, err
}

const rooflineAxes = 3.1 * vg.Inch

// A rooflineView is a roofline ready to be drawn, with a table of each phase below.
type rooflineView struct {
	dots   []*dot // those that have a place
	roofs  []roof // the highest first
	tables []phaseTable
	plot   *plot.Plot
	keys   []key

	measured []*dot // operators as they were timed

	left int // numbers that found no room
}

func (v *rooflineView) height() vg.Length {
	high := vg.Length(0)
	for i := range v.tables {
		high = max(high, v.tables[i].height())
	}
	return rooflineAxes + legendHeight(v.keys, Width-2*Margin) + 10 + high + 4
}

// layOut chooses axes and legend, and draws once into nowhere to learn how many
// numbers find no room.
func (v *rooflineView) layOut(f *Figure) (left int) {
	var x, y limits
	for _, d := range append(slices.Clone(v.dots), v.measured...) {
		x.take(d.x())
		y.take(d.y())
	}
	for _, r := range v.roofs {
		x.take(r.ridge())
		y.take(r.peak)
	}
	rate := decades{label: func(v float64) string { return si(v, "") }}
	v.plot = newPlot(axis{x.padded(3, 8, 100), decades{label: plain}}, axis{y.padded(6, 3, 100), rate}, v)
	var bounds []roofline.Bound
	for b := roofline.ByCompute; b <= roofline.ByLaunch; b++ {
		if slices.ContainsFunc(v.dots, func(d *dot) bool { return d.bound == b }) {
			bounds = append(bounds, b)
		}
	}
	v.keys = boundKeys(bounds...)
	for _, m := range []Marker{prefillMark, decodeMark} {
		if slices.ContainsFunc(v.dots, func(d *dot) bool { return d.mark == m }) {
			v.keys = append(v.keys, phaseKey(m))
		}
	}
	if len(v.measured) > 0 {
		v.keys = append(v.keys, key{"measured", func(c *draw.Canvas, b vg.Rectangle) {
			arrow(c, vg.Point{X: middle(b).X, Y: middle(b).Y + markHigh/2})
		}})
	}
	v.keys = append(v.keys, lineKey("data sheet", roofStyle(false)), lineKey("achieved", roofStyle(true)))
	f.body = v.draw
	f.hold(v.height())
	f.Draw(nowhere(f))
	return v.left
}

func (v *rooflineView) draw(c draw.Canvas) {
	axes := draw.Crop(c, 0, 0, c.Max.Y-c.Min.Y-rooflineAxes, 0)
	by := "expected time"
	if len(v.measured) > 0 {
		by = "expected or observed time"
	}
	panel(axes, v.plot, "performance: FLOPs by "+by+" (FLOP/s)", "intensity: FLOPs for each byte of memory traffic (FLOP/byte)")
	keys := legendHeight(v.keys, c.Max.X-c.Min.X)
	below := draw.Crop(c, 0, 0, c.Max.Y-c.Min.Y-rooflineAxes-keys, 0)
	legend(&below, v.keys)
	below = draw.Crop(c, 0, 0, 0, -rooflineAxes-keys-10)
	wide := (below.Max.X - below.Min.X - phaseGap) / 2
	for i := range v.tables {
		left := (wide + phaseGap) * vg.Length(i)
		one := draw.Crop(below, left, left+wide-(below.Max.X-below.Min.X), 0, 0)
		v.tables[i].draw(&one)
	}
}

func roofStyle(achieved bool) draw.LineStyle {
	if achieved {
		return Line(0.8, colors.Faint(), 4, 2)
	}
	return Line(1.4, colors.Ink())
}

// Plot draws roofs, marks and labels; it implements plot.Plotter.
func (v *rooflineView) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	q := &placer{bounds: rect(c.Min.X+2, c.Min.Y+2, c.Max.X-1, c.Max.Y-1)}
	for i := range v.roofs {
		v.roof(&c, q, &v.roofs[i], p)
	}
	at := make([]vg.Point, len(v.dots))
	for i, d := range v.dots {
		at[i] = vg.Point{X: tx(d.x()), Y: ty(d.y())}
		const h = dotRadius
		q.taken = append(q.taken, square(at[i], h))
	}
	for i := range v.roofs {
		v.roofLabels(&c, q, &v.roofs[i], p)
	}
	v.marks(&c, q, at, v.bend(&c, &v.roofs[0], false))
	for _, d := range v.measured {
		arrow(&c, vg.Point{X: tx(d.x()), Y: ty(d.y())})
	}
}

// bend is a roof on the canvas: where it begins, its knee and where it ends.
func (v *rooflineView) bend(c *draw.Canvas, r *roof, achieved bool) (bend []vg.Point) {
	tx, ty := v.plot.Transforms(c)
	knee := r.ridge()
	if achieved {
		knee *= r.computeEff / r.memoryEff
	}
	for _, x := range []float64{v.plot.X.Min, knee, v.plot.X.Max} {
		bend = append(bend, vg.Point{X: tx(x), Y: ty(r.at(x, achieved))})
	}
	return bend
}

// roof draws the two lines of a roof and its ridge.
func (v *rooflineView) roof(c *draw.Canvas, q *placer, r *roof, p *plot.Plot) {
	tx, ty := p.Transforms(c)
	for _, achieved := range []bool{false, true} {
		cost := 8.0
		if achieved {
			cost = 1
		}
		for _, part := range c.ClipLinesXY(v.bend(c, r, achieved)) {
			c.StrokeLines(roofStyle(achieved), part)
			for i := 1; i < len(part); i++ {
				q.lines = append(q.lines, line{part[i-1], part[i], cost})
			}
		}
	}
	ridge := vg.Point{X: tx(r.ridge()), Y: ty(r.peak)}
	if c.Contains(ridge) {
		paint(c, circle(ridge, 2.2), colors.Paper(), Line(1, colors.Ink()))
		q.taken = append(q.taken, square(ridge, 3))
	}
}

// roofLabels names a roof, its ridge and its bandwidth.
func (v *rooflineView) roofLabels(c *draw.Canvas, q *placer, r *roof, p *plot.Plot) {
	tx, ty := p.Transforms(c)
	style := Sans(TickSize, colors.Ink())
	put := func(text string, at vg.Point) {
		w, h := style.Width(text)+2*labelPad, lineHeight(style)
		if box, ok := q.near(at, 0, w, h); ok {
			at := vg.Point{X: box.X + labelPad, Y: box.Y - descent(style) + labelPad/2}
			fill(c, textBox(style, at, text), colors.Paper())
			c.FillText(style, at, text)
			q.leaders = q.leaders[:len(q.leaders)-1]
		}
	}
	peak := fmt.Sprintf("%v %v", r.format, r.format.Rate(unit.FLOPsPerSec(r.peak)))
	put(peak, vg.Point{X: c.Max.X - style.Width(peak)/2 - 2, Y: ty(r.peak)})
	put("ridge "+intensity(r.ridge())+" FLOP/byte", vg.Point{X: tx(r.ridge()), Y: ty(r.peak)})
	if r == &v.roofs[0] {
		x := math.Sqrt(max(p.X.Min, p.Y.Min/r.bandwidth) * r.ridge())
		put(fmt.Sprintf("memory %v", unit.BytesPerSec(r.bandwidth)), vg.Point{X: tx(x), Y: ty(r.at(x, false))})
	}
}
