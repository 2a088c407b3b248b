//go:build !js

package plots

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot/vg"

	"llmprof/analytic"
)

// OperatorStep is one prefill or decode step, operator by operator.
type OperatorStep struct {
	Title string          // subject: "decode step at context 1087"
	Ops   []TimedOperator // in the order of the step
	Total []TimedOperator // under a line: their sum, and the whole step
	How   string          // source of the observed times; "" for operators that were replayed
}

// Replayed is what the times of "llmprof measure --ops" are.
const Replayed = "median of each operator of all layers, replayed by itself in a CUDA graph, by the GPU's events"

// A TimedOperator is one operator of all layers: what it took, and what was
// predicted.
type TimedOperator struct {
	Name     string
	Includes []string // operators of the estimate that its kernels do beside it
	Observed float64  // seconds

	// The span is the prediction, all zero if there is none.
	analytic.Span
}

// predicted reports whether there is a prediction.
func (o *TimedOperator) predicted() bool { return o.Expected > 0 }

// Operators draws every operator of a step, predicted beside observed: floor,
// expected with its interval, and observed, on a logarithmic axis of time for
// each step.
func Operators(caption string, steps []OperatorStep) (*Figure, error) {
	v := &operatorsView{}
	predicted := false
	for i := range steps {
		s := &steps[i]
		if len(s.Ops) == 0 {
			return nil, fmt.Errorf("operators: %s has no operators", s.Title)
		}
		p := operatorPanel{OperatorStep: *s}
		for _, o := range s.rows() {
			if err := o.check(); err != nil {
				return nil, err
			}
			predicted = predicted || o.predicted()
			p.span.take(o.Observed, float64(o.Expected), float64(o.High))
			// A floor of nothing but arithmetic is far below any kernel: the axis ends
			// where the least time is, and an arrow says that the floor is beyond.
			p.span.take(float64(o.Low))
		}
		p.span = p.span.padded(1.6, 1.25, 10)
		v.panels = append(v.panels, p)
	}
	if len(v.panels) == 0 {
		return nil, fmt.Errorf("operators: there is nothing to draw")
	}
	v.keys = operatorKeys(predicted)
	f := &Figure{
		Title: "Operators: predicted and observed", Caption: caption, body: v.draw,
		Notes: []string{"Observed: " + cmp.Or(steps[0].How, Replayed) + ". Where one kernel does several operators of the estimate, the prediction is of all of them. " +
			"Share: of the whole. The interval is that of the whole phase. Error: expected over observed, less 1. The axes are logarithmic; a triangle at their left end is a floor beyond it."},
	}
	f.holdOver(v.height(), v.keys)
	return f, nil
}

// rows are the operators and their total.
func (s *OperatorStep) rows() []TimedOperator {
	return slices.Concat(s.Ops, s.Total)
}

// check refuses what no axis can show.
func (o *TimedOperator) check() error {
	if !shown(o.Observed) {
		return fmt.Errorf("operators: %.60q was observed to take %v s: want a time above 0", o.Name, o.Observed)
	}
	if !finite(float64(o.Floor), float64(o.Expected), float64(o.Low), float64(o.High)) || o.predicted() && !(shown(float64(o.Expected)) && o.Low <= o.Expected && o.Expected <= o.High) {
		return fmt.Errorf("operators: %.60q is predicted to take %v (%v to %v, floor %v): want times above 0, in order", o.Name, o.Expected, o.Low, o.High, o.Floor)
	}
	return nil
}

// with is what else a row's kernels do.
func (o *TimedOperator) with() string {
	if len(o.Includes) == 0 {
		return ""
	}
	return "with " + strings.Join(o.Includes, ", ")
}

// figures are the texts on the right of a row: time, its share of the step's, over
// the floor, error.
func (o *TimedOperator) figures(step float64) [4]string {
	out := [4]string{measured(o.Observed, "s"), percent(o.Observed / step)}
	if !o.predicted() {
		return out
	}
	if ratio := o.Observed / float64(o.Floor); o.Floor > 0 && ratio < mostRatio {
		out[2] = fmt.Sprintf("%.2f×", ratio)
	}
	off, digits := 100*(float64(o.Expected)/o.Observed-1), 0
	if math.Abs(off) < 9.95 {
		digits = 1
	}
	out[3] = strings.Replace(fmt.Sprintf("%+.*f %%", digits, off), "-", "−", 1)
	return out
}

// whole is the time that shares are of: that of the step, the last of the totals.
func (s *OperatorStep) whole() float64 {
	if n := len(s.Total); n > 0 {
		return s.Total[n-1].Observed
	}
	sum := 0.0
	for i := range s.Ops {
		sum += s.Ops[i].Observed
	}
	return sum
}

// mostRatio is from where on a ratio to the floor says nothing but that the floor
// is not what the operator waits for.
const mostRatio = 100

// The sizes of a picture of operators.
const (
	operatorNames vg.Length = 134
	operatorRow   vg.Length = 13
	operatorWith  vg.Length = 7.5 // more, where a row says what else its kernels do
	operatorHead  vg.Length = 31  // title and the heads of the columns
	operatorAxis  vg.Length = 24
)

// figureColumns are the widths of the columns on the right.
var figureColumns = [4]vg.Length{41, 35, 42, 36}

// A operatorsView is the panels, one under the other.
type operatorsView struct {
	panels []operatorPanel
	keys   []key
}

// An operatorPanel is one step with its axis.
type operatorPanel struct {
	OperatorStep
	span scope
}

func (o *TimedOperator) height() vg.Length {
	if len(o.Includes) > 0 {
		return operatorRow + operatorWith
	}
	return operatorRow
}

func (p *operatorPanel) height() vg.Length {
	h := operatorHead + operatorAxis
	for _, o := range p.rows() {
		h += o.height()
	}
	return h
}

func (v *operatorsView) height() (h vg.Length) {
	for i := range v.panels {
		h += v.panels[i].height()
	}
	return h
}
