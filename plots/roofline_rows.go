//go:build !js

package plots

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
)

// A phaseTable is the operators of a phase by time, with those that have no place
// under a roof: norms, all-reduces, the host.
type phaseTable struct {
	mark   Marker
	time   float64 // time of the phase
	rows   []*dot
	others int // operators in the last row, 0 if it is one itself
}

// mostListed is how many operators of a phase are listed.
const mostListed = 12

// newPhaseTable lists the operators of a phase and numbers the marks of those that
// have one. Small operators have none, and share the last row.
func newPhaseTable(all []*dot, m Marker) phaseTable {
	t := phaseTable{mark: m}
	all = slices.DeleteFunc(slices.Clone(all), func(d *dot) bool { return d.time <= 0 })
	slices.SortStableFunc(all, func(a, b *dot) int { return cmp.Compare(b.time, a.time) })
	number, rest := 0, &dot{}
	for i, d := range all {
		t.time += d.time
		if i < mostListed && (d.share >= leastLabel || len(all) <= mostListed) {
			t.rows = append(t.rows, d)
			if d.marked() {
				number++
				d.number = number
			}
			continue
		}
		t.others++
		rest.time += d.time
		rest.share = min(rest.share+d.share, 1)
	}
	if t.others > 0 {
		rest.name = count(t.others, "other operator")
		t.rows = append(t.rows, rest)
	}
	return t
}

// timed reports whether operators were measured: what they reach of the roof stands in place of bars then.
func (t *phaseTable) timed() bool {
	return slices.ContainsFunc(t.rows, func(d *dot) bool { return d.timed > 0 })
}

// The sizes of the table under a roofline.
const (
	phaseHead  vg.Length = 17
	listedRow  vg.Length = 12.6
	badge      vg.Length = 5.3 // radius
	phaseGap   vg.Length = 14
	timeWide   vg.Length = 34
	shareWide  vg.Length = 24
	ofRoofWide vg.Length = 31
	listedBar  vg.Length = 34
)

func (t *phaseTable) height() vg.Length { return phaseHead + listedRow*vg.Length(len(t.rows)) }

func (t *phaseTable) draw(c *draw.Canvas) {
	title, head, text := Bold(LabelSize, colors.Ink()), Sans(TickSize-0.5, colors.Faint()), Sans(TickSize, colors.Ink())
	right, heads := []vg.Length{c.Max.X - ofRoofWide - shareWide, c.Max.X - ofRoofWide, c.Max.X}, []string{"time", "share", "of roof"}
	if t.timed() {
		for i := range right {
			right[i] -= listedBar
		}
		right, heads = append(right, c.Max.X), append(heads, "measured")
	}
	ends := func(s draw.TextStyle, i int, y vg.Length, text string) {
		writeUpTo(c, s, right[i], y, text)
	}
	write(c, title, c.Min.X, c.Max.Y-ascent(title), t.mark.phase()+": "+measured(t.time, "s"))
	for i, h := range heads {
		ends(head, i, c.Max.Y-phaseHead+6, h)
	}
	y := c.Max.Y - phaseHead
	c.StrokeLine2(Line(0.6, colors.Faint()), c.Min.X, y+2, c.Max.X, y+2)
	barEnd := right[0] - timeWide
	for i, r := range t.rows {
		y -= listedRow
		base := y + listedRow/2 - ascent(text)/2
		ink, others := colors.Bound(r.bound), t.others > 0 && i == len(t.rows)-1
		if others {
			ink = colors.Faint()
		}
		if r.number > 0 {
			t.badge(c, vg.Point{X: c.Min.X + badge + 0.5, Y: y + listedRow/2}, r.number, ink)
		}
		name := c.Min.X + 2*badge + 5
		nameEnd := barEnd
		if !t.timed() {
			nameEnd -= listedBar
		}
		write(c, text, name, base, fit(text, strings.Replace(r.name, "layernorm", "norm", 1), nameEnd-name-3))
		if !t.timed() {
			r.bar(c, vg.Point{X: nameEnd, Y: y}, ink)
		}
		ends(text, 0, base, measured(r.time, "s"))
		ends(text, 1, base, percent(r.share))
		if reached := r.ofRoof(); reached > 0 && !others {
			ends(text, 2, base, percent(reached))
		}
		if r.timed > 0 {
			ends(text, 3, base, percent(r.timed))
		}
	}
}

// bar draws the row's share of the phase's time.
func (d *dot) bar(c *draw.Canvas, at vg.Point, ink colors.Color) {
	bar := rect(at.X, at.Y+3.4, at.X+listedBar, at.Y+listedRow-3.4)
	fill(c, bar, colors.Panel())
	bar.Max.X = bar.Min.X + max(listedBar*vg.Length(min(d.share, 1)), 0.5)
	fill(c, bar, ink)
	outline(c, bar, colors.Faint())
}

func (t *phaseTable) badge(c *draw.Canvas, at vg.Point, number int, ink colors.Color) {
	mark(c, t.mark, at, badge, ink)
	style := Bold(TickSize-0.5, ink.On())
	text := fmt.Sprint(number)
	writeAround(c, style, at.X, at.Y-ascent(style)/2, text)
}
