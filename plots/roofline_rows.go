//go:build !js

package plots

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic/breakdown"
	"llmprof/plots/colors"
	"llmprof/roofline"
)

// A phaseTable is the operators of a phase by time, with those that have no place
// under a roof: norms, all-reduces, the host.
type phaseTable struct {
	mark   Marker
	time   float64 // time of the phase
	rows   []phaseRow
	others int  // operators in the last row, 0 if it is one itself
	timed  bool // operators were measured: what they reach of the roof stands in place of bars
}

// A phaseRow is the operators of one name.
type phaseRow struct {
	name   string
	number int // number of the mark, 0 for none
	bound  roofline.Bound
	time   float64
	share  float64 // share of the phase's time
	ofRoof float64 // rate over that of the data sheet, 0 for none
	timed  float64 // rate over that of the data sheet, by the measured time
}

// mostListed is how many operators of a phase are listed.
const mostListed = 12

// newPhaseTable lists the operators of a phase and numbers the marks of those that
// have one. Small operators have none, and share the last row.
func newPhaseTable(lines []breakdown.Operator, m Marker, ds []dot) phaseTable {
	t := phaseTable{mark: m}
	floor := map[string]float64{}
	var all []phaseRow
	for _, l := range lines {
		if l.Expected <= 0 {
			continue
		}
		t.time += float64(l.Expected)
		floor[l.Name] += float64(l.Floor)
		at := slices.IndexFunc(all, func(r phaseRow) bool { return r.name == l.Name })
		if at < 0 {
			at, all = len(all), append(all, phaseRow{name: l.Name, bound: l.Bound})
		}
		all[at].time += float64(l.Expected)
		all[at].share += l.Share
	}
	slices.SortStableFunc(all, func(a, b phaseRow) int { return cmp.Compare(b.time, a.time) })
	number := 0
	for i, r := range all {
		r.share, r.ofRoof = min(r.share, 1), min(floor[r.name]/r.time, 1)
		listed := i < mostListed && (r.share >= leastLabel || len(all) <= mostListed)
		if d := slices.IndexFunc(ds, func(d dot) bool { return d.name == r.name }); d >= 0 {
			r.bound, r.ofRoof = ds[d].bound, ds[d].ofRoof
			if listed {
				number++
				r.number, ds[d].number = number, number
			}
		}
		switch last := len(t.rows) - 1; {
		case listed:
			t.rows = append(t.rows, r)
		case t.others == 0:
			r.number, r.ofRoof = 0, 0
			t.rows, t.others = append(t.rows, r), 1
		default:
			t.others++
			t.rows[last].time += r.time
			t.rows[last].share = min(t.rows[last].share+r.share, 1)
		}
	}
	if t.others > 0 {
		t.rows[len(t.rows)-1].name = count(t.others, "other operator")
	}
	return t
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
	if t.timed {
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
	for i := range t.rows {
		r := &t.rows[i]
		y -= listedRow
		base := y + listedRow/2 - ascent(text)/2
		ink := colors.Bound(r.bound)
		if t.others > 0 && i == len(t.rows)-1 {
			ink = colors.Faint()
		}
		if r.number > 0 {
			t.badge(c, vg.Point{X: c.Min.X + badge + 0.5, Y: y + listedRow/2}, r.number, ink)
		}
		name := c.Min.X + 2*badge + 5
		nameEnd := barEnd
		if !t.timed {
			nameEnd -= listedBar
		}
		write(c, text, name, base, fit(text, strings.Replace(r.name, "layernorm", "norm", 1), nameEnd-name-3))
		if !t.timed {
			r.bar(c, vg.Point{X: nameEnd, Y: y}, ink)
		}
		ends(text, 0, base, measured(r.time, "s"))
		ends(text, 1, base, percent(r.share))
		if r.ofRoof > 0 {
			ends(text, 2, base, percent(r.ofRoof))
		}
		if r.timed > 0 {
			ends(text, 3, base, percent(r.timed))
		}
	}
}

// bar draws the row's share of the phase's time.
func (r *phaseRow) bar(c *draw.Canvas, at vg.Point, ink colors.Color) {
	bar := rect(at.X, at.Y+3.4, at.X+listedBar, at.Y+listedRow-3.4)
	fill(c, bar, colors.Panel())
	bar.Max.X = bar.Min.X + max(listedBar*vg.Length(min(r.share, 1)), 0.5)
	fill(c, bar, ink)
	outline(c, bar, colors.Faint())
}

func (t *phaseTable) badge(c *draw.Canvas, at vg.Point, number int, ink colors.Color) {
	mark(c, t.mark, at, badge, ink)
	style := Bold(TickSize-0.5, ink.On())
	text := fmt.Sprint(number)
	writeAround(c, style, at.X, at.Y-ascent(style)/2, text)
}
