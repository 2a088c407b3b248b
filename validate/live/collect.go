package live

import (
	"errors"
	"fmt"
	"slices"

	"llmprof/measure/experiment"
	"llmprof/measure/result"
	"llmprof/validate"
)

// collect reads the results of the points and compares them with the predictions.
func (s *session) collect() error {
	mine := map[string]*experiment.Trial{}
	for i := range s.runs {
		mine[s.runs[i].ID] = &s.runs[i]
	}
	all, _ := result.ReadFolder(s.Results) // files that cannot be read belong to no point of this grid
	var observed []validate.Observation
	refused, have := map[string]error{}, map[string]bool{}
	for _, r := range all {
		t := mine[r.ID]
		if t == nil || r.Provenance.Hash != t.Hash {
			continue
		}
		have[t.ID] = true
		if r.Started.Before(s.made.Kept.Written) {
			s.made.Older++
		}
		file := result.FileName(r.ID, r.Process)
		some, err := s.observations(t, r)
		if err != nil {
			refused[file] = err
		}
		observed = append(observed, some...)
		if r.Operators != nil {
			s.made.Operators = append(s.made.Operators, validate.ResultOperators{File: file, Phases: s.made.Scorer.Operators(r)})
		}
	}
	for i := range s.runs {
		if t := &s.runs[i]; !have[t.ID] {
			c := s.config(t)
			s.made.Missing = append(s.made.Missing, validate.MissingPoint{ID: t.ID, Name: c.String(), Reason: s.failure(t)})
		}
	}
	s.made.Observations, s.made.Score = len(observed), s.made.Scorer.Score(observed)
	for name, err := range refused {
		s.made.Score.Refuse(name, err)
	}
	return s.made.Predictions.Hold(s.made.Score.Rows)
}

// config is the configuration that a point was predicted with.
func (s *session) config(t *experiment.Trial) validate.Config {
	return configOf(&t.Point, s.named[t.Point.Model], s.Target.GPU.Key)
}

// failure is the recorded reason why a point has no result.
func (s *session) failure(t *experiment.Trial) string {
	failures, _ := experiment.Store{Dir: s.Results}.Failures() // a file that cannot be read records no reason
	for _, f := range failures {
		if f.ID == t.ID && len(f.Errors) > 0 {
			return f.Errors[0]
		}
	}
	return "no reason was recorded"
}

// observations reduces a result to observations on the GPU that the predictions are
// for. A result whose configuration is not the predicted one is an error.
func (s *session) observations(t *experiment.Trial, r *result.Result) ([]validate.Observation, error) {
	if s.unnamed(r) {
		own := *r
		own.Machine.GPUs = []result.GPU{{Key: s.Target.GPU.Key, Name: s.Target.GPU.Name}}
		r = &own
	}
	data, err := result.Load(result.Find(s.Results, r.ID, r.Process))
	if err != nil {
		return nil, err
	}
	all, err := validate.ReduceFile(s.Results, data, r)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no time and no energy")
	}
	want := s.config(t)
	if got := all[0].Config; got != want {
		return nil, fmt.Errorf("it ran as %s, and was predicted as %s", got.String(), want.String())
	}
	return all, nil
}

// unnamed reports whether a result does not name its GPU itself: it ran on a
// processor, or on a device that the table does not know and the user named.
func (s *session) unnamed(r *result.Result) bool {
	if len(r.Machine.GPUs) == 0 {
		return s.Target.CPU
	}
	return s.Target.Named && !slices.ContainsFunc(r.Machine.GPUs, func(g result.GPU) bool { return g.Key != "" })
}
