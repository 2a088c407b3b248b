//go:build !js

package view

import (
	"fmt"
	"time"

	"llmprof/analytic/operator"
	"llmprof/plots/render"
	"llmprof/unit"
	"llmprof/validate"
)

// validateSchema names the form of a validation's JSON, which
// "llmprof schema validate" shows.
const validateSchema = "llmprof.validate/v1"

// A ValidationDocument is a validation for programs.
type ValidationDocument struct {
	Schema       string             `json:"schema"`
	Observations int                `json:"observations"` // number of observations, with those not compared
	FailOver     *float64           `json:"fail_over_percent" jsonschema:"exclusiveMinimum=0"`
	Summary      []validate.Summary `json:"summary"`  // how far off the predictions of each group are
	Rows         []RowDocument      `json:"rows"`     // each observation beside its prediction
	Skipped      []SkipDocument     `json:"skipped"`  // what is not compared, and why
	Findings     []validate.Finding `json:"findings"` // what a reader has to know of the observations
	Sources      []validate.Source  `json:"sources"`  // where embedded observations are from; empty for files
	Live         *LiveDocument      `json:"live"`     // of --live: which predictions the observations are held to; else null

	Operators []OperatorPhaseDocument `json:"operators"` // the steps whose operators were timed, of results that hold them
}

// A RowDocument is one observation beside its prediction.
type RowDocument struct {
	// what was observed; the name ends in its unit
	Metric validate.Metric `json:"metric"`
	// what ran it
	Engine string `json:"engine"`
	// graph or eager, where the engine has both
	Mode *string `json:"mode"`
	// key in the table of GPUs
	GPU string `json:"gpu"`
	// tensor parallelism
	TP    int    `json:"tp" jsonschema:"minimum=1"`
	Model string `json:"model"`
	operator.Workload
	Weights string `json:"weights"` // scheme of the weights
	// a batch that starts together, or clients that each send a request when the last is answered: of one length, or of lengths of 0.8 to 1
	// times the longest
	Load       string   `json:"load" jsonschema:"enum=static,enum=closed,enum=closed-varied"`
	Fitted     bool     `json:"fitted"` // a constant of the theory was fitted on it
	FittedBy   *string  `json:"fitted_constant"`
	PredictedS *float64 `json:"predicted_s" jsonschema:"exclusiveMinimum=0"` // expected time; null for energies
	LowS       *float64 `json:"low_s" jsonschema:"exclusiveMinimum=0"`       // 90 % interval of the prediction
	HighS      *float64 `json:"high_s" jsonschema:"exclusiveMinimum=0"`      // 90 % interval of the prediction
	// observed time, of repeats the median; null for energies
	ObservedS     *float64 `json:"observed_s" jsonschema:"exclusiveMinimum=0"`
	ObservedLowS  *float64 `json:"observed_low_s" jsonschema:"exclusiveMinimum=0"`    // 95 % interval of the median
	ObservedHighS *float64 `json:"observed_high_s" jsonschema:"exclusiveMinimum=0"`   // 95 % interval of the median
	DeviceS       *float64 `json:"observed_device_s" jsonschema:"exclusiveMinimum=0"` // the same time by the device's events
	FloorS        *float64 `json:"floor_s" jsonschema:"exclusiveMinimum=0"`           // least time by the data sheet
	PredictedJ    *float64 `json:"predicted_j" jsonschema:"exclusiveMinimum=0"`       // predicted energy; null for times
	ObservedJ     *float64 `json:"observed_j" jsonschema:"exclusiveMinimum=0"`        // observed energy; null for times
	Error         float64  `json:"error"`                                             // predicted over observed, less 1
	// the observation is inside of the predicted interval; null without one
	Inside *bool `json:"inside"`
	// the observation is faster than the floor: it or the floor is wrong
	BelowFloor bool     `json:"below_floor"`
	Source     string   `json:"source"` // where it is from: a key of sources, or a file
	ID         *string  `json:"id"`     // of the measurement within the source
	Samples    *int     `json:"samples" jsonschema:"minimum=1"`
	Marks      []string `json:"marks"` // what makes the figure doubtful
	Note       *string  `json:"note"`
}

// A SkipDocument is an observation that was not scored.
type SkipDocument struct {
	Reason string  `json:"reason"` // why it is not compared
	Detail string  `json:"detail"` // the same in full
	Source string  `json:"source"` // where it is from
	ID     *string `json:"id"`
	Metric *string `json:"metric"` // what was observed; null for a whole file
	Model  *string `json:"model"`
	GPU    *string `json:"gpu"`
	Engine *string `json:"engine"` // engine with its mode
}

// JSON is the document of the validation, for programs.
func (v *Validation) JSON() any {
	j := &ValidationDocument{
		Schema: validateSchema, Observations: v.Observations, FailOver: unit.OrNull(v.FailOver),
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
		Metric: r.Metric, Engine: r.Engine, Mode: unit.OrNull(r.Mode), GPU: r.GPU, TP: r.TP, Model: r.Model,
		Workload: operator.Workload{Batch: r.Batch, PromptLen: r.Prompt, GenLen: r.Gen}, Weights: r.Weights, Load: string(r.Load),
		Fitted: r.Fitted != "", FittedBy: unit.OrNull(r.Fitted), Error: r.Error, BelowFloor: r.FasterThanFloor,
		Source: r.Source, ID: unit.OrNull(r.ID), Samples: unit.OrNull(r.Samples), Marks: append([]string{}, r.Marks...),
		Note: unit.OrNull(r.Note),
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
		j.ID, j.Metric, j.Model, j.GPU, j.Engine = unit.OrNull(o.ID), &metric, &o.Model, &o.GPU, &runs
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
	File    string    `json:"predictions_file"`                           // of the form llmprof.predictions/v1
	SHA256  string    `json:"sha256" jsonschema:"pattern=^[0-9a-f]{64}$"` // of its content, and in its name
	Written time.Time `json:"written"`
	Earlier bool      `json:"earlier"`           // the file was there, with the same predictions
	Others  int       `json:"other_predictions"` // files of other predictions in the folder
	// results that were measured before the predictions were written
	Older        int                     `json:"older_results"`
	GPU          string                  `json:"gpu"`                           // key in the table of GPUs
	Calibrations []string                `json:"calibrations"`                  // names of those that the points were predicted with
	Points       int                     `json:"points" jsonschema:"minimum=1"` // of the grid, those without a prediction included
	Measured     int                     `json:"measured"`                      // runs that were measured now
	Kept         int                     `json:"kept"`                          // runs that had their results
	Failed       int                     `json:"failed"`                        // runs that failed
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
