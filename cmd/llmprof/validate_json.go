package main

import compare "llmprof/validate"

// validateSchema names the form of a comparison's JSON, which
// schema/validate.v1.json describes.
const validateSchema = "llmprof.validate/v1"

// A validateJSON is a comparison for programs.
type validateJSON struct {
	Schema       string        `json:"schema"`
	Observations int           `json:"observations"` // those not compared included
	FailOver     *float64      `json:"fail_over_percent"`
	Summary      []summaryJSON `json:"summary"`
	Rows         []rowJSON     `json:"rows"`
	Skipped      []skipJSON    `json:"skipped"`
	Findings     []findingJSON `json:"findings"`
	Sources      []sourceJSON  `json:"sources"`

	Operators []operatorPhaseJSON `json:"operators"`
}

type summaryJSON struct {
	Metric    string   `json:"metric"`
	Engine    *string  `json:"engine"`
	GPU       *string  `json:"gpu"`
	TP        *int     `json:"tp"`
	Model     *string  `json:"model"`
	Batch     *int     `json:"batch"`
	Source    *string  `json:"source"`
	Fitted    bool     `json:"fitted"`
	N         int      `json:"n"`
	Bias      float64  `json:"bias"`
	MedianAPE float64  `json:"median_ape"`
	MeanAPE   float64  `json:"mean_ape"`
	P90APE    float64  `json:"p90_ape"`
	Coverage  *float64 `json:"coverage"`
	Noise     *float64 `json:"noise"`
	Reason    *string  `json:"coverage_reason"`
}

type rowJSON struct {
	Metric        string   `json:"metric"`
	Engine        string   `json:"engine"`
	Mode          *string  `json:"mode"`
	GPU           string   `json:"gpu"`
	TP            int      `json:"tp"`
	Model         string   `json:"model"`
	Batch         int      `json:"batch"`
	PromptLen     int      `json:"prompt_len"`
	GenLen        int      `json:"gen_len"`
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

type skipJSON struct {
	Reason string  `json:"reason"`
	Detail string  `json:"detail"`
	Source string  `json:"source"`
	ID     *string `json:"id"`
	Metric *string `json:"metric"`
	Model  *string `json:"model"`
	GPU    *string `json:"gpu"`
	Engine *string `json:"engine"`
}

type findingJSON struct {
	Kind   string `json:"kind"`
	Detail string `json:"detail"`
}

type sourceJSON struct {
	Key     string `json:"key"`
	Title   string `json:"title"`
	URL     string `json:"url"`
	Licence string `json:"licence"`
	How     string `json:"how"`
}

// json is the comparison for programs.
func (v *validation) json() any {
	j := &validateJSON{
		Schema: validateSchema, Observations: v.total, FailOver: orNull(v.failOver), Summary: []summaryJSON{}, Rows: []rowJSON{},
		Skipped: []skipJSON{}, Findings: []findingJSON{}, Sources: []sourceJSON{},
		Operators: v.operatorsJSON(),
	}
	for _, s := range compare.Summarize(v.score.Rows, v.dims...) {
		j.Summary = append(j.Summary, summaryJSON{
			string(s.Metric), s.Engine, s.GPU, s.TP, s.Model, s.Batch, s.Source, s.Fitted, s.N,
			s.Bias, s.MedianAPE, s.MeanAPE, s.P90APE, s.Coverage, s.Noise, orNull(s.Reason),
		})
	}
	for i := range v.score.Rows {
		j.Rows = append(j.Rows, rowOf(&v.score.Rows[i]))
	}
	for i := range v.score.Skipped {
		j.Skipped = append(j.Skipped, skipOf(&v.score.Skipped[i]))
	}
	for _, f := range v.score.Findings {
		j.Findings = append(j.Findings, findingJSON{f.Kind, f.Detail})
	}
	if len(v.files) == 0 {
		for _, s := range v.sources {
			j.Sources = append(j.Sources, sourceJSON{s.Key, s.Title, s.URL, s.Licence, s.How})
		}
	}
	return j
}

func rowOf(r *compare.Row) rowJSON {
	j := rowJSON{
		Metric: string(r.Metric), Engine: r.Engine, Mode: orNull(r.Mode), GPU: r.GPU, TP: r.TP, Model: r.Model, Batch: r.Batch,
		PromptLen: r.Prompt, GenLen: r.Gen, Weights: r.Weights, Load: string(r.Load),
		Fitted: r.Fitted != "", FittedBy: orNull(r.Fitted), Error: r.Error, BelowFloor: r.FasterThanFloor,
		Source: r.Source, ID: orNull(r.ID), Samples: orNull(r.Samples), Marks: append([]string{}, r.Marks...), Note: orNull(r.Note),
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

func skipOf(s *compare.Skip) skipJSON {
	j := skipJSON{Reason: string(s.Reason), Detail: s.Detail, Source: s.Source}
	if o := s.Observation; o != nil {
		metric, runs := string(o.Metric), o.Runs()
		j.ID, j.Metric, j.Model, j.GPU, j.Engine = orNull(o.ID), &metric, &o.Model, &o.GPU, &runs
	}
	return j
}
