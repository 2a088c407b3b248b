package plots

import (
	"fmt"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/recorder"
)

// leastLabel is the share of a phase's time from which an operator is named.
const leastLabel = 0.01

// labelPad is the room at both sides of a label.
const labelPad vg.Length = 2

// labels draws the marks and names them, the longest operators first. Marks come
// over leader lines and under text.
func (v *rooflineView) labels(c *draw.Canvas, q *placer, at []vg.Point) {
	style := Sans(TickSize, Ink())
	type label struct {
		text string
		at   vg.Point
	}
	var labels []label
	v.left = 0
	for i, d := range v.dots {
		text := fmt.Sprintf("%s %.0f %%", d.name, 100*d.share)
		w, h := style.Width(text)+2*labelPad, style.Font.Size
		box, ok := vg.Point{}, false
		if d.share >= leastLabel {
			box, ok = q.near(at[i], half(d.mark, radius(d.share)), w, h)
		}
		if !ok {
			v.left++
			continue
		}
		labels = append(labels, label{text, vg.Point{X: box.X + labelPad, Y: box.Y - descent(style)}})
		to := nearest(vg.Rectangle{Min: box, Max: vg.Point{X: box.X + w, Y: box.Y + h}}, at[i])
		c.StrokeLine2(Line(0.4, Faint()), at[i].X, at[i].Y, to.X, to.Y)
	}
	for i, d := range v.dots {
		mark(c, d.mark, at[i], radius(d.share), BoundColor(d.bound))
	}
	for _, l := range labels {
		fill(c, textBox(style, l.at, l.text), Paper()) // no roof runs through text
		c.FillText(style, l.at, l.text)
	}
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
