//go:build !js

package plots

import (
	"math"
	"slices"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
)

// A placer finds places for labels, one after the other, where they touch no
// other label, no mark and not the border.
type placer struct {
	bounds  vg.Rectangle
	taken   []vg.Rectangle
	texts   []vg.Rectangle // taken places with text, which leaders must not pass through
	lines   []line         // lines that labels avoid
	leaders [][2]vg.Point
	most    float64                 // the cost that a place may have; 0 for misleading
	below   func(vg.Rectangle) bool // places where labels may be; nil for everywhere
}

// misleading is the cost of a leader through a mark that is not its own: no label
// is better than one that seems to be another's.
const misleading = 20

// A line is one that a label would interrupt, and what that costs.
type line struct {
	from, to vg.Point
	cost     float64
}

// fork is a copy of q that places on its own.
func (q *placer) fork() *placer {
	f := *q
	f.taken, f.texts, f.leaders = slices.Clip(q.taken), slices.Clip(q.texts), slices.Clip(q.leaders)
	return &f
}

// near finds the best place for a box of w by h near a mark of radius r at p. It
// returns the lower left corner, and whether there is any.
func (q *placer) near(p vg.Point, r, w, h vg.Length) (vg.Point, bool) {
	at, cost := q.best(p, r, w, h)
	return at, cost < q.limit()
}

// limit is the cost from which no label is better.
func (q *placer) limit() float64 {
	if q.most > 0 {
		return q.most
	}
	return misleading
}

// best is near with what the place costs: misleading or more if there is none.
// The solver is greedy: of the candidates around the mark, ever farther out, the
// first ring that has a free one wins, and on it the one that crosses the fewest
// lines.
func (q *placer) best(p vg.Point, r, w, h vg.Length) (vg.Point, float64) {
	const angles = 32
	best, cost := vg.Point{}, math.Inf(1)
	for ring, gap := range []vg.Length{2, 7, 14, 22, 32, 44, 58, 74, 92, 112} {
		for i := range angles {
			sin, cos := math.Sincos(2 * math.Pi * float64(i) / angles)
			at := vg.Point{ // the middle of the box
				X: p.X + vg.Length(cos)*(r+gap+w/2), Y: p.Y + vg.Length(sin)*(r+gap+h/2),
			}
			box := rect(at.X-w/2, at.Y-h/2, at.X+w/2, at.Y+h/2)
			if !q.free(box) || q.through(p, nearest(box, p)) {
				continue
			}
			x := float64(ring) + q.crossings(box, p, r)*1.5 + math.Abs(sin)*0.3
			if x < cost {
				best, cost = box.Min, x
			}
		}
		if cost < float64(ring) {
			break // farther out is no better
		}
	}
	if cost >= q.limit() {
		return best, cost
	}
	box := boxAt(best, w, h)
	q.taken, q.texts = append(q.taken, box), append(q.texts, box)
	q.leaders = append(q.leaders, [2]vg.Point{p, nearest(box, p)})
	return best, cost
}

// free reports whether a box is inside and touches nothing.
func (q *placer) free(b vg.Rectangle) bool {
	if b.Min.X < q.bounds.Min.X || b.Min.Y < q.bounds.Min.Y || b.Max.X > q.bounds.Max.X || b.Max.Y > q.bounds.Max.Y {
		return false
	}
	if q.below != nil && !q.below(b) {
		return false
	}
	return !slices.ContainsFunc(q.taken, func(t vg.Rectangle) bool { return overlap(b, t) }) &&
		!slices.ContainsFunc(q.leaders, func(l [2]vg.Point) bool { return cuts(b, l[0], l[1]) })
}

// through reports whether the line from a to b passes through a label.
func (q *placer) through(a, b vg.Point) bool {
	return slices.ContainsFunc(q.texts, func(t vg.Rectangle) bool { return cuts(t, a, b) })
}

// crossings counts the lines under a box and those that its leader from a mark of
// radius r at p crosses. To cross another mark
// misleads, unless the two touch anyway, and costs nothing if it lies in this one.
func (q *placer) crossings(b vg.Rectangle, p vg.Point, r vg.Length) (n float64) {
	own := square(p, r)
	for _, l := range q.lines {
		if cuts(b, l.from, l.to) {
			n += l.cost
		}
	}
	to := nearest(b, p)
	for _, l := range q.leaders {
		if cross(p, to, l[0], l[1]) {
			n++
		}
	}
	for _, t := range q.taken {
		switch {
		case !cuts(t, p, to) || inside(t, p) || inside(own, middle(t)):
		case overlap(t, own):
			n += 3
		default:
			n += misleading
		}
	}
	return n
}

// overlap reports whether two rectangles share more than a border.
func overlap(a, b vg.Rectangle) bool {
	return a.Min.X < b.Max.X && b.Min.X < a.Max.X && a.Min.Y < b.Max.Y && b.Min.Y < a.Max.Y
}

// cuts reports whether the line from p to q passes through a rectangle.
func cuts(b vg.Rectangle, p, q vg.Point) bool {
	if inside(b, p) || inside(b, q) {
		return true
	}
	a := vg.Point{X: b.Min.X, Y: b.Max.Y}
	d := vg.Point{X: b.Max.X, Y: b.Min.Y}
	return cross(p, q, b.Min, b.Max) || cross(p, q, a, d)
}

func cross(a, b, c, d vg.Point) bool {
	side := func(p, q, r vg.Point) vg.Length { return (q.X-p.X)*(r.Y-p.Y) - (q.Y-p.Y)*(r.X-p.X) }
	return side(a, b, c)*side(a, b, d) < 0 && side(c, d, a)*side(c, d, b) < 0
}

// nameMark writes a name near a mark if there is room, with a leader where it is farther than near.
func nameMark(c *draw.Canvas, q *placer, at vg.Point, r vg.Length, style draw.TextStyle, name string, near vg.Length) {
	w, h := style.Width(name), ascent(style)-descent(style)
	corner, ok := q.near(at, r, w, h)
	if !ok {
		return
	}
	to := nearest(boxAt(corner, w, h), at)
	if away := math.Hypot(float64(to.X-at.X), float64(to.Y-at.Y)); away > float64(near) {
		c.StrokeLine2(Line(0.4, colors.Faint()), at.X, at.Y, to.X, to.Y)
	}
	write(c, style, corner.X, corner.Y-descent(style), name)
}
