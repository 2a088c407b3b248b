//go:build !js

package view

import (
	"fmt"
	"time"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/validate/live"
)

// missingNotes lists the points without a result.
func missingNotes(c *live.Comparison) render.Notes {
	n := render.Notes{}
	if len(c.Missing) > 0 {
		n.Title = fmt.Sprintf("Not measured: %d of %d points", len(c.Missing), c.Planned)
	}
	for _, m := range c.Missing {
		n.Items = append(n.Items, fmt.Sprintf("%s (%s): %s", m.Name, m.ID, m.Reason))
	}
	return n
}

// liveFields say which predictions the observations are compared with.
func liveFields(c *live.Comparison) render.Fields {
	k := &c.Kept
	written := fmt.Sprintf("written on %s, before the first measurement", k.Written.Format("2006-01-02 15:04:05 MST"))
	if c.Older > 0 {
		written = fmt.Sprintf("written on %s; %d results are older than they are",
			k.Written.Format("2006-01-02 15:04:05 MST"), c.Older)
	}
	if k.Others > 0 {
		written += fmt.Sprintf("; %d files of other predictions lie beside it", k.Others)
	}
	var calibrations []string
	for _, cal := range c.Predictions.Calibrations {
		calibrations = append(calibrations, cal.Name+": "+cal.Source)
	}
	runs := &c.Runs
	return render.Fields{Title: "Compared with", Rows: []render.Field{
		{Name: "Predictions", Lines: []string{k.File, written}},
		{Name: "SHA-256", Lines: []string{k.SHA256}},
		{Name: "GPU", Lines: []string{fmt.Sprintf("%s = %s", c.GPU.Key, c.GPU.Name)}},
		{Name: "Calibration", Lines: calibrations},
		{Name: "Points", Lines: []string{fmt.Sprintf("%d measured, %d kept from before, %d failed, in %s", runs.Measured, runs.Kept, runs.Failed, c.Results)}},
	}}
}

// A LiveDocument says, for programs, which predictions the observations are compared with.
type LiveDocument struct {
	File         string              `json:"predictions_file"`
	SHA256       string              `json:"sha256"`
	Written      time.Time           `json:"written"`
	Earlier      bool                `json:"earlier"`
	Others       int                 `json:"other_predictions"`
	Older        int                 `json:"older_results"`
	GPU          string              `json:"gpu"`
	Calibrations []string            `json:"calibrations"`
	Points       int                 `json:"points"`
	Measured     int                 `json:"measured"`
	Kept         int                 `json:"kept"`
	Failed       int                 `json:"failed"`
	Missing      []live.MissingPoint `json:"not_measured"`
}

func liveDocument(c *live.Comparison) *LiveDocument {
	j := &LiveDocument{
		File: c.Kept.File, SHA256: c.Kept.SHA256, Written: c.Kept.Written, Earlier: c.Kept.Earlier, Others: c.Kept.Others, Older: c.Older,
		GPU: c.GPU.Key, Calibrations: []string{}, Points: len(c.Predictions.Points),
		Measured: c.Runs.Measured, Kept: c.Runs.Kept, Failed: c.Runs.Failed, Missing: append([]live.MissingPoint{}, c.Missing...),
	}
	for _, cal := range c.Predictions.Calibrations {
		j.Calibrations = append(j.Calibrations, cal.Name)
	}
	return j
}
