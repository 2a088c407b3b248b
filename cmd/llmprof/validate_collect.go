package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"llmprof/measure/experiment"
	record "llmprof/measure/result"
	compare "llmprof/validate"
)

// collect reads the results of the points and holds them to the predictions.
func (r *rehearsal) collect() error {
	mine := map[string]*experiment.Trial{}
	for i := range r.trials {
		mine[r.trials[i].ID] = &r.trials[i]
	}
	all, _ := record.ReadFolder(r.v.live.results) // files of others are none of this comparison's
	var seen []compare.Observation
	refused := map[string]error{}
	have := map[string]bool{}
	for _, res := range all {
		t := mine[res.ID]
		if t == nil || res.Provenance.Hash != t.Hash {
			continue
		}
		have[t.ID] = true
		if res.Started.Before(r.kept.Written) {
			r.before++
		}
		some, err := r.observations(t, res)
		if err != nil {
			refused[record.FileName(res.ID, res.Process)] = err
		}
		seen = append(seen, some...)
		if res.Operators != nil {
			r.v.timed = append(r.v.timed, timedResult{record.FileName(res.ID, res.Process), r.v.scorer.Operators(res)})
		}
	}
	for i := range r.trials {
		if t := &r.trials[i]; !have[t.ID] {
			c := pointConfig(&t.Point, r.named[t.Point.Model], r.gpu.Key)
			r.missing = append(r.missing, unmeasured{t.ID, c.String(), r.failure(t)})
		}
	}
	v := r.v
	v.total, v.score = len(seen), v.scorer.Score(seen)
	for name, err := range refused {
		v.score.Refuse(name, err)
	}
	return r.predictions.Hold(v.score.Rows)
}

// failure is what was recorded of a point that has no result.
func (r *rehearsal) failure(t *experiment.Trial) string {
	failures, _ := experiment.Store{Dir: r.v.live.results}.Failures() // a file that cannot be read is one without a reason
	for _, f := range failures {
		if f.ID == t.ID && len(f.Errors) > 0 {
			return f.Errors[0]
		}
	}
	return "no reason was recorded"
}

// observations are those of a result, on the GPU that the predictions are for. A
// point that ran otherwise than it was predicted is refused.
func (r *rehearsal) observations(t *experiment.Trial, res *record.Result) ([]compare.Observation, error) {
	if r.unnamed(res) {
		own := *res
		own.Machine.GPUs = []record.GPU{{Key: r.gpu.Key, Name: r.gpu.Name}}
		res = &own
	}
	data, err := os.ReadFile(filepath.Join(r.v.live.results, record.FileName(res.ID, res.Process)))
	if err != nil {
		return nil, fmt.Errorf("reading a result: %w", err)
	}
	all, err := reduced(r.v.live.results, data, res)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return nil, errors.New("it holds no time and no energy")
	}
	want := pointConfig(&t.Point, r.named[t.Point.Model], r.gpu.Key)
	if got := all[0].Config; got != want {
		return nil, fmt.Errorf("it ran as %s, and was predicted as %s", got.String(), want.String())
	}
	return all, nil
}

// unnamed reports whether a result does not name its GPU itself: it ran on a
// processor, or on a device that the table lacks and --gpu named.
func (r *rehearsal) unnamed(res *record.Result) bool {
	if len(res.Machine.GPUs) == 0 {
		return r.v.live.device == "cpu"
	}
	return r.v.gpu != "" && !slices.ContainsFunc(res.Machine.GPUs, func(g record.GPU) bool { return g.Key != "" })
}
