//go:build !js

package view

import (
	"fmt"
	"strings"

	"llmprof/analytic/operator"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/roofline"
	"llmprof/unit"
	"llmprof/validate"
)

// OperatorBlocks compare the operators of results with the estimate's, a table for
// each phase. Results without operators give no table.
func OperatorBlocks(s *validate.Scorer, results []*result.Result) (blocks []render.Block) {
	for _, r := range results {
		for _, p := range s.Operators(r) {
			blocks = append(blocks, operatorTable(&p), operatorNotes(&p))
		}
	}
	return blocks
}

func phaseName(p *validate.OperatorPhase) string {
	if p.Decode {
		return fmt.Sprintf("decode step at context %d", p.Context)
	}
	return "prefill"
}

// operatorTable has a row for each operator of a step, one for their sum and one for
// the whole step.
func operatorTable(p *validate.OperatorPhase) render.Table {
	t := render.Table{Title: "Operators of a " + phaseName(p), Columns: []render.Column{
		{Title: "operator", Left: true, Max: 24}, {Title: "layers", Drop: 4}, {Title: "kernels", Drop: 5}, {Title: "observed"}, {Title: "floor"},
		{Title: "expected"},
		{Title: "× floor", Unit: " ", Fixed: true, Places: 2}, {Title: "error", Unit: "%", Fixed: true},
		{Title: "bandwidth", Unit: "B/s", Drop: 1}, {Title: "FLOP/s", Unit: "FLOP/s", Drop: 2},
		{Title: "bound", Left: true, Drop: 3},
	}}
	for i := range p.Rows {
		t.Add(operatorCells(&p.Rows[i])...)
	}
	for _, row := range []validate.OperatorRow{p.Sum, p.Step} {
		cells := operatorCells(&row)
		cells[1], cells[10] = "", ""
		t.Rows = append(t.Rows, render.Row{Kind: render.Total, Cells: cells})
	}
	return t
}

func operatorCells(r *validate.OperatorRow) []any {
	name := strings.Replace(r.Name, "layernorm", "norm", 1) // leaves room for a column
	cells := []any{name, r.Layers, r.Kernels, unit.Seconds(r.Observed), "", "", "", "", "", "", ""}
	p := r.Predicted
	if p == nil {
		return cells
	}
	cells[4], cells[5], cells[7], cells[10] = Some(p.Floor), p.Expected, 100*r.Error(), PaintedBound(p.Bound)
	if over := r.OverFloor(); over > 0 && over < mostOver {
		cells[6] = over
	}
	if p.Bytes > 0 {
		cells[8] = r.Bandwidth()
	}
	if p.FLOPs > 0 {
		cells[9] = r.Rate()
	}
	return cells
}

// mostOver bounds the ratio to the floor that is shown. A larger one says only that
// the operator is bound by something that the floor does not count.
const mostOver = 100

// operatorNotes say how to read the table, and which figures are suspicious.
func operatorNotes(p *validate.OperatorPhase) render.Notes {
	whole, why := "prefill", "It runs without a graph."
	if p.Decode {
		whole, why = "step", "In it a kernel can begin while another operator's ends."
	}
	n := render.Notes{Items: []string{fmt.Sprintf("The operators sum to %v, the %s takes %v: %+.1f %%. %s",
		unit.Seconds(p.Sum.Observed), whole, unit.Seconds(p.Step.Observed), 100*p.Off(), why)}}
	var fused []string
	for i := range p.Rows {
		if r := &p.Rows[i]; len(r.Includes) > 0 {
			fused = append(fused, r.Name+" does "+strings.Join(r.Includes, ", ")+" too")
		}
	}
	if len(fused) > 0 {
		n.Items = append(n.Items, strings.Join(fused, "; ")+"; what is predicted is of all of them")
	}
	if p.Why != nil {
		n.Items = append(n.Items, "Nothing is predicted: "+p.Why.Error())
	}
	if len(p.Untimed) > 0 {
		n.Items = append(n.Items, "Of the estimate, not timed: "+strings.Join(p.Untimed, ", "))
	}
	for _, text := range p.Impossible() {
		n.Items = append(n.Items, "Faster than its floor, so the measurement or the floor is wrong: "+text)
	}
	return n
}

// OperatorFigure draws the phases of one result. How says what the observed times are.
func OperatorFigure(s *validate.Scorer, phases []validate.OperatorPhase, how string) (*plots.Figure, error) {
	var steps []plots.OperatorStep
	for i := range phases {
		p := &phases[i]
		total := []plots.TimedOperator{timedOperator(&p.Sum), timedOperator(&p.Step)}
		step := plots.OperatorStep{Title: "A " + phaseName(p), Total: total, How: how}
		if !p.Decode {
			step.Title = fmt.Sprintf("A prefill of %d tokens a sequence", p.Config.Prompt)
		}
		for k := range p.Rows {
			step.Ops = append(step.Ops, timedOperator(&p.Rows[k]))
		}
		steps = append(steps, step)
	}
	if len(phases) == 0 {
		return nil, fmt.Errorf("there are no operators to draw")
	}
	c := &phases[0].Config
	board := s.GPUName(c.GPU)
	if c.TP > 1 {
		board = fmt.Sprintf("%s · TP %d", board, c.TP)
	}
	parts := []string{c.Model, board, c.Runs(), fmt.Sprintf("batch %d", c.Batch), fmt.Sprintf("prompt %d, %d generated", c.Prompt, c.Gen),
		c.Weights, "llmprof"}
	if phases[0].Why != nil {
		parts = []string{"nothing is predicted: " + phases[0].Why.Error(), "llmprof"}
	}
	return plots.Operators(strings.Join(parts, " · "), steps)
}

func timedOperator(r *validate.OperatorRow) plots.TimedOperator {
	o := plots.TimedOperator{Name: r.Name, Includes: r.Includes, Observed: r.Observed}
	if r.Predicted != nil {
		o.Span = r.Predicted.Span
	}
	return o
}

// OperatorChart draws the operators of the one result that has some.
func (v *Validation) OperatorChart() (*plots.Figure, error) {
	switch n := len(v.Operators); {
	case n == 0 && len(v.Files) == 0:
		return nil, fmt.Errorf("no observation that comes with the program is of operators; give a result file of \"llmprof measure --ops\"")
	case n == 0:
		return nil, fmt.Errorf("none of the results holds operators; \"llmprof measure --ops\" times them")
	case n > 1:
		var names []string
		for _, t := range v.Operators {
			names = append(names, t.File)
		}
		return nil, fmt.Errorf("%d results hold operators (%s): give one of them, or a model and a GPU that only one of them has", n,
			strings.Join(names, ", "))
	}
	return OperatorFigure(v.Scorer, v.Operators[0].Phases, plots.Replayed)
}

func (v *Validation) operatorBlocks() (blocks []render.Block) {
	for _, t := range v.Operators {
		for i := range t.Phases {
			p := &t.Phases[i]
			table := operatorTable(p)
			table.Title += ", " + p.Config.String() + " (" + t.File + ")"
			blocks = append(blocks, table, operatorNotes(p))
		}
	}
	return blocks
}

// An OperatorPhaseDocument is the operators of one step, for programs.
type OperatorPhaseDocument struct {
	ID     string `json:"id"`                                          // file of the result
	Phase  string `json:"phase" jsonschema:"enum=prefill,enum=decode"` // what the step is
	Model  string `json:"model"`
	GPU    string `json:"gpu"`
	Engine string `json:"engine"` // engine with its mode
	operator.Workload
	Context int                `json:"context"` // tokens of a sequence in the cache before the step
	SumS    float64            `json:"sum_s"`   // of the operators' medians
	StepS   float64            `json:"step_s"`  // median of the whole step
	Off     float64            `json:"off"`     // sum over step, less 1
	Ops     []OperatorDocument `json:"ops"`     // in the order of the step
	Untimed []string           `json:"untimed"` // operators of the estimate that none of these is
	Reason  *string            `json:"reason"`  // nothing is predicted
}

// An OperatorDocument is one operator of all layers, for programs.
type OperatorDocument struct {
	Name       string          `json:"name"`        // of the estimate's operator
	Includes   []string        `json:"includes"`    // others of the estimate's that its kernels do beside it; the prediction is of all of them
	Layers     int             `json:"layers"`      // that have it; 1 for what the model has once
	Kernels    int             `json:"kernels"`     // launched in a step
	ObservedS  float64         `json:"observed_s"`  // in a step, the mean over the steps
	PredictedS *float64        `json:"predicted_s"` // expected time; null if the estimate has no such operator
	LowS       *float64        `json:"low_s"`       // lower end of the 90 % interval, that of the phase
	HighS      *float64        `json:"high_s"`      // upper end
	FloorS     *float64        `json:"floor_s"`     // nothing is faster
	Error      *float64        `json:"error"`       // predicted over observed, less 1
	Bytes      *float64        `json:"bytes"`       // between memory and the chip
	FLOPs      *float64        `json:"flops"`       // of matrix products
	Bound      *roofline.Bound `json:"bound"`       // what it is predicted to wait for
}

func timedPhase(id string, p *validate.OperatorPhase) OperatorPhaseDocument {
	c := &p.Config
	j := OperatorPhaseDocument{
		ID: id, Phase: "prefill", Model: c.Model, GPU: c.GPU, Engine: c.Runs(),
		Workload: operator.Workload{Batch: c.Batch, PromptLen: c.Prompt, GenLen: c.Gen}, Context: p.Context,
		SumS: p.Sum.Observed, StepS: p.Step.Observed, Off: p.Off(), Ops: []OperatorDocument{}, Untimed: append([]string{}, p.Untimed...),
	}
	if p.Decode {
		j.Phase = "decode"
	}
	if p.Why != nil {
		j.Reason = unit.OrNull(p.Why.Error())
	}
	for _, r := range p.Rows {
		o := OperatorDocument{Name: r.Name, Includes: append([]string{}, r.Includes...), Layers: r.Layers, Kernels: r.Kernels,
			ObservedS: r.Observed}
		if q := r.Predicted; q != nil {
			o.PredictedS, o.LowS, o.HighS, o.FloorS = new(float64(q.Expected)), new(float64(q.Low)), new(float64(q.High)), new(float64(q.Floor))
			o.Error, o.Bytes, o.FLOPs, o.Bound = new(r.Error()), new(float64(q.Bytes)), new(float64(q.FLOPs)), new(q.Bound)
		}
		j.Ops = append(j.Ops, o)
	}
	return j
}
