package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"llmprof/cmd/llmprof/internal/render"
	record "llmprof/measure/result"
	"llmprof/plots"
	compare "llmprof/validate"
)

// A timedResult is a result file that holds operators.
type timedResult struct {
	id     string
	phases []compare.OperatorPhase
}

// operators reads those of the given files that the flags ask for. Files that are
// no whole results were refused already.
func (v *validation) operators() ([]timedResult, error) {
	if len(v.files) == 0 {
		return nil, nil
	}
	paths, err := expand(v.files)
	if err != nil {
		return nil, err
	}
	want := v.scorer.Canonical(compare.Config{Model: v.model, GPU: v.gpu})
	var all []timedResult
	for _, path := range paths {
		if strings.EqualFold(filepath.Ext(path), ".csv") {
			continue
		}
		r, err := record.Read(path)
		if err != nil || r.Operators == nil {
			continue
		}
		phases := v.scorer.Operators(r)
		c := &phases[0].Config
		if v.model != "" && c.Model != want.Model || v.gpu != "" && c.GPU != want.GPU ||
			v.engine != "" && !strings.EqualFold(c.Engine, v.engine) && !strings.EqualFold(c.Runs(), v.engine) {
			continue
		}
		all = append(all, timedResult{record.FileName(r.ID, r.Process), phases})
	}
	return all, nil
}

// operatorPicture is the operators of the one result that holds some.
func (v *validation) operatorPicture() (*plots.Figure, error) {
	switch n := len(v.timed); {
	case n == 0 && len(v.files) == 0:
		return nil, fmt.Errorf("--chart ops: no observation that comes with the program is of operators; give a result file of \"llmprof measure --ops\"")
	case n == 0:
		return nil, fmt.Errorf("--chart ops: none of the results holds operators; \"llmprof measure --ops\" times them")
	case n > 1:
		var names []string
		for _, t := range v.timed {
			names = append(names, t.id)
		}
		return nil, fmt.Errorf("--chart ops: %d results hold operators (%s): give one of them, or --model and --gpu that only one has", n, strings.Join(names, ", "))
	}
	return operatorFigure(v.gpuName, v.timed[0].phases)
}

// operatorBlocks are the tables of all results that hold operators.
func (v *validation) operatorBlocks() (blocks []render.Block) {
	for _, t := range v.timed {
		for i := range t.phases {
			p := &t.phases[i]
			table := operatorTable(p)
			table.Title += ", " + p.Config.String() + " (" + t.id + ")"
			blocks = append(blocks, table, operatorNotes(p))
		}
	}
	return blocks
}

// An operatorPhaseJSON is the operators of one step, for programs.
type operatorPhaseJSON struct {
	ID        string         `json:"id"`
	Phase     string         `json:"phase"`
	Model     string         `json:"model"`
	GPU       string         `json:"gpu"`
	Engine    string         `json:"engine"`
	Batch     int            `json:"batch"`
	PromptLen int            `json:"prompt_len"`
	GenLen    int            `json:"gen_len"`
	Context   int            `json:"context"`
	SumS      float64        `json:"sum_s"`
	StepS     float64        `json:"step_s"`
	Off       float64        `json:"off"` // sum over step, less 1
	Ops       []operatorJSON `json:"ops"`
	Untimed   []string       `json:"untimed"`
	Reason    *string        `json:"reason"` // nothing is predicted
}

type operatorJSON struct {
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

// operatorsJSON are all phases of all results.
func (v *validation) operatorsJSON() []operatorPhaseJSON {
	all := []operatorPhaseJSON{}
	for _, t := range v.timed {
		for i := range t.phases {
			all = append(all, timedPhase(t.id, &t.phases[i]))
		}
	}
	return all
}

func timedPhase(id string, p *compare.OperatorPhase) operatorPhaseJSON {
	c := &p.Config
	j := operatorPhaseJSON{
		ID: id, Phase: "prefill", Model: c.Model, GPU: c.GPU, Engine: c.Runs(), Batch: c.Batch, PromptLen: c.Prompt, GenLen: c.Gen, Context: p.Context,
		SumS: p.Sum.Observed, StepS: p.Step.Observed, Off: p.Off(), Ops: []operatorJSON{}, Untimed: append([]string{}, p.Untimed...),
	}
	if p.Decode {
		j.Phase = "decode"
	}
	if p.Why != nil {
		j.Reason = orNull(p.Why.Error())
	}
	for i := range p.Rows {
		r := &p.Rows[i]
		o := operatorJSON{Name: r.Name, Includes: append([]string{}, r.Includes...), Layers: r.Layers, Kernels: r.Kernels, ObservedS: r.Observed}
		if q := r.Predicted; q != nil {
			number := func(x float64) *float64 { return &x }
			bound := q.Bound.String()
			o.PredictedS, o.LowS, o.HighS, o.FloorS = number(float64(q.Expected)), number(float64(q.Low)), number(float64(q.High)), number(float64(q.Floor))
			o.Error, o.Bytes, o.FLOPs, o.Bound = number(r.Error()), number(float64(q.Bytes)), number(float64(q.FLOPs)), &bound
		}
		j.Ops = append(j.Ops, o)
	}
	return j
}
