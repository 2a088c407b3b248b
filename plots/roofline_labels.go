package plots

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// leastLabel is the share of a phase's time from which an operator is named.
const leastLabel = 0.01

// labelPad is the room at both sides of a label.
const labelPad vg.Length = 2

// A callout names marks that lie in one another, the largest first, or one that
// does not, at the end of a leader.
type callout struct {
	dots  []int
	lines []string
	box   vg.Rectangle
	ok    bool // found room
}

// callouts groups the marks that have a name: those whose middle lies in a larger
// one of their phase with it, since no leader could tell them apart.
func (v *rooflineView) callouts(at []vg.Point) (all []callout) {
	grouped := make([]bool, len(v.dots))
	for i := range v.dots {
		d := &v.dots[i]
		if grouped[i] || d.share < leastLabel {
			continue
		}
		h := half(d.mark, radius(d.share))
		own := vg.Rectangle{Min: vg.Point{X: at[i].X - h, Y: at[i].Y - h}, Max: vg.Point{X: at[i].X + h, Y: at[i].Y + h}}
		var l callout
		for j := i; j < len(v.dots); j++ {
			e := &v.dots[j]
			if !grouped[j] && e.share >= leastLabel && e.mark.Name == d.mark.Name && inside(own, at[j]) {
				grouped[j] = true
				l.dots, l.lines = append(l.dots, j), append(l.lines, e.label())
			}
		}
		all = append(all, l)
	}
	return all
}

// label is the name of a mark with its share.
func (d *dot) label() string { return fmt.Sprintf("%s %.0f %%", d.name, 100*d.share) }

// place finds room for a callout near the largest of its marks, and says what
// that costs.
func (l *callout) place(v *rooflineView, q *placer, at []vg.Point) float64 {
	style, i := Sans(TickSize, Ink()), l.dots[0]
	var w vg.Length
	for _, text := range l.lines {
		w = max(w, style.Width(text)+2*labelPad)
	}
	h := lineHeight(style) * vg.Length(len(l.lines))
	d := &v.dots[i]
	box, cost := q.best(at[i], half(d.mark, radius(d.share)), w, h)
	l.box, l.ok = vg.Rectangle{Min: box, Max: vg.Point{X: box.X + w, Y: box.Y + h}}, cost < misleading
	return min(cost, 2*misleading)
}

// arranged are the callouts where they cost least. Each is placed in turn where
// the ones before it leave room, in the order of time, and again with each of
// them first.
func (v *rooflineView) arranged(q *placer, at []vg.Point) []callout {
	all := v.callouts(at)
	var best []callout
	least := math.Inf(1)
	for first := range len(all) {
		if first > 0 && len(all) > mostOrders {
			break
		}
		one, trial := q.fork(), slices.Clone(all)
		cost := trial[first].place(v, one, at)
		for k := range trial {
			if k != first {
				cost += trial[k].place(v, one, at)
			}
		}
		if cost < least {
			best, least = trial, cost
		}
	}
	return best
}

// mostOrders is how many callouts there may be for several orders to be tried:
// more than on any roofline of a model, and few enough to be quick.
const mostOrders = 48

// labels draws the marks and names them. A leader ends in its own mark, over the
// larger ones that it passes.
func (v *rooflineView) labels(c *draw.Canvas, q *placer, at []vg.Point) {
	leader := map[int]*callout{}
	v.left, v.shared = len(v.dots), false
	all := v.arranged(q, at)
	for k := range all {
		if l := &all[k]; l.ok {
			leader[l.dots[0]] = l
			v.left -= len(l.dots)
			v.shared = v.shared || len(l.dots) > 1
		}
	}
	for i, d := range v.dots {
		if l := leader[i]; l != nil {
			to := nearest(l.box, at[i])
			c.StrokeLine2(Line(1.5, Paper()), at[i].X, at[i].Y, to.X, to.Y)
			c.StrokeLine2(Line(0.5, Ink()), at[i].X, at[i].Y, to.X, to.Y)
		}
		mark(c, d.mark, at[i], radius(d.share), BoundColor(d.bound))
	}
	for k := range all {
		if all[k].ok {
			all[k].draw(c, at[all[k].dots[0]])
		}
	}
}

// draw writes the lines of a callout towards the mark at p, joined by a bar.
func (l *callout) draw(c *draw.Canvas, p vg.Point) {
	style := Sans(TickSize, Ink())
	right := l.box.Max.X < p.X
	y := l.box.Max.Y - descent(style) + labelPad/5
	for _, text := range l.lines {
		y -= lineHeight(style)
		x := l.box.Min.X + labelPad
		if right {
			x = l.box.Max.X - labelPad - style.Width(text)
		}
		at := vg.Point{X: x, Y: y}
		fill(c, textBox(style, at, text), Paper()) // no grid runs through text
		c.FillText(style, at, text)
	}
	if len(l.lines) > 1 {
		from, to := l.side(p)
		c.StrokeLine2(Line(0.5, Ink()), from.X, from.Y, to.X, to.Y)
	}
}

// side is the border of a callout that faces p.
func (l *callout) side(p vg.Point) (from, to vg.Point) {
	from, to = l.box.Min, l.box.Max
	switch {
	case p.X < l.box.Min.X:
		to.X = from.X
	case p.X > l.box.Max.X:
		from.X = to.X
	case p.Y < l.box.Min.Y:
		to.Y = from.Y
	default:
		from.Y = to.Y
	}
	return from, to
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
