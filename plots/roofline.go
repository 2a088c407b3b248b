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
	"llmprof/roofline"
	"llmprof/unit"
)

// Roofline draws the operators of a report under the roofs of its GPU, after
// Williams, Waterman and Patterson, "Roofline" (CACM 52(4), 2009): FLOPs by
// memory traffic to the right, FLOPs by expected time upwards.
func Roofline(c *analytic.Case, r *breakdown.Report) (*Figure, error) {
	r, err := oneByOne(c, r)
	if err != nil {
		return nil, err
	}
	prefill, none, err := dots(r.PrefillOps, PrefillMark())
	if err != nil {
		return nil, err
	}
	decode, more, err := dots(r.DecodeOps, DecodeMark())
	if err != nil {
		return nil, err
	}
	all := append(prefill, decode...)
	if len(all) == 0 {
		return nil, fmt.Errorf("roofline: no operator has both FLOPs and memory traffic, so there is nothing to draw")
	}
	// Large ones first: their labels matter most, and small ones lie on top.
	slices.SortStableFunc(all, func(a, b dot) int { return cmp.Compare(b.share, a.share) })
	v := &rooflineView{dots: all, roofs: roofs(c.Machine, r)}
	for _, r := range v.roofs {
		if !shown(r.peak) || !shown(r.bandwidth) {
			return nil, fmt.Errorf("roofline: %s has a peak of %v FLOP/s in %v and a bandwidth of %v B/s: both must be finite and above 0",
				c.Machine.GPU.Name, r.peak, r.format, r.bandwidth)
		}
	}
	f := &Figure{Title: "Roofline of one GPU", Caption: Caption(c)}
	left := v.layOut(f)
	f.Notes = append(f.Notes, "Area of a mark: its share of the phase's expected time. Achieved: by large matrix products in bursts, "+c.Machine.Cal.Name+".")
	if v.shared {
		f.Notes = append(f.Notes, "Marks in one another share a label, the largest first.")
	}
	if m := c.Parallel.MicroBatches; m > 1 {
		f.Notes = append(f.Notes, fmt.Sprintf("Drawn is one micro-batch of %d.", m))
	}
	if n := none + more; n > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("Not shown: %s without matrix FLOPs.", count(n, "operator")))
	}
	if left > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("Without a label: %s (below %.0f\u00a0%%, or without room).", count(left, "mark"), 100*leastLabel))
	}
	f.hold(rooflineBody)
	return f, nil
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

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// rooflineBody is the height of axes and legend.
const rooflineBody = 3.8 * vg.Inch

// A rooflineView is a roofline ready to be drawn.
type rooflineView struct {
	dots  []dot
	roofs []roof
	plot  *plot.Plot
	keys  []key

	left   int  // dots without a label
	shared bool // some share one
}

// layOut chooses axes and legend, and draws once into nowhere to learn how many
// labels find no room.
func (v *rooflineView) layOut(f *Figure) (left int) {
	var x, y scope
	for _, d := range v.dots {
		x.take(d.x)
		y.take(d.y)
	}
	for i := range v.roofs {
		r := &v.roofs[i]
		x.take(r.ridge())
		y.take(r.peak)
	}
	v.plot = newPlot(x.padded(3, 8, 100), y.padded(6, 3, 100))
	p := v.plot
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker = decades{label: func(v float64) string { return fmt.Sprintf("%g", v) }}
	p.Y.Tick.Marker = decades{label: func(v float64) string { return si(v, "") }}
	p.Add(grid{}, v)
	var bounds []roofline.Bound
	for b := roofline.ByCompute; b <= roofline.ByLaunch; b++ {
		if slices.ContainsFunc(v.dots, func(d dot) bool { return d.bound == b }) {
			bounds = append(bounds, b)
		}
	}
	v.keys = boundKeys(bounds...)
	for _, m := range []PhaseMark{PrefillMark(), DecodeMark()} {
		if slices.ContainsFunc(v.dots, func(d dot) bool { return d.mark.Name == m.Name }) {
			v.keys = append(v.keys, phaseKey(m))
		}
	}
	v.keys = append(v.keys, lineKey("data sheet", roofStyle(false)), lineKey("achieved", roofStyle(true)))
	f.body = v.draw
	f.hold(rooflineBody)
	f.Draw(nowhere(f))
	return v.left
}

func (v *rooflineView) draw(c draw.Canvas) {
	panel(draw.Crop(c, 0, 0, legendHeight(v.keys, c.Max.X-c.Min.X), 0), v.plot,
		"performance: FLOPs by expected time (FLOP/s)", "intensity: FLOPs for each byte of memory traffic (FLOP/byte)")
	legend(&c, v.keys)
}

// intensity is one in three digits or more, without an exponent where people read it.
func intensity(x float64) string {
	if x >= 100 && x < 1e6 {
		return fmt.Sprintf("%.0f", x)
	}
	return fmt.Sprintf("%.3g", x)
}

// roofStyle is the stroke of a roof.
func roofStyle(achieved bool) draw.LineStyle {
	if achieved {
		return Line(0.8, Faint(), 4, 2)
	}
	return Line(1.4, Ink())
}

// Plot draws roofs, marks and labels; it implements plot.Plotter.
func (v *rooflineView) Plot(c draw.Canvas, p *plot.Plot) {
	tx, ty := p.Transforms(&c)
	q := &placer{bounds: vg.Rectangle{
		Min: vg.Point{X: c.Min.X + 2, Y: c.Min.Y + 2}, Max: vg.Point{X: c.Max.X - 1, Y: c.Max.Y - 1},
	}}
	for i := range v.roofs {
		v.roof(&c, q, &v.roofs[i], p)
	}
	at := make([]vg.Point, len(v.dots))
	for i, d := range v.dots {
		at[i] = vg.Point{X: tx(d.x), Y: ty(d.y)}
		h := half(d.mark, radius(d.share))
		q.taken = append(q.taken, vg.Rectangle{Min: vg.Point{X: at[i].X - h, Y: at[i].Y - h}, Max: vg.Point{X: at[i].X + h, Y: at[i].Y + h}})
	}
	for i := range v.roofs {
		v.roofLabels(&c, q, &v.roofs[i], p)
	}
	v.labels(&c, q, at)
}

// radius is that of a mark: its area is the share of the time.
func radius(share float64) vg.Length { return max(1.7, 15*vg.Length(math.Sqrt(share))) }

// roof draws the two lines of a roof and its ridge.
func (v *rooflineView) roof(c *draw.Canvas, q *placer, r *roof, p *plot.Plot) {
	tx, ty := p.Transforms(c)
	for _, achieved := range []bool{false, true} {
		knee, cost := r.ridge(), 8.0
		if achieved {
			cost = 1
			knee *= r.computeEff / r.memoryEff
		}
		var bend []vg.Point
		for _, x := range []float64{p.X.Min, knee, p.X.Max} {
			bend = append(bend, vg.Point{X: tx(x), Y: ty(r.at(x, achieved))})
		}
		for _, part := range c.ClipLinesXY(bend) {
			c.StrokeLines(roofStyle(achieved), part)
			for i := 1; i < len(part); i++ {
				q.lines = append(q.lines, line{part[i-1], part[i], cost})
			}
		}
	}
	ridge := vg.Point{X: tx(r.ridge()), Y: ty(r.peak)}
	if c.Contains(ridge) {
		c.SetColor(Paper())
		ring := shape(PrefillMark(), ridge, 2.2)
		c.Fill(ring)
		c.SetLineStyle(Line(1, Ink()))
		c.Stroke(ring)
		q.taken = append(q.taken, vg.Rectangle{Min: vg.Point{X: ridge.X - 3, Y: ridge.Y - 3}, Max: vg.Point{X: ridge.X + 3, Y: ridge.Y + 3}})
	}
}

// roofLabels names a roof, its ridge and its bandwidth.
func (v *rooflineView) roofLabels(c *draw.Canvas, q *placer, r *roof, p *plot.Plot) {
	tx, ty := p.Transforms(c)
	style := Sans(TickSize, Ink())
	put := func(text string, at vg.Point) {
		w, h := style.Width(text)+2*labelPad, lineHeight(style)
		if box, ok := q.near(at, 0, w, h); ok {
			c.FillText(style, vg.Point{X: box.X + labelPad, Y: box.Y - descent(style) + labelPad/2}, text)
			q.leaders = q.leaders[:len(q.leaders)-1]
		}
	}
	peak := fmt.Sprintf("%v %v", r.format, unit.FLOPsPerSec(r.peak))
	put(peak, vg.Point{X: c.Max.X - style.Width(peak)/2 - 2, Y: ty(r.peak)})
	put("ridge "+intensity(r.ridge())+" FLOP/byte", vg.Point{X: tx(r.ridge()), Y: ty(r.peak)})
	if r == &v.roofs[0] {
		x := math.Sqrt(max(p.X.Min, p.Y.Min/r.bandwidth) * r.ridge())
		put(fmt.Sprintf("memory %v", unit.BytesPerSec(r.bandwidth)), vg.Point{X: tx(x), Y: ty(r.at(x, false))})
	}
}
