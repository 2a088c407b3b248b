package plots

import (
	"fmt"
	"math"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/unit"
)

// A part is one group's piece of a bar.
type part struct {
	group  group
	merged int // groups in it, if it is what is left
	value  float64
	share  float64
}

// A bar is a whole and what it is made of.
type bar struct {
	name  string
	total float64
	parts []part
	text  func(float64) string
}

// leastPart is the share below which a group is merged into "other".
const leastPart = 0.01

// Breakdown draws what the parameters, and each phase's FLOPs, memory traffic,
// time and energy are made of: bars from nothing to all, by groups of operators.
func Breakdown(c *analytic.Case, r *breakdown.Report) (*Figure, error) {
	bars, err := breakdownBars(c, r)
	if err != nil {
		return nil, err
	}
	v := &breakdownView{bars: bars}
	v.layOut()
	whose := "one GPU's"
	if c.Parallel.PP > 1 {
		whose = "those of one GPU of each stage"
	}
	f := &Figure{
		Title: "Where parameters, work, time and energy go", Caption: Caption(c), body: v.draw,
		Notes: []string{
			"Each bar is the whole of its total, at its right.",
			"Parameters: all that are stored, the embedding included. FLOPs (of matrix products), traffic and time: " + whose + "; energy: all GPUs of a replica, without what they draw waiting.",
			fmt.Sprintf("Decode: one step at the mean context. Groups below %.0f\u00a0%% are merged into other.", 100*leastPart),
		},
	}
	f.hold(v.height)
	return f, nil
}

// breakdownBars are the bars that have anything in them.
func breakdownBars(c *analytic.Case, r *breakdown.Report) (bars []bar, err error) {
	params := paramsByGroup(c.Model)
	add := func(name string, sums [numGroups]float64, text func(float64) string) {
		b, e := newBar(name, sums, text)
		switch {
		case e != nil && err == nil:
			err = e
		case e == nil && b.total > 0:
			bars = append(bars, b)
		}
	}
	phases := []struct {
		name  string
		lines []breakdown.Operator
	}{{"prefill", r.PrefillOps}, {"decode", r.DecodeOps}}
	add("parameters", params, unit.Count)
	for _, q := range []struct {
		name string
		of   func(*breakdown.Operator) float64
		text func(float64) string
	}{
		{"FLOPs", func(l *breakdown.Operator) float64 { return float64(l.FLOPs) }, func(v float64) string { return measured(v, "FLOP") }},
		{"traffic", func(l *breakdown.Operator) float64 { return float64(l.Traffic()) }, func(v float64) string { return measured(v, "B") }},
		{"time", func(l *breakdown.Operator) float64 { return float64(l.Expected) }, func(v float64) string { return measured(v, "s") }},
		{"energy", func(l *breakdown.Operator) float64 { return float64(l.Energy) }, func(v float64) string { return measured(v, "J") }},
	} {
		for _, p := range phases {
			var sums [numGroups]float64
			for i := range p.lines {
				l := &p.lines[i]
				x := q.of(l)
				if !finite(x) {
					return nil, fmt.Errorf("breakdown: %s of %s operator %q is %v: it must be finite and not negative", q.name, p.name, l.Name, x)
				}
				sums[groupOf(c.Model, l)] += x
			}
			add(p.name+" "+q.name, sums, q.text)
		}
	}
	if err == nil && len(bars) == 0 {
		err = fmt.Errorf("breakdown: every figure is zero, so there is nothing to draw")
	}
	return bars, err
}

// newBar makes shares of sums and merges the small ones.
func newBar(name string, sums [numGroups]float64, text func(float64) string) (bar, error) {
	b := bar{name: name, text: text}
	for _, x := range sums {
		b.total += x
	}
	if !finite(b.total) || !finite(sums[:]...) {
		return b, fmt.Errorf("breakdown: the sum of %s is %v: it must be finite and not negative", name, b.total)
	}
	if b.total == 0 {
		return b, nil
	}
	var rest part
	for g, x := range sums {
		p := part{group: group(g), value: x, share: x / b.total}
		switch {
		case x == 0:
		case p.share < leastPart || p.group == other:
			if rest.group = p.group; rest.merged > 0 {
				rest.group = other
			}
			rest.value += x
			rest.share += p.share
			rest.merged++
		default:
			b.parts = append(b.parts, p)
		}
	}
	if rest.merged > 0 {
		b.parts = append(b.parts, rest)
	}
	return b, nil
}

// name is what a part is called.
func (p *part) name() string {
	if p.merged > 1 {
		return fmt.Sprintf("other (%d)", p.merged)
	}
	return p.group.String()
}

// percent is a share without digits that mean nothing.
func percent(share float64) string {
	p := 100 * share
	if p < 0.95 {
		return "<1 %"
	}
	return fmt.Sprintf("%.0f %%", math.Round(p))
}

// A breakdownView is the layout of the bars.
type breakdownView struct {
	bars   []bar
	below  [][][]label // of each bar, rows of labels that do not fit inside
	height vg.Length
	keys   []key
}

// A label is text at a place in a row below a bar.
type label struct {
	text  string
	group group
	x     vg.Length
}

// The sizes of a breakdown.
const (
	nameColumn  vg.Length = 74
	totalColumn vg.Length = 62
	barHeight   vg.Length = 21
	barGap      vg.Length = 7
	smallRow    vg.Length = 10.5
	barWidth              = Width - 2*Margin - nameColumn - totalColumn
)

func smallText() draw.TextStyle { return Sans(TickSize-0.5, Ink()) }

// layOut finds what has no room inside its bar.
func (v *breakdownView) layOut() {
	var seen [numGroups]bool
	for i := range v.bars {
		b := &v.bars[i]
		rows := b.outside()
		v.below = append(v.below, rows)
		v.height += barHeight + barGap + smallRow*vg.Length(len(rows))
		for _, p := range b.parts {
			seen[p.group] = true
		}
	}
	for g := range numGroups {
		if seen[g] {
			v.keys = append(v.keys, key{g.String(), func(c *draw.Canvas, box vg.Rectangle) {
				g.dress().fill(c, box)
				outline(c, box, Faint())
			}})
		}
	}
	v.height += legendHeight(v.keys, Width-2*Margin)
}
