//go:build !js

package view

import (
	"fmt"
	"time"

	"llmprof/analytic/operator"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/validate"
)

// validateSchema names the form of a validation's JSON, which
// docs/schema/validate.v1.json describes.
const validateSchema = "llmprof.validate/v1"

// A ValidationDocument is a validation for programs.
type ValidationDocument struct {
	Schema       string             `json:"schema"`
	Observations int                `json:"observations"` // number of observations, with those not compared
	FailOver     *float64           `json:"fail_over_percent"`
	Summary      []validate.Summary `json:"summary"`
	Rows         []RowDocument      `json:"rows"`
	Skipped      []SkipDocument     `json:"skipped"`
	Findings     []validate.Finding `json:"findings"`
	Sources      []validate.Source  `json:"sources"`
	Live         *LiveDocument      `json:"live"`

	Operators []OperatorPhaseDocument `json:"operators"`
}

// A RowDocument is one observation beside its prediction.
type RowDocument struct {
	Metric string  `json:"metric"`
	Engine string  `json:"engine"`
	Mode   *string `json:"mode"`
	GPU    string  `json:"gpu"`
	TP     int     `json:"tp"`
	Model  string  `json:"model"`
	operator.Workload
	Weights       string   `json:"weights"`
	Load          string   `json:"load"`
	Fitted        bool     `json:"fitted"`
	FittedBy      *string  `json:"fitted_constant"`
	PredictedS    *float64 `json:"predicted_s"`
	LowS          *float64 `json:"low_s"`
	HighS         *float64 `json:"high_s"`
	ObservedS     *float64 `json:"observed_s"`
	ObservedLowS  *float64 `json:"observed_low_s"`
	ObservedHighS *float64 `json:"observed_high_s"`
	DeviceS       *float64 `json:"observed_device_s"`
	FloorS        *float64 `json:"floor_s"`
	PredictedJ    *float64 `json:"predicted_j"`
	ObservedJ     *float64 `json:"observed_j"`
	Error         float64  `json:"error"`
	Inside        *bool    `json:"inside"`
	BelowFloor    bool     `json:"below_floor"`
	Source        string   `json:"source"`
	ID            *string  `json:"id"`
	Samples       *int     `json:"samples"`
	Marks         []string `json:"marks"`
	Note          *string  `json:"note"`
}

// A SkipDocument is an observation that was not scored.
type SkipDocument struct {
	Reason string  `json:"reason"`
	Detail string  `json:"detail"`
	Source string  `json:"source"`
	ID     *string `json:"id"`
	Metric *string `json:"metric"`
	Model  *string `json:"model"`
	GPU    *string `json:"gpu"`
	Engine *string `json:"engine"`
}

// JSON is the document of the validation, for programs.
func (v *Validation) JSON() any {
	j := &ValidationDocument{
		Schema: validateSchema, Observations: v.Observations, FailOver: OrNull(v.FailOver),
		Summary: append([]validate.Summary{}, validate.Summarize(v.Score.Rows, v.By...)...), Rows: []RowDocument{},
		Skipped: []SkipDocument{}, Findings: append([]validate.Finding{}, v.Score.Findings...), Sources: []validate.Source{},
		Operators: v.operatorsJSON(),
	}
	for i := range v.Score.Rows {
		j.Rows = append(j.Rows, rowOf(&v.Score.Rows[i]))
	}
	for i := range v.Score.Skipped {
		j.Skipped = append(j.Skipped, skipOf(&v.Score.Skipped[i]))
	}
	if v.Live != nil {
		j.Live = liveDocument(v.Live)
	} else if len(v.Files) == 0 {
		j.Sources = append(j.Sources, v.Sources...)
	}
	return j
}

func rowOf(r *validate.Row) RowDocument {
	j := RowDocument{
		Metric: string(r.Metric), Engine: r.Engine, Mode: OrNull(r.Mode), GPU: r.GPU, TP: r.TP, Model: r.Model,
		Workload: operator.Workload{Batch: r.Batch, PromptLen: r.Prompt, GenLen: r.Gen}, Weights: r.Weights, Load: string(r.Load),
		Fitted: r.Fitted != "", FittedBy: OrNull(r.Fitted), Error: r.Error, BelowFloor: r.FasterThanFloor,
		Source: r.Source, ID: OrNull(r.ID), Samples: OrNull(r.Samples), Marks: append([]string{}, r.Marks...), Note: OrNull(r.Note),
	}
	if inside, ok := r.Inside(); ok {
		j.Inside = &inside
	}
	if r.Metric.Energy() {
		j.PredictedJ, j.ObservedJ = &r.Predicted, &r.Value
		return j
	}
	j.PredictedS, j.LowS, j.HighS, j.FloorS = &r.Predicted, r.PredictedLow, r.PredictedHigh, r.Floor
	j.ObservedS, j.ObservedLowS, j.ObservedHighS, j.DeviceS = &r.Value, r.Low, r.High, r.Device
	return j
}

func skipOf(s *validate.Skip) SkipDocument {
	j := SkipDocument{Reason: string(s.Reason), Detail: s.Detail, Source: s.Source}
	if o := s.Observation; o != nil {
		metric, runs := string(o.Metric), o.Runs()
		j.ID, j.Metric, j.Model, j.GPU, j.Engine = OrNull(o.ID), &metric, &o.Model, &o.GPU, &runs
	}
	return j
}

func missingNotes(c *validate.Comparison) render.Notes {
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
func liveFields(c *validate.Comparison) render.Fields {
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
		{Name: "Points", Lines: []string{fmt.Sprintf("%d measured, %d kept from before, %d failed, in %s", runs.Measured, runs.Kept, runs.Failed,
			c.Results)}},
	}}
}

// A LiveDocument says, for programs, which predictions the observations are compared with.
type LiveDocument struct {
	File         string                  `json:"predictions_file"`
	SHA256       string                  `json:"sha256"`
	Written      time.Time               `json:"written"`
	Earlier      bool                    `json:"earlier"`
	Others       int                     `json:"other_predictions"`
	Older        int                     `json:"older_results"`
	GPU          string                  `json:"gpu"`
	Calibrations []string                `json:"calibrations"`
	Points       int                     `json:"points"`
	Measured     int                     `json:"measured"`
	Kept         int                     `json:"kept"`
	Failed       int                     `json:"failed"`
	Missing      []validate.MissingPoint `json:"not_measured"`
}

func liveDocument(c *validate.Comparison) *LiveDocument {
	j := &LiveDocument{
		File: c.Kept.File, SHA256: c.Kept.SHA256, Written: c.Kept.Written, Earlier: c.Kept.Earlier, Others: c.Kept.Others, Older: c.Older,
		GPU: c.GPU.Key, Calibrations: []string{}, Points: len(c.Predictions.Points),
		Measured: c.Runs.Measured, Kept: c.Runs.Kept, Failed: c.Runs.Failed, Missing: append([]validate.MissingPoint{}, c.Missing...),
	}
	for _, cal := range c.Predictions.Calibrations {
		j.Calibrations = append(j.Calibrations, cal.Name)
	}
	return j
}
