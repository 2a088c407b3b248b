package main

import (
	"fmt"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/report"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/measure/result"
	"llmprof/plots"
	"llmprof/validate"
)

// operatorParts are the tables and the picture of a result's operators for a
// page, none if it has no operators.
func operatorParts(name string, s *validate.Scorer, r *result.Result, files bool) ([]report.Part, error) {
	phases := s.Operators(r)
	if len(phases) == 0 {
		return nil, nil
	}
	picture, err := view.Picture(name, func() (*plots.Figure, error) { return view.OperatorFigure(gpuName(s), phases) }, files)
	if err != nil {
		return nil, err
	}
	parts := []report.Part{{Picture: picture}}
	for _, b := range view.OperatorBlocks(s, []*result.Result{r}) {
		_, table := b.(render.Table)
		parts = append(parts, report.Part{Block: b, Sortable: table})
	}
	return parts, nil
}

// addOperators adds what a measurement saw of operators to its section.
func (a *app) addOperators(section *report.Section, s *stored, ans *answer, files bool) error {
	if s.measured == nil || s.measured.Operators == nil {
		return nil
	}
	scorer, err := a.scorer(ans.Q.Hardware, ans.Q.Calibration)
	if err != nil {
		return err
	}
	parts, err := operatorParts(section.ID+"-operators", scorer, s.measured, files)
	if err != nil {
		return fmt.Errorf("--results %s: %w", s.file, err)
	}
	section.Parts = append(section.Parts, parts...)
	return nil
}

// gpuName gives a GPU's name as people write it.
func gpuName(s *validate.Scorer) func(key string) string {
	return func(key string) string {
		if g, err := s.GPU(key); err == nil {
			return g.Name
		}
		return key
	}
}
