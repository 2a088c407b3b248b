//go:build !js

package plots

import (
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"

	"llmprof/plots/colors"
)

// leastLabel is the share of a phase's time from which an operator is listed.
const leastLabel = 0.01

// labelPad is the room at both sides of a label.
const labelPad vg.Length = 2

// dotRadius is that of a mark.
const dotRadius vg.Length = 2.4

// A callout is the number of a mark beside it, at the end of a leader.
type callout struct {
	dot int
	box vg.Rectangle
	ok  bool // found room
}

// place finds room for the number of a mark near it, and says what that costs.
func (l *callout) place(q *placer, at []vg.Point) float64 {
	const side = 2 * (badge + 0.6)
	box, cost := q.best(at[l.dot], dotRadius, side, side)
	l.box, l.ok = boxAt(box, side, side), cost < q.limit()
	return min(cost, 2*q.limit())
}

// arranged are the callouts where they cost least. Each is placed in turn where
// the ones before it leave room, in the order of time, and again with each of
// them first.
func (v *rooflineView) arranged(q *placer, at []vg.Point) []callout {
	var all, best []callout
	for i := range v.dots {
		if v.dots[i].number > 0 {
			all = append(all, callout{dot: i})
		}
	}
	least := math.Inf(1)
	for first := range all {
		one, trial := q.fork(), slices.Clone(all)
		cost := trial[first].place(one, at)
		for k := range trial {
			if k != first {
				cost += trial[k].place(one, at)
			}
		}
		if cost < least {
			best, least = trial, cost
		}
	}
	return best
}

// marks draws the marks and spreads their numbers around them, all below the roof.
func (v *rooflineView) marks(c *draw.Canvas, q *placer, at []vg.Point, roof []vg.Point) {
	q.most = 4 * misleading // marks lie so close that a leader may pass under others
	q.below = func(b vg.Rectangle) bool { return under(roof, vg.Point{X: b.Min.X, Y: b.Max.Y}, 2) }
	all := v.arranged(q, at)
	v.left = 0
	for _, l := range all {
		if !l.ok {
			v.left++
			continue
		}
		to := middle(l.box)
		c.StrokeLine2(Line(1.5, colors.Paper()), at[l.dot].X, at[l.dot].Y, to.X, to.Y)
		c.StrokeLine2(Line(0.5, colors.Ink()), at[l.dot].X, at[l.dot].Y, to.X, to.Y)
	}
	for i, d := range slices.Backward(v.dots) {
		v.dot(c, d, at[i], v.bend(c, d.roof, false))
	}
	for _, l := range all {
		if l.ok {
			d := v.dots[l.dot]
			(&phaseTable{mark: d.mark}).badge(c, middle(l.box), d.number, colors.Bound(d.bound))
		}
	}
}

// dot draws the mark of an operator as far as it is below its roof.
func (v *rooflineView) dot(c *draw.Canvas, d *dot, at vg.Point, roof []vg.Point) {
	s := sides{corners: 4, turn: 0.125}
	if d.mark == prefillMark {
		s = sides{corners: 24}
	}
	var outline []vg.Point
	for _, p := range polygon(s, at, dotRadius) {
		if p.Type != vg.CloseComp {
			outline = append(outline, p.Pos)
		}
	}
	for i := 1; i < len(roof); i++ {
		outline = cutBelow(outline, roof[i-1], roof[i])
	}
	if len(outline) < 3 {
		return
	}
	c.FillPolygon(colors.Bound(d.bound), outline)
	c.StrokeLines(Line(0.6, colors.Ink()), append(outline, outline[0]))
}

// cutBelow is the part of a convex polygon below the line through a and b.
func cutBelow(polygon []vg.Point, a, b vg.Point) (below []vg.Point) {
	over := func(p vg.Point) float64 { return float64((b.X-a.X)*(p.Y-a.Y) - (b.Y-a.Y)*(p.X-a.X)) }
	for i, p := range polygon {
		q := polygon[(i+1)%len(polygon)]
		op, oq := over(p), over(q)
		if op <= 0 {
			below = append(below, p)
		}
		if op*oq < 0 {
			t := vg.Length(op / (op - oq))
			below = append(below, vg.Point{X: p.X + t*(q.X-p.X), Y: p.Y + t*(q.Y-p.Y)})
		}
	}
	return below
}

// under reports whether a point is at least a margin below a roof, a line that
// rises and then is level.
func under(roof []vg.Point, p vg.Point, margin vg.Length) bool {
	for i := 1; i < len(roof); i++ {
		a, b := roof[i-1], roof[i]
		if b.X <= a.X {
			continue
		}
		if at := a.Y + (p.X-a.X)*(b.Y-a.Y)/(b.X-a.X); p.Y > at-margin {
			return false
		}
	}
	return true
}

// A blank is a canvas of a size that keeps a record and shows nothing.
type blank struct {
	recorder.Canvas
	w, h vg.Length
}

// Size implements vg.CanvasSizer.
func (b *blank) Size() (w, h vg.Length) { return b.w, b.h }

// nowhere is a canvas for f that shows nothing.
func nowhere(f *Figure) *blank { return &blank{w: Width, h: f.Height} }
