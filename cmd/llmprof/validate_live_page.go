package main

import (
	"fmt"
	"time"

	"llmprof/cmd/llmprof/internal/render"
)

// missed are the points without a result, by name.
func (r *rehearsal) missed() render.Notes {
	n := render.Notes{}
	if len(r.missing) > 0 {
		n.Title = fmt.Sprintf("Not measured: %d of %d points", len(r.missing), len(r.predictions.Points)*max(r.exp.Cycles, 1))
	}
	for _, m := range r.missing {
		n.Items = append(n.Items, fmt.Sprintf("%s (%s): %s", m.name, m.id, m.why))
	}
	return n
}

// fields say which predictions the observations are held to.
func (r *rehearsal) fields() render.Fields {
	k := &r.kept
	written := fmt.Sprintf("written on %s, before the first measurement", k.Written.Format("2006-01-02 15:04:05 MST"))
	if r.before > 0 {
		written = fmt.Sprintf("written on %s; %d results are older, so that they were not foretold",
			k.Written.Format("2006-01-02 15:04:05 MST"), r.before)
	}
	if k.Others > 0 {
		written += fmt.Sprintf("; %d files of other predictions lie beside it", k.Others)
	}
	o := &r.outcome
	var calibrations []string
	for _, c := range r.predictions.Calibrations {
		calibrations = append(calibrations, c.Name+": "+c.Source)
	}
	return render.Fields{Title: "Held to", Rows: []render.Field{
		{Name: "Predictions", Lines: []string{k.File, written}},
		{Name: "SHA-256", Lines: []string{k.SHA256}},
		{Name: "GPU", Lines: []string{fmt.Sprintf("%s = %s", r.gpu.Key, r.gpu.Name)}},
		{Name: "Calibration", Lines: calibrations},
		{Name: "Points", Lines: []string{fmt.Sprintf("%d measured, %d kept from before, %d failed, in %s", o.Measured, o.Kept, o.Failed, r.v.live.results)}},
	}}
}

// A liveJSON says which predictions the observations are held to, for programs.
type liveJSON struct {
	File         string        `json:"predictions_file"`
	SHA256       string        `json:"sha256"`
	Written      time.Time     `json:"written"`
	Earlier      bool          `json:"earlier"`
	Others       int           `json:"other_predictions"`
	Older        int           `json:"older_results"`
	GPU          string        `json:"gpu"`
	Calibrations []string      `json:"calibrations"`
	Points       int           `json:"points"`
	Measured     int           `json:"measured"`
	Kept         int           `json:"kept"`
	Failed       int           `json:"failed"`
	Missing      []missingJSON `json:"not_measured"`
}

type missingJSON struct {
	ID     string `json:"id"`
	Name   string `json:"name"`
	Reason string `json:"reason"`
}

func (r *rehearsal) json() *liveJSON {
	j := &liveJSON{
		File: r.kept.File, SHA256: r.kept.SHA256, Written: r.kept.Written, Earlier: r.kept.Earlier, Others: r.kept.Others, Older: r.before,
		GPU: r.gpu.Key, Calibrations: []string{}, Points: len(r.predictions.Points),
		Measured: r.outcome.Measured, Kept: r.outcome.Kept, Failed: r.outcome.Failed, Missing: []missingJSON{},
	}
	for _, c := range r.predictions.Calibrations {
		j.Calibrations = append(j.Calibrations, c.Name)
	}
	for _, m := range r.missing {
		j.Missing = append(j.Missing, missingJSON{m.id, m.name, m.why})
	}
	return j
}
