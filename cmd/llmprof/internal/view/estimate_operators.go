package view

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"llmprof/analytic"
	"llmprof/analytic/breakdown"
	"llmprof/plots/render"
	"llmprof/roofline"
	"llmprof/unit"
)

func (e *Estimate) prefillTable() render.Table {
	return e.phaseTable("Prefill: "+e.prefillText()+e.rankText(), &e.Prefill, e.PrefillOps)
}

func (e *Estimate) decodeTable() render.Table {
	title := fmt.Sprintf("Decode: one step at the mean context of %s tokens%s", trimFloat(e.Context), e.rankText())
	return e.phaseTable(title, &e.Decode, e.DecodeOps)
}

// phaseTable is a phase operator by operator, in the order they run.
func (e *Estimate) phaseTable(title string, p *analytic.Phase, lines []breakdown.Operator) render.Table {
	t := render.Table{Title: title, Columns: []render.Column{
		{Title: "operator", Left: true, Max: 22},
		{Title: "FLOPs", Unit: "FLOP"},
		{Title: "weights", Unit: "B"},
		{Title: "KV/state", Unit: "B"},
		{Title: "acts", Unit: "B", Drop: 3},
		{Title: "wire", Unit: "B", Drop: 1},
		{Title: "FLOP/B", Unit: " ", Fixed: true, Drop: 2},
		{Title: "floor", Unit: "s"},
		{Title: "expected", Unit: "s"},
		{Title: "share", Unit: "%", Fixed: true},
		{Title: "bound", Left: true},
	}}
	shown, others := top(lines, e.Top)
	layers := breakdown.Layers(lines)
	layer := ""
	for i := range shown {
		l := &shown[i]
		if l.Layer != layer {
			layer = l.Layer
			if layer != "" {
				kind := &layers[slices.IndexFunc(layers, func(l breakdown.Layer) bool { return l.Name == layer })]
				t.Rows = append(t.Rows, render.Row{Kind: render.Group, Cells: []any{fmt.Sprintf("%s, %s layers, %v each", layer,
					trimFloat(kind.Count), kind.Expected.Times(1/kind.Count))}})
			}
		}
		t.Add(opCells(l.Name, l, layer != "")...)
	}
	if others != nil {
		t.Add(opCells(others.Name, others, false)...)
	}
	sum := total(lines)
	cells := opCells("sum of operators", &sum, false)
	cells[len(cells)-1] = ""
	t.Rows = append(t.Rows, render.Row{Kind: render.Total, Cells: cells})
	t.Rows = append(t.Rows, render.Row{Kind: render.Total, Cells: []any{"phase", "", "", "", "", "", "", p.Floor, p.Expected, "",
		PaintedBound(p.Bound)}})
	return dropEmpty(t)
}

// opCells is one operator under the columns of a phase.
func opCells(name string, l *breakdown.Operator, indent bool) []any {
	name = strings.Replace(name, "layernorm", "norm", 1) // leaves room for a column
	if indent {
		name = "  " + name
	}
	intensity := any("")
	if l.FLOPs > 0 && l.Traffic() > 0 {
		intensity = l.Intensity()
	}
	expected, bound := any(l.Expected), any(PaintedBound(l.Bound))
	if l.In != "" && l.Share < fusedShare {
		expected, bound = "fused", ""
	}
	return []any{
		name, Some(l.FLOPs), Some(l.Weights), Some(l.KV + l.State), Some(l.Acts), Some(l.Wire),
		intensity, Some(l.Floor), expected, 100 * l.Share, bound,
	}
}

// fusedShare is the share of the phase below which an operator that another's kernel does
// has no time and no bound worth showing. The notes say into which it is fused.
const fusedShare = 0.0005

// top keeps the n lines that take longest, in the order they run, and sums the
// rest.
func top(lines []breakdown.Operator, n int) (shown []breakdown.Operator, others *breakdown.Operator) {
	if n == 0 || n >= len(lines) {
		return lines, nil
	}
	order := make([]int, len(lines))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(lines[b].Expected, lines[a].Expected) })
	keep := order[:n]
	var rest []breakdown.Operator
	for i := range lines {
		if slices.Contains(keep, i) {
			shown = append(shown, lines[i])
		} else {
			rest = append(rest, lines[i])
		}
	}
	sum := total(rest)
	sum.Name = fmt.Sprintf("%d others", len(rest))
	return shown, &sum
}

// total adds lines up; its bound is that of the resource that took longest.
func total(lines []breakdown.Operator) (sum breakdown.Operator) {
	var by [4]unit.Seconds
	for i := range lines {
		l := &lines[i]
		sum.Add(&l.Work, 1)
		sum.Floor += l.Floor
		sum.Expected += l.Expected
		sum.Share += l.Share
		by[int(l.Bound)%len(by)] += l.Expected
	}
	for b := range by {
		if by[b] > by[sum.Bound] {
			sum.Bound = roofline.Bound(b)
		}
	}
	return sum
}

// dropEmpty leaves out the columns in which no operator has anything.
func dropEmpty(t render.Table) render.Table {
	for i := range slices.Backward(t.Columns) {
		if !slices.ContainsFunc(t.Rows, func(r render.Row) bool { return r.Kind == render.Plain && r.Cells[i] != "" }) {
			t.LeaveOut(i)
		}
	}
	return t
}
