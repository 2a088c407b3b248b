//go:build !js

package plots

import (
	"fmt"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/plots/colors"
	"llmprof/roofline"
	"llmprof/unit"
)

// A segment is what one group of operators has of a column: all of it has one colour,
// or, of time, each resource that it waits for.
type segment struct {
	value   float64
	byBound [roofline.NumBounds]float64
}

// A quantity is a whole and what it is made of.
type quantity struct {
	section string // "time"
	phase   string // "prefill", "" for what has none
	total   float64
	pieces  [numGroups]segment
	text    func(float64) string
	paint   paintOf
}

// A paintOf says how the bars of a column are coloured.
type paintOf uint8

const (
	neutral paintOf = iota
	asCompute
	asMemory
	byBound
)

// leastPart is the share of every column below which a group is merged into "other".
const leastPart = 0.01

// Breakdown draws what the parameters, and each phase's FLOPs, memory traffic,
// time and energy are made of: a table with a row for each group of operators, a
// column for each quantity and a bar in each cell.
func Breakdown(c *analytic.Case, r *breakdown.Report) (*Figure, error) {
	columns, err := breakdownColumns(c, r)
	if err != nil {
		return nil, err
	}
	v := &breakdownView{columns: columns}
	v.layOut()
	whose := "of one GPU"
	if c.Parallel.PP > 1 {
		whose = "of one GPU of each stage"
	}
	f := &Figure{
		Title: "Where parameters, work, time and energy go", Caption: Caption(c), body: v.draw,
		Notes: []string{
			"Bars are shares of the total at the head of their column. Parameters: of the whole model. FLOPs (of matrix products), memory " +
				"traffic and time: " + whose +
				". Energy: of all GPUs of a replica, without what they draw while they wait. Decode: one step at the mean context.",
		},
	}
	if v.merged > 0 {
		f.Notes = append(f.Notes, fmt.Sprintf("Other: %s below %.0f\u00a0%% of every column.", count(v.merged, "group"), 100*leastPart))
	}
	f.hold(v.height)
	return f, nil
}

func breakdownColumns(c *analytic.Case, r *breakdown.Report) (columns []quantity, err error) {
	params := quantity{section: "params", text: unit.Count}
	for g, n := range paramsByGroup(c.Model) {
		params.pieces[g].value = n
	}
	all := []quantity{params}
	for _, q := range []struct {
		name  string
		of    func(*breakdown.Operator) float64
		unit  string
		paint paintOf
	}{
		{"FLOPs", func(l *breakdown.Operator) float64 { return float64(l.FLOPs) }, "", asCompute},
		{"memory traffic", func(l *breakdown.Operator) float64 { return float64(l.Traffic()) }, "B", asMemory},
		{"time", func(l *breakdown.Operator) float64 { return float64(l.Expected) }, "s", byBound},
		{"energy", func(l *breakdown.Operator) float64 { return float64(l.Energy) }, "J", neutral},
	} {
		for _, p := range []struct {
			name  string
			lines []breakdown.Operator
		}{{"prefill", r.PrefillOps}, {"decode", r.DecodeOps}} {
			col := quantity{section: q.name, phase: p.name, paint: q.paint, text: func(v float64) string { return measured(v, q.unit) }}
			for i := range p.lines {
				l := &p.lines[i]
				x := q.of(l)
				if !finite(x) {
					return nil, fmt.Errorf("breakdown: %s of %s operator %q is %v: it must be finite and not negative", q.name, p.name, l.Name, x)
				}
				piece := &col.pieces[groupOf(c.Model, l)]
				piece.value += x
				piece.byBound[min(l.Bound, roofline.ByLaunch)] += x
			}
			all = append(all, col)
		}
	}
	for i := range all {
		if err := all[i].sum(); err != nil {
			return nil, err
		}
		if all[i].total > 0 {
			columns = append(columns, all[i])
		}
	}
	if len(columns) == 0 {
		return nil, fmt.Errorf("breakdown: every figure is zero, so there is nothing to draw")
	}
	return columns, nil
}

func (c *quantity) sum() error {
	for g := range c.pieces {
		if v := c.pieces[g].value; !finite(v) {
			return fmt.Errorf("breakdown: %s of %v is %v: it must be finite and not negative", c.section, group(g), v)
		}
		c.total += c.pieces[g].value
	}
	if !finite(c.total) {
		return fmt.Errorf("breakdown: the sum of %s %s is %v: it must be finite and not negative", c.phase, c.section, c.total)
	}
	return nil
}

// A breakdownView is the layout of the table.
type breakdownView struct {
	columns []quantity
	rows    []group
	merged  int         // groups in other
	left    []vg.Length // offset of each column from the left border
	width   vg.Length   // width of a cell
	height  vg.Length
	keys    []key
}

// The sizes of a breakdown.
const (
	nameColumn    vg.Length = 82
	columnGap     vg.Length = 6
	sectionGap    vg.Length = 13
	widestColumn  vg.Length = 64
	breakdownHead vg.Length = 37
	breakdownRow  vg.Length = 16.5
	shareBar      vg.Length = 4.6 // the height of a bar
)

// layOut chooses the rows and the places of the columns.
func (v *breakdownView) layOut() {
	v.merge()
	gaps := vg.Length(0)
	v.left = make([]vg.Length, len(v.columns))
	for i := range v.columns {
		if i > 0 && v.columns[i].section == v.columns[i-1].section {
			gaps += columnGap
		} else if i > 0 {
			gaps += sectionGap
		}
		v.left[i] = nameColumn + gaps
	}
	v.width = min((Width-2*Margin-nameColumn-gaps)/vg.Length(len(v.columns)), widestColumn)
	for i := range v.left {
		v.left[i] += v.width * vg.Length(i)
	}
	var bounds []roofline.Bound
	for b := range roofline.NumBounds {
		for i := range v.columns {
			if v.columns[i].paint == byBound && v.columns[i].waits(b) {
				bounds = append(bounds, b)
				break
			}
		}
	}
	v.keys = boundKeys(bounds...)
	v.height = breakdownHead + breakdownRow*vg.Length(len(v.rows)) + 3
	if len(v.keys) > 0 {
		v.height += legendHeight(v.keys, Width-2*Margin)
	}
}

// waits reports whether any time of the column waits for a resource.
func (c *quantity) waits(b roofline.Bound) bool {
	for g := range c.pieces {
		if c.pieces[g].byBound[b] > 0 {
			return true
		}
	}
	return false
}

// merge chooses the groups that have a row, and adds the others up in "other".
func (v *breakdownView) merge() {
	for g := range other {
		most, some := 0.0, false
		for i := range v.columns {
			most = max(most, v.columns[i].pieces[g].value/v.columns[i].total)
			some = some || v.columns[i].pieces[g].value > 0
		}
		if most >= leastPart {
			v.rows = append(v.rows, g)
			continue
		}
		if some {
			v.merged++
		}
		for i := range v.columns {
			v.columns[i].pieces[other].add(&v.columns[i].pieces[g])
		}
	}
	for i := range v.columns {
		if v.columns[i].pieces[other].value > 0 {
			v.rows = append(v.rows, other)
			return
		}
	}
}

func (p *segment) add(q *segment) {
	p.value += q.value
	for b := range p.byBound {
		p.byBound[b] += q.byBound[b]
	}
}

func (v *breakdownView) draw(c draw.Canvas) {
	v.heads(&c)
	y := c.Max.Y - breakdownHead
	name := Sans(LabelSize-0.3, colors.Ink())
	for _, g := range v.rows {
		write(&c, name, c.Min.X, y-breakdownRow/2-ascent(name)/2, g.String())
		for i := range v.columns {
			v.columns[i].cell(&c, g, vg.Point{X: c.Min.X + v.left[i], Y: y}, v.width)
		}
		y -= breakdownRow
		c.StrokeLine2(Line(0.4, colors.Rule()), c.Min.X, y+0.8, c.Max.X, y+0.8)
	}
	legend(&c, v.keys)
}

// heads names the quantities, the phases under them, and the totals.
func (v *breakdownView) heads(c *draw.Canvas) {
	section, phase, total := Bold(LabelSize, colors.Ink()), Sans(TickSize-0.5, colors.Faint()), Bold(TickSize, colors.Ink())
	for i := range v.columns {
		col, x := &v.columns[i], c.Min.X+v.left[i]
		if i == 0 || v.columns[i-1].section != col.section {
			write(c, section, x, c.Max.Y-ascent(section), col.section)
		}
		write(c, phase, x, c.Max.Y-18, col.phase)
		write(c, total, x, c.Max.Y-29, col.text(col.total))
	}
	y := c.Max.Y - breakdownHead + 2.5
	c.StrokeLine2(Line(0.7, colors.Faint()), c.Min.X, y, c.Max.X, y)
	write(c, total, c.Min.X, c.Max.Y-29, "total")
}

// cell draws what a group has of a column: its share, and a bar of it.
func (c *quantity) cell(to *draw.Canvas, g group, at vg.Point, width vg.Length) {
	bar := vg.Rectangle{Min: vg.Point{X: at.X, Y: at.Y - breakdownRow + 3.2}}
	bar.Max = vg.Point{X: at.X + width, Y: bar.Min.Y + shareBar}
	p := &c.pieces[g]
	if p.value <= 0 {
		return
	}
	fill(to, bar, colors.Panel())
	style := Sans(TickSize-0.5, colors.Ink())
	write(to, style, at.X, bar.Max.Y+1.8, percent(p.value/c.total))
	x := bar.Min.X
	for _, part := range c.parts(p) {
		w := width * vg.Length(part.value/c.total)
		fill(to, rect(x, bar.Min.Y, x+max(w, 0.4), bar.Max.Y), part.ink)
		outline(to, rect(x, bar.Min.Y, x+max(w, 0.4), bar.Max.Y), colors.Faint())
		x += w
	}
}

// A part is a piece of a bar in one colour.
type part struct {
	value float64
	ink   colors.Color
}

// parts are the colours of a piece: of time those of the resources that it waits
// for, of FLOPs and traffic those of compute and memory.
func (c *quantity) parts(p *segment) (all []part) {
	switch c.paint {
	case asCompute:
		return []part{{p.value, colors.Bound(roofline.ByCompute)}}
	case asMemory:
		return []part{{p.value, colors.Bound(roofline.ByMemory)}}
	case neutral:
		return []part{{p.value, colors.Faint()}}
	}
	for b, x := range p.byBound {
		if x > 0 {
			all = append(all, part{x, colors.Bound(roofline.Bound(b))})
		}
	}
	return all
}
