//go:build !js

package view

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"llmprof/analytic/operator"
	"llmprof/plots/render"
	"llmprof/unit"
	"llmprof/validate"
)

// A Validation is predictions beside observations.
type Validation struct {
	Files        []string // files of the observations; none for the embedded observations
	Observations int      // number of observations, with those that are not scored
	By           []validate.Dimension
	Worst        int     // number of rows in the list of the largest errors
	FailOver     float64 // limit of a group's median error, in percent; 0 for none

	Scorer    *validate.Scorer
	Score     *validate.Score
	Operators []validate.ResultOperators
	Sources   []validate.Source
	Live      *validate.Comparison // nil unless the observations were measured for the comparison
}

// Page shows the validation to people.
func (v *Validation) Page() *render.Document {
	d := &render.Document{
		Title: v.title(),
		Blocks: []render.Block{
			v.SummaryTable("Error in %, of observations that nothing was fitted on", false),
			v.SummaryTable("Scored separately: a constant was fitted on these", true),
			v.worstTable(),
			render.Notes{Title: "Not compared", Items: v.Skipped()},
			render.Notes{Title: "To be looked at", Items: v.Findings()},
		},
	}
	d.Blocks = append(d.Blocks, v.operatorBlocks()...)
	if v.Live != nil {
		d.Blocks = append(d.Blocks, missingNotes(v.Live), liveFields(v.Live))
	} else {
		d.Blocks = append(d.Blocks, v.sourceFields())
	}
	return d
}

func (v *Validation) title() string {
	if n := v.Score.Pooled; n > 0 {
		return fmt.Sprintf("%d observations, %d of them compared with their predictions, as medians of %d configurations", v.Observations, n,
			len(v.Score.Rows))
	}
	return fmt.Sprintf("%d observations, %d of them compared with their predictions", v.Observations, len(v.Score.Rows))
}

// SummaryTable has a row for each group and metric, and a row for each metric over
// all groups, of observations that a constant was fitted on or of the others.
func (v *Validation) SummaryTable(title string, fitted bool) render.Table {
	groups, all := validate.Summarize(v.Score.Rows, v.By...), validate.Summarize(v.Score.Rows)
	other := func(s validate.Summary) bool { return s.Fitted != fitted }
	groups, all = slices.DeleteFunc(groups, other), slices.DeleteFunc(all, other)
	t := render.Table{Title: title, Columns: []render.Column{{Title: "metric", Left: true}}}
	for _, d := range v.By {
		t.Columns = append(t.Columns, render.Column{Title: string(d), Left: d != validate.ByTP && d != validate.ByBatch})
	}
	t.Columns = append(t.Columns, render.Column{Title: "n"}, render.Column{Title: "bias", Drop: 1}, render.Column{Title: "median"},
		render.Column{Title: "mean", Drop: 2}, render.Column{Title: "p90"}, render.Column{Title: "inside"},
		render.Column{Title: "repeat", Drop: 2}, render.Column{Title: "noise", Drop: 3})
	for i := range groups {
		t.Add(v.summaryCells(&groups[i])...)
	}
	if len(v.By) == 0 {
		return t // the groups are all of a metric
	}
	for i := range all {
		cells := v.summaryCells(&all[i])
		cells[0] = "all " + MetricTitle(all[i].Metric)
		t.Rows = append(t.Rows, render.Row{Kind: render.Total, Cells: cells})
	}
	return t
}

func (v *Validation) summaryCells(s *validate.Summary) []any {
	cells := []any{MetricTitle(s.Metric)}
	for _, d := range v.By {
		cells = append(cells, groupCell(s, d))
	}
	return append(cells, s.N, render.Percent(s.Bias), render.Percent(s.MedianAPE), render.Percent(s.MeanAPE),
		render.Percent(s.P90APE), as[render.Percent](s.Coverage), as[render.Percent](s.Repeat), as[render.Percent](s.Noise))
}

// MetricTitle is the name of a metric in tables, as "TTFT" or "J/token".
func MetricTitle(m validate.Metric) string {
	switch m {
	case validate.EnergyPerPrompt:
		return "J/prompt"
	case validate.EnergyPerToken:
		return "J/token"
	case validate.EnergyPerRequest:
		return "J/request"
	}
	return strings.ToUpper(strings.TrimSuffix(string(m), "_s"))
}

// groupCell is what the rows of a group have in common in a dimension, which has the name of its key in the JSON.
func groupCell(s *validate.Summary, d validate.Dimension) any {
	all := flatten("", reflect.ValueOf(s.Group))
	return all[slices.IndexFunc(all, func(k namedValue) bool { return k.key == string(d) })].value
}

func (v *Validation) worstTable() render.Table {
	t := render.Table{Title: "Farthest off", Columns: []render.Column{
		{Title: "metric", Left: true}, {Title: "model", Left: true, Max: 18}, {Title: "GPU", Left: true, Max: 14, Drop: 1},
		{Title: "engine", Left: true, Max: 13},
		{Title: "TP"}, {Title: "batch"}, {Title: "tokens"}, {Title: "floor", Drop: 3}, {Title: "predicted"}, {Title: "observed"}, {Title: "%"},
		{Title: "source", Left: true, Drop: 2, Max: 24},
	}}
	for _, r := range v.Score.Worst(v.Worst) {
		t.Add(MetricTitle(r.Metric), r.Model, r.GPU, r.Runs(), r.TP, r.Batch, fmt.Sprintf("%d+%d", r.Prompt, r.Gen), Quantity(r.Metric, r.Floor),
			Quantity(r.Metric, &r.Predicted), Quantity(r.Metric, &r.Value), render.Percent(r.Error), r.Source)
	}
	return t
}

// Quantity gives a figure the unit of its metric.
func Quantity(m validate.Metric, v *float64) any {
	switch {
	case v == nil:
		return nil
	case m.Energy():
		return unit.Joules(*v)
	}
	return unit.Seconds(*v)
}

// Skipped counts the observations that are not compared, by reason and source, with
// an example of each.
func (v *Validation) Skipped() []string {
	group := func(s *validate.Skip) string { return fmt.Sprintf("%s: %s", s.Source, s.Reason) }
	var items []string
	for _, of := range distinct(v.Score.Skipped, group) {
		all := slices.DeleteFunc(slices.Clone(v.Score.Skipped), func(s validate.Skip) bool { return group(&s) != of })
		example := all[0].Detail
		if o := all[0].Observation; o != nil {
			example = o.String() + ": " + example
		}
		items = append(items, fmt.Sprintf("%d of %s (%s)", len(all), of, example))
	}
	return items
}

// Findings are contradictions and impossible figures among the observations.
func (v *Validation) Findings() []string {
	var items []string
	for _, f := range v.Score.Findings {
		items = append(items, f.Kind+": "+f.Detail)
	}
	return items
}

// sourceFields list the sources of the compared observations that come with the program.
func (v *Validation) sourceFields() render.Fields {
	f := render.Fields{Title: "Sources"}
	if len(v.Files) > 0 {
		return f
	}
	for _, s := range v.Sources {
		n := 0
		for i := range v.Score.Rows {
			if v.Score.Rows[i].Source == s.Key {
				n++
			}
		}
		if n > 0 {
			f.Add(s.Key, fmt.Sprintf("%d of %s (%s): %s", n, s.Title, s.Licence, s.How), s.URL)
		}
	}
	return f
}

// Table has a row for each scored observation.
func (v *Validation) Table() *render.Table {
	t := render.Keyed("metric", "model", "gpu", "engine", "mode", "tp", "batch", "prompt_len", "gen_len", "weights", "load", "fitted",
		"observed", "observed_low",
		"observed_high", "predicted", "low", "high", "floor", "error", "source", "id", "marks", "note")
	for _, r := range v.Score.Rows {
		t.Add(string(r.Metric), r.Model, r.GPU, r.Engine, r.Mode, r.TP, r.Batch, r.Prompt, r.Gen, r.Weights, string(r.Load), r.Fitted, r.Value,
			Cell(r.Low), Cell(r.High), r.Predicted, Cell(r.PredictedLow), Cell(r.PredictedHigh), Cell(r.Floor), r.Error,
			r.Source, r.ID, strings.Join(r.Marks, " "), r.Note)
	}
	return t
}

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
	Live         *LiveDocument      `json:"live"`     // predictions that observations of --live are held to; else null

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
	DeviceS       *float64 `json:"observed_device_s" jsonschema:"exclusiveMinimum=0"` // observed time by the device's events
	FloorS        *float64 `json:"floor_s" jsonschema:"exclusiveMinimum=0"`           // least time by the data sheet
	PredictedJ    *float64 `json:"predicted_j" jsonschema:"exclusiveMinimum=0"`       // predicted energy; null for times
	ObservedJ     *float64 `json:"observed_j" jsonschema:"exclusiveMinimum=0"`        // observed energy; null for times
	Error         float64  `json:"error"`                                             // predicted over observed, less 1
	// the observation is inside of the predicted interval; null without one
	Inside *bool `json:"inside"`
	// the observation is faster than the floor: it or the floor is wrong
	BelowFloor bool     `json:"below_floor"`
	Source     string   `json:"source"` // where it is from: a key of sources, or a file
	ID         *string  `json:"id"`     // name of the measurement within the source
	Samples    *int     `json:"samples" jsonschema:"minimum=1"`
	Marks      []string `json:"marks"` // what makes the figure doubtful
	Note       *string  `json:"note"`
}

// A SkipDocument is an observation that was not scored.
type SkipDocument struct {
	Reason string  `json:"reason"` // why it is not compared
	Detail string  `json:"detail"` // reason in full
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
		Operators: []OperatorPhaseDocument{},
	}
	for _, t := range v.Operators {
		for i := range t.Phases {
			j.Operators = append(j.Operators, timedPhase(t.File, &t.Phases[i]))
		}
	}
	for i := range v.Score.Rows {
		j.Rows = append(j.Rows, rowOf(&v.Score.Rows[i]))
	}
	for _, s := range v.Score.Skipped {
		skip := SkipDocument{Reason: string(s.Reason), Detail: s.Detail, Source: s.Source}
		if o := s.Observation; o != nil {
			skip.ID, skip.Metric, skip.Model, skip.GPU, skip.Engine = unit.OrNull(o.ID), new(string(o.Metric)), &o.Model, &o.GPU, new(o.Runs())
		}
		j.Skipped = append(j.Skipped, skip)
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

func missingNotes(c *validate.Comparison) render.Notes {
	n := render.Notes{Title: fmt.Sprintf("Not measured: %d of %d points", len(c.Missing), c.Planned)}
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
	validate.Kept
	// results that were measured before the predictions were written
	Older        int                     `json:"older_results"`
	GPU          string                  `json:"gpu"`                           // key in the table of GPUs
	Calibrations []string                `json:"calibrations"`                  // names of those that the points were predicted with
	Points       int                     `json:"points" jsonschema:"minimum=1"` // points of the grid, those without a prediction included
	Measured     int                     `json:"measured"`                      // runs that were measured now
	Done         int                     `json:"kept"`                          // runs that had their results
	Failed       int                     `json:"failed"`                        // runs that failed
	Missing      []validate.MissingPoint `json:"not_measured"`
}

func liveDocument(c *validate.Comparison) *LiveDocument {
	j := &LiveDocument{
		Kept: c.Kept, Older: c.Older, GPU: c.GPU.Key, Calibrations: []string{}, Points: len(c.Predictions.Points),
		Measured: c.Runs.Measured, Done: c.Runs.Kept, Failed: c.Runs.Failed, Missing: append([]validate.MissingPoint{}, c.Missing...),
	}
	for _, cal := range c.Predictions.Calibrations {
		j.Calibrations = append(j.Calibrations, cal.Name)
	}
	return j
}
