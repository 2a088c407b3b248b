//go:build !js

package view

import (
	"fmt"
	"strings"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/plots"
	"llmprof/validate"
	"llmprof/workload"
)

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
		return nil, fmt.Errorf("%d results hold operators (%s): give one of them, or a model and a GPU that only one of them has", n, strings.Join(names, ", "))
	}
	return OperatorFigure(v.Scorer, v.Operators[0].Phases, plots.Replayed)
}

// operatorBlocks are the operator tables of all results.
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
	ID     string `json:"id"`
	Phase  string `json:"phase"`
	Model  string `json:"model"`
	GPU    string `json:"gpu"`
	Engine string `json:"engine"`
	workload.Workload
	Context int                `json:"context"`
	SumS    float64            `json:"sum_s"`
	StepS   float64            `json:"step_s"`
	Off     float64            `json:"off"` // sum over step, less 1
	Ops     []OperatorDocument `json:"ops"`
	Untimed []string           `json:"untimed"`
	Reason  *string            `json:"reason"` // nothing is predicted
}

// An OperatorDocument is one operator of all layers, for programs.
type OperatorDocument struct {
	Name       string   `json:"name"`
	Includes   []string `json:"includes"`
	Layers     int      `json:"layers"`
	Kernels    int      `json:"kernels"`
	ObservedS  float64  `json:"observed_s"`
	PredictedS *float64 `json:"predicted_s"`
	LowS       *float64 `json:"low_s"`
	HighS      *float64 `json:"high_s"`
	FloorS     *float64 `json:"floor_s"`
	Error      *float64 `json:"error"`
	Bytes      *float64 `json:"bytes"`
	FLOPs      *float64 `json:"flops"`
	Bound      *string  `json:"bound"`
}

// operatorsJSON lists the phases of all results.
func (v *Validation) operatorsJSON() []OperatorPhaseDocument {
	all := []OperatorPhaseDocument{}
	for _, t := range v.Operators {
		for i := range t.Phases {
			all = append(all, timedPhase(t.File, &t.Phases[i]))
		}
	}
	return all
}

func timedPhase(id string, p *validate.OperatorPhase) OperatorPhaseDocument {
	c := &p.Config
	j := OperatorPhaseDocument{
		ID: id, Phase: "prefill", Model: c.Model, GPU: c.GPU, Engine: c.Runs(), Workload: workload.Workload{Batch: c.Batch, PromptLen: c.Prompt, GenLen: c.Gen}, Context: p.Context,
		SumS: p.Sum.Observed, StepS: p.Step.Observed, Off: p.Off(), Ops: []OperatorDocument{}, Untimed: append([]string{}, p.Untimed...),
	}
	if p.Decode {
		j.Phase = "decode"
	}
	if p.Why != nil {
		j.Reason = OrNull(p.Why.Error())
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		o := OperatorDocument{Name: r.Name, Includes: append([]string{}, r.Includes...), Layers: r.Layers, Kernels: r.Kernels, ObservedS: r.Observed}
		if q := r.Predicted; q != nil {
			o.PredictedS, o.LowS, o.HighS, o.FloorS = new(float64(q.Expected)), new(float64(q.Low)), new(float64(q.High)), new(float64(q.Floor))
			o.Error, o.Bytes, o.FLOPs, o.Bound = new(r.Error()), new(float64(q.Bytes)), new(float64(q.FLOPs)), new(q.Bound.String())
		}
		j.Ops = append(j.Ops, o)
	}
	return j
}
