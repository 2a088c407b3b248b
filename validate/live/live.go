// Package live predicts the points of a grid, measures them, and compares the two.
//
//	grid -> predictions, written to a file -> measurements -> validate.Comparison
//
// The predictions are written before the first measurement, to a file that is named
// after its SHA-256, so that a reader can check that they were not changed
// afterwards. Points that have a result already are not measured again.
package live

import (
	"context"
	"fmt"

	"llmprof/hardware"
	"llmprof/measure/experiment"
	"llmprof/models"
	"llmprof/validate"
)

// Options say what is measured, on what, and where results are kept.
type Options struct {
	Grid   Grid
	Target Target
	Engine Engine

	Results string // folder of result files and predictions
	Version string // version of llmprof, which is written into the predictions

	Models      models.Resolver
	GPUs        *hardware.Table
	Calibration func(g *hardware.GPU, engine string) (*hardware.CalibrationFile, error)
}

// A Grid is the points to measure: those of an experiment file, or every model by
// every engine with every batch and prompt length.
type Grid struct {
	File string // experiment file; "" for the product of the lists below

	Models     []string // names for Resolver; none for those that the GPU holds
	Engines    []string // "native", "transformers", "transformers graph" or "transformers eager"; none for the engine's choice
	Batches    []int
	PromptLens []int
	GenLen     int

	Python    string // interpreter of the transformers engine
	Libraries string // folder of the CUDA libraries that the native engine opens
}

// A Target is what points are measured on, and what predicts them.
type Target struct {
	GPU   hardware.GPU
	Named bool     // the user named the GPU, so a device that the table does not know stands for it
	UUIDs []string // GPUs to use; none for all that are visible
	CPU   bool     // points run on the processor, which GPU describes
}

// An Engine measures points.
type Engine struct {
	Measure experiment.Measure
	Choose  func(context.Context, experiment.Point) string // the engine of a point on a GPU for which none was named
}

// A Reporter is told how far a comparison is.
type Reporter interface {
	Logf(format string, args ...any) // takes a line of text
	Notify(e experiment.Event)       // takes an event of a point
}

// A RequestError says that the options ask for something that cannot be measured.
type RequestError struct{ error }

// Unwrap is the error without its kind.
func (e RequestError) Unwrap() error { return e.error }

func request(format string, args ...any) error { return RequestError{fmt.Errorf(format, args...)} }

// A session is a comparison that is being made.
type session struct {
	Options
	report Reporter
	made   *validate.Comparison

	exp    *experiment.Experiment
	runs   []experiment.Trial
	models map[string]*models.Model // models by their own names
	named  map[string]*models.Model // models by the names in points
}

// Run predicts every point of the grid, writes the predictions, measures the points,
// and compares. Points that fail are listed in Missing and are no error.
func Run(ctx context.Context, o Options, report Reporter) (*validate.Comparison, error) {
	s := &session{Options: o, report: report, models: map[string]*models.Model{}, named: map[string]*models.Model{}}
	s.made = &validate.Comparison{GPU: o.Target.GPU, Results: o.Results, Scorer: s.scorer()}
	if err := s.points(ctx); err != nil {
		return nil, err
	}
	if err := s.predict(ctx); err != nil {
		return nil, err
	}
	var err error
	if s.made.Kept, err = s.made.Predictions.Keep(o.Results); err != nil {
		return nil, err
	}
	s.announce()
	if err := s.measure(ctx); err != nil {
		return nil, err
	}
	if err := s.collect(); err != nil {
		return nil, err
	}
	return s.made, nil
}

// scorer finds the models of the points by their own names, and others in the table.
func (s *session) scorer() *validate.Scorer {
	return &validate.Scorer{
		Model: func(name string) (*models.Model, error) {
			if m := s.models[name]; m != nil {
				return m, nil
			}
			return s.Models.Table.Model(name)
		},
		GPU:         func(name string) (*hardware.GPU, error) { g, err := s.GPUs.GPU(name); return &g, err },
		Calibration: s.Calibration,
	}
}

// announce says where the predictions are, before anything is measured.
func (s *session) announce() {
	k := &s.made.Kept
	switch {
	case k.Earlier:
		s.report.Logf("predictions as written on %s, unchanged: %s", k.Written.Format("2006-01-02 15:04:05 MST"), k.File)
	case k.Others > 0:
		s.report.Logf("the predictions differ from those of %d files beside it, so they are written anew: %s", k.Others, k.File)
	default:
		s.report.Logf("predictions of %d points written before the first measurement: %s", len(s.made.Predictions.Points), k.File)
	}
	s.report.Logf("SHA-256 %s", k.SHA256)
}

// measure runs the points that have no result yet. A point that fails is no error here.
func (s *session) measure(ctx context.Context) (err error) {
	s.made.Runs, err = experiment.Run(ctx, s.runs, onGPU(s.Engine.Measure), experiment.Options{
		Store: experiment.Store{Dir: s.Results}, File: s.exp.File, Gap: s.exp.Gap, Notify: s.report.Notify,
	})
	runs := &s.made.Runs
	if runs.Trials > 0 {
		s.report.Logf("%s: %v", s.exp.Name, *runs)
	}
	if ctx.Err() != nil {
		s.report.Logf("what was measured is kept in %s: the same command goes on from there", s.Results)
		return err
	}
	if runs.Trials > 0 && runs.Measured+runs.Kept+runs.Failed == runs.Trials {
		return nil // each failure was reported with its point
	}
	return err
}
