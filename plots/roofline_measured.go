//go:build !js

package plots

import (
	"fmt"
	"strings"

	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"llmprof/plots/colors"
	"llmprof/unit"
)

// A MeasuredOperator is an operator as it was timed.
type MeasuredOperator struct {
	Name     string
	Decode   bool
	FLOPs    unit.FLOPs // FLOPs of GEMMs
	Bytes    unit.Bytes // between memory and the chip
	Observed float64    // seconds
}

// overRoof is by how much a mark may be over its roof, for the digits that times are kept with.
const overRoof = 1.001

// measure adds the marks of operators that were timed, and says which have none.
func (v *rooflineView) measure(all []MeasuredOperator) (notes []string, err error) {
	var over, without []string
	for i := range all {
		m := &all[i]
		if m.FLOPs == 0 || m.Bytes == 0 {
			continue
		}
		if !finite(float64(m.FLOPs), float64(m.Bytes), m.Observed) || m.Observed <= 0 {
			return nil, fmt.Errorf("roofline: %q was measured with %v FLOPs and %v bytes in %v s: all must be finite, and the time above 0", m.Name,
				m.FLOPs, m.Bytes, m.Observed)
		}
		d := v.predicted(m)
		timed := &dot{name: m.Name, flops: float64(m.FLOPs), traffic: float64(m.Bytes), time: m.Observed}
		if d == nil || !timed.marked() {
			without = append(without, m.Name)
			continue
		}
		timed.mark, timed.roof = d.mark, d.roof
		if part := timed.y() / d.roof.at(timed.x(), false); part > overRoof {
			over = append(over, fmt.Sprintf("%s (%s, %.2f of the roof)", m.Name, d.mark.phase(), part))
			continue
		}
		d.timed = timed.ofRoof()
		v.measured = append(v.measured, timed)
	}
	if len(over) > 0 {
		notes = append(notes, "Left out, for it would be over the roof, as where data stayed in a cache or another GPU was timed: "+strings.Join(
			over, ", ")+".")
	}
	if len(without) > 0 {
		notes = append(notes, "Measured, and no operator of the estimate: "+strings.Join(without, ", ")+".")
	}
	if len(v.measured) == 0 {
		return nil, fmt.Errorf("roofline: no measured operator has FLOPs and a place under the roof: %s", strings.Join(notes, " "))
	}
	return append(notes, "Measured: FLOPs by observed time at the tip of the mark, and what that is of the roof."), nil
}

// predicted is the mark of the same operator and phase in the estimate, nil if there is none.
func (v *rooflineView) predicted(m *MeasuredOperator) *dot {
	mark := prefillMark
	if m.Decode {
		mark = decodeMark
	}
	for _, d := range v.dots {
		if d.name == m.Name && d.mark == mark && d.roof != nil {
			return d
		}
	}
	return nil
}

// The size of the mark of a measured operator.
const markHigh, markWide vg.Length = 5, 2.4

// arrow draws the mark of a measured operator: a triangle whose tip is its performance, so
// that all of it is below the roof.
func arrow(c *draw.Canvas, tip vg.Point) {
	triangle := []vg.Point{tip, {X: tip.X - markWide, Y: tip.Y - markHigh}, {X: tip.X + markWide, Y: tip.Y - markHigh}}
	c.FillPolygon(colors.Ink(), triangle)
	c.StrokeLines(Line(0.5, colors.Paper()), append(triangle, tip))
}
