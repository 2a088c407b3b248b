package main

import (
	"cmp"
	"errors"
	"path/filepath"

	"llmprof/cmd/llmprof/internal/view"
	"llmprof/models"
	"llmprof/validate"
)

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
		if name == ans.Model.Name { // of a directory or the hub
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
