package validate

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"time"

	"llmprof/analytic/operator"
	"llmprof/internal/atomicfile"
	"llmprof/internal/input"
	"llmprof/measure/result"
)

// PredictionsSchema names the form of a file of predictions, which
// "llmprof schema predictions" shows.
const PredictionsSchema = "llmprof.predictions/v1"

// Predictions are what was predicted of the points of an experiment before they
// were measured. Their file is named after the SHA-256 of its content, so that
// whoever has the name can tell whether the content is still the same.
type Predictions struct {
	Schema       string      `json:"schema"`
	Written      time.Time   `json:"written"`                          // when, in UTC
	Version      string      `json:"version" jsonschema:"minLength=1"` // version of llmprof
	GPU          NamedGPU    `json:"gpu"`
	Calibrations []Named     `json:"calibrations"` // calibrations of the points
	Grid         string      `json:"grid"`         // name of the experiment
	Points       []Predicted `json:"points" jsonschema:"minItems=1"`
}

// A NamedGPU is the GPU that the predictions are for.
type NamedGPU struct {
	Key  string `json:"key" jsonschema:"minLength=1"` // in the table of GPUs
	Name string `json:"name"`
}

// Named is something with where it is from.
type Named struct {
	Name   string `json:"name" jsonschema:"minLength=1"`
	Source string `json:"source"` // where and when the constants were measured
}

// A Predicted is a point of the experiment with its predictions, or with why it
// has none.
type Predicted struct {
	// hash of the settings, equal to that of the point's results
	Hash     string          `json:"config_hash" jsonschema:"pattern=^[0-9a-f]{64}$"`
	Settings json.RawMessage `json:"settings" jsonschema:"type=object"` // settings of the point, in canonical JSON
	Model    string          `json:"model" jsonschema:"minLength=1"`
	Params   int64           `json:"params_total"`
	Engine   string          `json:"engine" jsonschema:"minLength=1"`
	Mode     string          `json:"mode" jsonschema:"enum=graph,enum=eager,enum="` // "graph", "eager" or ""
	TP       int             `json:"tp" jsonschema:"minimum=1"`
	operator.Workload
	Weights     string   `json:"weights" jsonschema:"minLength=1"`
	AllLogits   bool     `json:"all_logits"`  // the LM head runs on every position of the prompt
	Calibration *string  `json:"calibration"` // name of the one that it was predicted with; nil without figures
	Figures     []Figure `json:"figures"`     // empty if there is a reason
	Reason      *string  `json:"reason"`      // why there are no figures
}

// A Figure is the prediction of one metric, in its unit. An energy has no floor.
type Figure struct {
	Metric   Metric   `json:"metric"` // the name ends in the unit of the numbers
	Expected float64  `json:"expected" jsonschema:"exclusiveMinimum=0"`
	Low      *float64 `json:"low" jsonschema:"exclusiveMinimum=0"` // 90 % interval; null for energies
	High     *float64 `json:"high" jsonschema:"exclusiveMinimum=0"`
	Floor    *float64 `json:"floor" jsonschema:"exclusiveMinimum=0"` // nothing beats it; null for energies
}

// Forecast predicts every metric that a configuration has, by the steps that
// Score takes.
func (s *Scorer) Forecast(c Config) ([]Figure, error) {
	p, err := s.predict(c)
	if err != nil {
		return nil, err
	}
	var all []Figure
	for _, m := range metrics() {
		span, err := p.of(&c, m)
		if err != nil {
			return nil, err
		}
		if span.expected > 0 { // one generated token has no TPOT
			all = append(all, Figure{m, span.expected, span.low, span.high, span.floor})
		}
	}
	return all, nil
}

// Add predicts a configuration and adds it to the points, under the hash of its
// settings, and the calibration that it was predicted with to the others.
func (p *Predictions) Add(s *Scorer, c Config, hash string, settings []byte) *Predicted {
	point := s.predicted(c)
	point.Hash, point.Settings = hash, settings
	if q, err := s.caseOf(&c); err == nil && point.Reason == nil {
		cal := Named{q.Machine.Cal.Name, q.Machine.Cal.Source}
		point.Calibration = &cal.Name
		if !slices.Contains(p.Calibrations, cal) {
			p.Calibrations = append(p.Calibrations, cal)
		}
	}
	p.Points = append(p.Points, point)
	return &p.Points[len(p.Points)-1]
}

// Refuse takes the figures of a point back for a reason of the caller's own.
func (p *Predicted) Refuse(why string) {
	p.Figures, p.Calibration, p.Reason = []Figure{}, nil, &why
}

// predicted is what is predicted of a configuration, or why nothing is.
func (s *Scorer) predicted(c Config) Predicted {
	p := Predicted{
		Model: c.Model, Params: c.Params, Engine: c.Engine, Mode: c.Mode, TP: c.TP,
		Workload: operator.Workload{Batch: c.Batch, PromptLen: c.Prompt, GenLen: c.Gen},
		Weights:  c.Weights, AllLogits: c.Logits, Figures: []Figure{},
	}
	all, err := s.Forecast(c)
	if err != nil {
		p.Refuse(err.Error())
		return p
	}
	p.Figures = all
	return p
}

// Config is the configuration that the point was predicted of.
func (p *Predicted) Config(gpu string) Config {
	return Config{
		Model: p.Model, GPU: gpu, Engine: p.Engine, Mode: p.Mode, TP: p.TP, Batch: p.Batch, Prompt: p.PromptLen, Gen: p.GenLen,
		Weights: p.Weights, Load: Static, Logits: p.AllLogits, Params: p.Params,
	}
}

// same reports whether two files predict the same of the same points, whenever
// and by whichever version they were written.
func (p *Predictions) same(o *Predictions) bool {
	a, b := *p, *o
	for _, x := range []*Predictions{&a, &b} {
		x.Schema, x.Written, x.Version = "", time.Time{}, ""
	}
	one, err := json.Marshal(&a)
	other, wrong := json.Marshal(&b)
	return err == nil && wrong == nil && bytes.Equal(one, other)
}

// Hold is an error where a row does not have the figure that was written, so that
// no comparison passes for one with these predictions that is not.
func (p *Predictions) Hold(rows []Row) error {
	type key struct {
		Config
		Metric
	}
	figures := map[key]Figure{}
	for i := range p.Points {
		for _, f := range p.Points[i].Figures {
			figures[key{p.Points[i].Config(p.GPU.Key), f.Metric}] = f
		}
	}
	for _, r := range rows {
		f, ok := figures[key{r.Config, r.Metric}]
		if !ok {
			return fmt.Errorf("%s was not predicted before it was measured", r.name())
		}
		if now := (Figure{r.Metric, r.Predicted, r.PredictedLow, r.PredictedHigh, r.Floor}); !reflect.DeepEqual(now, f) {
			return fmt.Errorf("%s is predicted as %v now and was written as %v", r.name(), now.Expected, f.Expected)
		}
	}
	return nil
}

// A Kept says in which file predictions are.
type Kept struct {
	File    string    `json:"predictions_file"`                           // of the form llmprof.predictions/v1
	SHA256  string    `json:"sha256" jsonschema:"pattern=^[0-9a-f]{64}$"` // of its content, and in its name
	Written time.Time `json:"written"`
	Earlier bool      `json:"earlier"`           // the file was there, with the same predictions
	Others  int       `json:"other_predictions"` // files of other predictions in the folder
}

// Keep writes the predictions to a file of their own in a folder, whole or not at
// all, unless one that is there says the same. A file of predictions that was
// altered is an error.
func (p *Predictions) Keep(dir string) (k Kept, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return k, fmt.Errorf("the results folder: %w", err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return k, fmt.Errorf("the results folder: %w", err)
	}
	for _, e := range entries {
		if !result.IsPredictions(e.Name()) {
			continue
		}
		file := filepath.Join(dir, e.Name())
		before, err := ReadPredictions(file)
		switch {
		case err != nil:
			return k, err
		case !p.same(before):
			k.Others++
		case !k.Earlier || before.Written.Before(k.Written):
			k.File, k.SHA256, k.Written, k.Earlier = file, result.PredictionsHash(e.Name()), before.Written, true
		}
	}
	if k.Earlier {
		return k, nil
	}
	own := *p
	own.Schema = PredictionsSchema
	data, err := json.MarshalIndent(&own, "", "  ")
	if err != nil {
		return k, fmt.Errorf("writing the predictions: %w", err)
	}
	data = append(data, '\n')
	k.SHA256, k.Written = digest(data), own.Written
	k.File = filepath.Join(dir, result.PredictionsName(k.SHA256))
	if err := atomicfile.WriteFile(k.File, data, 0o666); err != nil {
		return k, fmt.Errorf("writing the predictions: the folder %s cannot be written: %w", dir, input.Cause(err))
	}
	return k, nil
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// mostPredictions is more than the predictions of any experiment: 100,000 points.
const mostPredictions = 1 << 30

// ReadPredictions reads a file of predictions and holds its content to the hash in
// its name.
func ReadPredictions(file string) (*Predictions, error) {
	data, err := input.Read(file, mostPredictions)
	if err != nil {
		return nil, fmt.Errorf("reading predictions: %w", err)
	}
	return decodePredictions(file, data)
}

func decodePredictions(file string, data []byte) (*Predictions, error) {
	want := result.PredictionsHash(filepath.Base(file))
	if want == "" {
		return nil, fmt.Errorf("%s: want a name like %s", file, result.PredictionsName("<SHA-256 of the content>"))
	}
	if got := digest(data); got != want {
		return nil, fmt.Errorf("%s: its content has the SHA-256 %s, not the one in its name: it was altered after it was written; "+
			"restore it or move it away", file, got)
	}
	var p Predictions
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&p); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	if p.Schema != PredictionsSchema {
		return nil, fmt.Errorf("%s: schema %.60q: this version reads %q", file, p.Schema, PredictionsSchema)
	}
	return &p, p.check(file)
}

// check refuses predictions that nothing can be held to.
func (p *Predictions) check(file string) error {
	if p.Written.IsZero() || p.GPU.Key == "" || len(p.Points) == 0 {
		return fmt.Errorf("%s: want a time, a GPU and at least one point", file)
	}
	for i := range p.Points {
		point := &p.Points[i]
		if (len(point.Figures) == 0) == (point.Reason == nil) {
			return fmt.Errorf("%s: point %d: want figures, or the reason why there are none", file, i)
		}
		for _, f := range point.Figures {
			if !slices.Contains(metrics(), f.Metric) || !(f.Expected > 0) {
				return fmt.Errorf("%s: point %d: %q is predicted as %v: want a metric and a number above 0", file, i, f.Metric, f.Expected)
			}
		}
	}
	return nil
}
