package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/report"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/input"
	"llmprof/measure/result"
	"llmprof/models"
	"llmprof/plots"
	"llmprof/validate"
)

// A stored is a result file that becomes a section of the report: of a
// measurement or of another estimate.
type stored struct {
	file     string
	origin   string // source of its observations, if they come with the program
	measured *result.Result
	estimate *view.EstimateDocument
}

// mostResult bounds a result file: beyond any that llmprof writes.
const mostResult = 32 << 20

// readResults reads result files of the kinds that the report knows.
func readResults(files []string) ([]stored, error) {
	var all []stored
	for _, file := range files {
		s, err := readStored(file)
		if err != nil {
			return nil, err
		}
		all = append(all, s)
	}
	return all, nil
}

func readStored(file string) (stored, error) {
	s := stored{file: file}
	data, err := input.Read(file, mostResult)
	if err != nil {
		return s, fmt.Errorf("--results %s: %w", file, input.Cause(err))
	}
	var head struct {
		Schema string `json:"schema"`
	}
	if err := json.Unmarshal(data, &head); err != nil {
		return s, fmt.Errorf("--results %s: not a JSON object: %w", file, err)
	}
	switch head.Schema {
	case result.Schema:
		if s.measured, err = result.Decode(file, data); err == nil {
			s.origin, err = validate.Origin(data)
		}
	case view.EstimateSchema:
		err = json.Unmarshal(data, &s.estimate)
	default:
		err = fmt.Errorf("schema %.80q: want %s or %s", head.Schema, result.Schema, view.EstimateSchema)
	}
	if err != nil {
		return s, fmt.Errorf("--results %s: %w", file, err)
	}
	return s, nil
}

// section is the result beside the estimate of the page.
func (s *stored) section(i int, ans *answer) report.Section {
	id := fmt.Sprintf("result-%d", i+1)
	if s.estimate != nil {
		return ans.BesideEstimate(id, s.estimate)
	}
	return ans.BesideMeasured(id, s.measured, view.ProcessBlocks(s.measured))
}

// operatorParts are the tables and the picture of a result's operators for a
// page, none if it has no operators.
func operatorParts(name string, s *validate.Scorer, r *result.Result, files bool) ([]report.Part, error) {
	phases := s.Operators(r)
	if len(phases) == 0 {
		return nil, nil
	}
	picture, err := view.Picture(name, func() (*plots.Figure, error) { return view.OperatorFigure(s, phases, plots.Replayed) }, files)
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

// observed compares each measured result with the prediction of what it was
// measured on, as "llmprof validate" does. It is nil without such results.
func (a *app) observed(p *paper, ans *answer, results []stored) (*view.Validation, error) {
	v := &view.Validation{}
	var all []validate.Observation
	refused := map[string]error{}
	for i := range results {
		r := &results[i]
		if r.measured == nil {
			continue
		}
		name := filepath.Base(r.file)
		v.Files = append(v.Files, name)
		some, err := validate.Reduce(cmp.Or(r.origin, name), r.measured)
		if err == nil && len(some) == 0 {
			err = errors.New("it holds no time and no energy")
		}
		if err != nil {
			refused[name] = err
		}
		all = append(all, some...)
	}
	if len(v.Files) == 0 {
		return nil, nil //nolint:nilnil // there is nothing to compare, which is no error
	}
	scorer, err := a.scorer(p.Hardware, p.Calibration)
	if err != nil {
		return nil, err
	}
	table := scorer.Model
	scorer.Model = func(name string) (*models.Model, error) {
		if name == ans.Model.Name { // the table has none of a directory or of the hub
			return ans.Model, nil
		}
		return table(name)
	}
	v.Scorer, v.Observations, v.Score = scorer, len(all), scorer.Score(all)
	v.By = differing(v.Score.Rows, validate.ByEngine, validate.ByGPU, validate.ByTP, validate.ByModel)
	for _, name := range v.Files {
		if err := refused[name]; err != nil {
			v.Score.Refuse(name, err)
		}
	}
	return v, nil
}

// differing are the dimensions that rows are not all alike in.
func differing(rows []validate.Row, dims ...validate.Dimension) (some []validate.Dimension) {
	for _, d := range dims {
		if groups := validate.Summarize(rows, d); len(groups) > len(validate.Summarize(rows)) {
			some = append(some, d)
		}
	}
	return some
}
