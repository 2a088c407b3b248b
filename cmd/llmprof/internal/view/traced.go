//go:build !js

package view

import (
	"fmt"

	"llmprof/plots"
	"llmprof/plots/render"
	"llmprof/unit"
	"llmprof/validate"
	"llmprof/validate/traced"
)

// Traced is the operators of a profiler's trace beside those of an estimate.
type Traced struct {
	File   string
	Scorer *validate.Scorer
	Phases []traced.Phase
}

// Page shows the operators to people.
func (t *Traced) Page() *render.Document {
	d := &render.Document{Title: "Operators of a trace: " + t.Phases[0].Config.String()}
	for i := range t.Phases {
		p := &t.Phases[i]
		table := operatorTable(&p.OperatorPhase)
		table.Title += fmt.Sprintf(", batch %d, the mean of %s", p.Config.Batch, several(p.Steps, "step"))
		d.Blocks = append(d.Blocks, table, othersTable(p), tracedNotes(p))
	}
	return d
}

// mostOthers are listed of what no operator explains.
const mostOthers = 12

// othersTable lists what no operator of the estimate explains.
func othersTable(p *traced.Phase) render.Table {
	t := render.Table{Title: "Not an operator of the estimate", Columns: []render.Column{
		{Title: "what", Left: true, Max: 60}, {Title: "kernels"}, {Title: "time"}, {Title: "of the step", Unit: "%", Fixed: true, Places: 2},
		{Title: "", Left: true},
	}}
	row := func(kind render.RowKind, name string, kernels any, seconds float64, remark string) {
		t.Rows = append(t.Rows, render.Row{Kind: kind, Cells: []any{name, kernels, unit.Seconds(seconds), 100 * seconds / p.Span, remark}})
	}
	row(render.Plain, "idle", nil, p.Idle(), "no kernel runs")
	rest, kernels := 0.0, 0
	for i, o := range p.Others {
		if i >= mostOthers {
			rest, kernels = rest+o.Seconds, kernels+o.Kernels
			continue
		}
		remark := ""
		if !o.Known {
			remark = "unknown kernel"
		}
		row(render.Plain, o.Name, o.Kernels, o.Seconds, remark)
	}
	if kernels > 0 {
		row(render.Plain, "others", kernels, rest, "")
	}
	row(render.Total, "in all", nil, p.Idle()+othersTime(p), "")
	return t
}

func othersTime(p *traced.Phase) (sum float64) {
	for _, o := range p.Others {
		sum += o.Seconds
	}
	return sum
}

// tracedNotes say how the trace was read.
func tracedNotes(p *traced.Phase) render.Notes {
	by := "its kernels were launched one by one"
	if p.Graph {
		by = "CUDA graphs launched its layers"
	}
	n := render.Notes{Items: []string{fmt.Sprintf("A %s takes %v from its first kernel to the next step's: %v of kernels, %v of them at "+
		"the same time as others, %v idle; %s.",
		phaseName(&p.OperatorPhase), unit.Seconds(p.Span), unit.Seconds(p.Sum.Observed+othersTime(p)), unit.Seconds(p.Overlap),
		unit.Seconds(p.Idle()), by)}}
	if p.Partial > 0 {
		n.Items = append(n.Items, fmt.Sprintf("Left out, for layers are missing: %s.", several(p.Partial, "step")))
	}
	if len(p.Untimed) > 0 {
		n.Items = append(n.Items, fmt.Sprintf("Of the estimate, not found: %s", joined(p.Untimed)))
	}
	if p.Throttled > 0 {
		n.Items = append(n.Items, fmt.Sprintf("Of the expected time, %v are the power limit's, where such steps follow each other for a "+
			"second; a trace of one may not reach it.", p.Throttled))
	}
	if !p.Graph {
		n.Items = append(n.Items, "A profiler slows the host: where kernels are launched one by one, idle time is longer than without it.")
	}
	for _, text := range p.Impossible() {
		n.Items = append(n.Items, "Faster than its floor, so the trace is of something else, or the floor is wrong: "+text)
	}
	return n
}

// Table has a row for each operator, for programs.
func (t *Traced) Table() *render.Table {
	out := render.Keyed("phase", "operator", "kernels", "observed_s", "predicted_s", "floor_s", "share")
	for i := range t.Phases {
		d := tracedPhase(&t.Phases[i])
		for _, o := range d.Ops {
			out.Add(d.Phase, o.Name, o.Kernels, unit.Seconds(o.ObservedS), as[unit.Seconds](o.PredictedS), as[unit.Seconds](o.FloorS),
				o.ObservedS/d.SpanS)
		}
		for _, o := range d.Others {
			out.Add(d.Phase, o.Name, o.Kernels, unit.Seconds(o.ObservedS), nil, nil, o.Share)
		}
		out.Add(d.Phase, "idle", nil, unit.Seconds(d.IdleS), nil, nil, d.IdleS/d.SpanS)
	}
	return out
}

// Chart draws the operators.
func (t *Traced) Chart() (*plots.Figure, error) {
	var phases []validate.OperatorPhase
	for i := range t.Phases {
		phases = append(phases, t.Phases[i].OperatorPhase)
	}
	return OperatorFigure(t.Scorer, phases, "the mean of a profiler's trace, in a step, of the kernels of each operator")
}

// tracedSchema names the form of a trace's JSON.
const tracedSchema = "llmprof.validate-trace/v1"

// A TracedDocument is the operators of a trace, for programs.
type TracedDocument struct {
	Schema string                `json:"schema"`
	File   string                `json:"file"`
	Phases []TracedPhaseDocument `json:"phases"`
}

// A TracedPhaseDocument is the steps of a kind.
type TracedPhaseDocument struct {
	OperatorPhaseDocument
	Weights  string                `json:"weights"`
	TP       int                   `json:"tp" jsonschema:"minimum=1"`
	Steps    int                   `json:"steps" jsonschema:"minimum=1"`  // whole ones, of which the times are the mean
	Partial  int                   `json:"partial_steps"`                 // left out, for layers are missing
	Graph    bool                  `json:"cuda_graph"`                    // CUDA graphs launched the layers
	SpanS    float64               `json:"span_s" jsonschema:"minimum=0"` // from a step's first kernel to the next step's
	BusyS    float64               `json:"busy_s" jsonschema:"minimum=0"` // in which a kernel ran
	IdleS    float64               `json:"idle_s" jsonschema:"minimum=0"`
	OverlapS float64               `json:"overlap_s" jsonschema:"minimum=0"` // by which kernels ran side by side
	Others   []TracedOtherDocument `json:"others"`
}

// A TracedOtherDocument is kernels that no operator explains.
type TracedOtherDocument struct {
	Name      string  `json:"name"`
	Known     bool    `json:"known"` // The purpose of the kernels is known.
	Kernels   int     `json:"kernels"`
	ObservedS float64 `json:"observed_s" jsonschema:"minimum=0"`
	Share     float64 `json:"share" jsonschema:"minimum=0"` // share of the step
}

// Document is all of the comparison.
func (t *Traced) Document() TracedDocument {
	d := TracedDocument{Schema: tracedSchema, File: t.File, Phases: []TracedPhaseDocument{}}
	for i := range t.Phases {
		d.Phases = append(d.Phases, tracedPhase(&t.Phases[i]))
	}
	return d
}

func tracedPhase(p *traced.Phase) TracedPhaseDocument {
	d := TracedPhaseDocument{
		OperatorPhaseDocument: timedPhase("", &p.OperatorPhase), Weights: p.Config.Weights, TP: p.Config.TP, Steps: p.Steps, Partial: p.Partial,
		Graph: p.Graph,
		SpanS: p.Span, BusyS: p.Busy, IdleS: p.Idle(), OverlapS: p.Overlap, Others: []TracedOtherDocument{},
	}
	for _, o := range p.Others {
		d.Others = append(d.Others, TracedOtherDocument{Name: o.Name, Known: o.Known, Kernels: o.Kernels, ObservedS: o.Seconds,
			Share: o.Seconds / p.Span})
	}
	return d
}
