package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"llmprof/hardware"
	"llmprof/measure"
	"llmprof/measure/experiment"
	"llmprof/models"
	compare "llmprof/validate"
)

// A live is a comparison with what is measured on this machine, as it was asked
// for on the command line.
type live struct {
	wanted                    bool
	batches, prompts          []int
	gen                       int
	grid                      string // experiment file
	device, hardware, results string
	python, libraries         string
	offline, shared           bool

	gpus    func(context.Context) []device // of this machine
	measure experiment.Measure             // nil for a lab of this machine
}

// liveFlags are about measuring.
func (v *validation) liveFlags(cmd *cobra.Command) {
	f, l := cmd.Flags(), &v.live
	f.BoolVar(&l.wanted, "live", false, "predict, then measure on this machine, then compare")
	f.StringVar(&l.grid, "grid", "", "with --live: measure the points of an experiment `FILE`")
	f.IntSliceVarP(&l.batches, "batch", "b", []int{1, 8, 32}, "with --live: `sequences` that run together")
	f.IntSliceVar(&l.prompts, "prompt-len", []int{128, 1024, 4096}, "with --live: `tokens` of each prompt")
	f.IntVar(&l.gen, "gen-len", 32, "with --live: `tokens` generated for each prompt")
	f.StringVar(&l.device, "device", "", "`device` that is measured: cuda or cpu (default: cuda)")
	f.StringVar(&l.hardware, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
	f.StringVar(&l.results, "results", defaultResults, "with --live: `FOLDER` of result files and predictions")
	f.StringVar(&l.python, "python", "", "with --live: Python `interpreter` of the transformers engine")
	f.StringVar(&l.libraries, "cuda-libs", "", "with --live: `folder` of the CUDA libraries that the native engine opens")
	f.BoolVar(&l.shared, "shared", false, "with --live: measure although others use the GPU")
	f.BoolVar(&l.offline, "offline", false, "with --live: never use the network")
	_ = cmd.MarkFlagDirname("results")
	_ = cmd.RegisterFlagCompletionFunc("device", words("cuda", "cpu"))
}

// liveOnly are the flags that mean nothing without --live, gridOnly those that a
// grid file leaves nothing to.
var (
	liveOnly = []string{"grid", "batch", "prompt-len", "gen-len", "results", "python", "cuda-libs", "shared", "offline"}
	gridOnly = []string{"model", "engine", "batch", "prompt-len", "gen-len", "python", "cuda-libs"}
)

// checkLive refuses command lines that cannot be meant.
func (v *validation) checkLive() error {
	l := &v.live
	switch {
	case l.device != "" && l.device != "cuda" && l.device != "cpu":
		return usage("--device %.40q: want cuda or cpu", l.device)
	case l.device == "cpu" && v.gpu == "":
		return usage("--device cpu: a processor has no row in the table of GPUs; describe it in a file for --hardware and name it with --gpu, " +
			"as docs/validation.md does under \"On your own GPU\"")
	}
	if !l.wanted {
		for _, flag := range liveOnly {
			if v.given(flag) {
				return usage("--%s is about measuring: give --live too", flag)
			}
		}
		return nil
	}
	for _, flag := range gridOnly {
		if l.grid != "" && v.given(flag) {
			return usage("--%s: the points and their settings are those of --grid %s; leave one of the two out", flag, l.grid)
		}
	}
	switch {
	case len(v.files) > 0:
		return usage("%s: --live compares what it measures; leave the files out, or --live", v.files[0])
	case v.ablate:
		return usage("--ablate: first measure with --live, then ablate the result files")
	case l.results == "":
		return usage("--results: want a folder; what is measured is kept there")
	}
	return nil
}

// A rehearsal is a live comparison with all that it is about.
type rehearsal struct {
	*app
	v      *validation
	lab    *measure.Lab
	gpu    hardware.GPU
	gpus   []string // UUIDs of the GPUs to use; none for all that are visible
	exp    *experiment.Experiment
	trials []experiment.Trial
	models map[string]*models.Model // by their own names
	named  map[string]*models.Model // by the names that points have

	predictions *compare.Predictions
	kept        compare.Kept
	outcome     experiment.Summary
	before      int          // results that are older than the predictions
	missing     []unmeasured // points without a result
}

// An unmeasured point has no result.
type unmeasured struct{ id, name, why string }

// runLive predicts, measures and compares.
func (a *app) runLive(ctx context.Context, v *validation) error {
	r, err := a.rehearse(ctx, v)
	if err != nil {
		return err
	}
	if r.kept, err = r.predictions.Keep(v.live.results); err != nil {
		return err
	}
	r.announce()
	if err := r.measured(ctx); err != nil {
		return err
	}
	if err := r.collect(); err != nil {
		return err
	}
	v.rehearsal = r
	if err := a.writeComparison(v); err != nil {
		return err
	}
	if r.outcome.Measured+r.outcome.Kept == 0 {
		return fmt.Errorf("none of %d points could be measured", len(r.trials))
	}
	return v.verdict()
}

// rehearse finds GPU, models and points, and predicts the points.
func (a *app) rehearse(ctx context.Context, v *validation) (r *rehearsal, err error) {
	l := &v.live
	r = &rehearsal{app: a, v: v, models: map[string]*models.Model{}, named: map[string]*models.Model{}}
	table, err := a.gpuTable(l.hardware)
	if err != nil {
		return nil, err
	}
	if r.gpu, r.gpus, err = target(ctx, table, l.device, v.gpu, l.gpus); err != nil {
		return nil, err
	}
	if l.device == "cpu" {
		if err := processor(&r.gpu); err != nil {
			return nil, err
		}
	}
	if r.lab, err = a.lab(l.offline); err != nil {
		return nil, err
	}
	r.lab.GPUs, r.lab.Shared = table, l.shared
	constants, err := newCalibrations(v.constant)
	if err != nil {
		return nil, err
	}
	v.scorer = &compare.Scorer{
		Model: func(name string) (*models.Model, error) {
			if m := r.models[name]; m != nil {
				return m, nil
			}
			return r.lab.Models.Table.Model(name)
		},
		GPU:         func(name string) (*hardware.GPU, error) { g, err := table.GPU(name); return &g, err },
		Calibration: constants.only,
	}
	if err := r.points(ctx); err != nil {
		return nil, err
	}
	return r, r.predict(ctx)
}

// announce says where the predictions are, before anything is measured.
func (r *rehearsal) announce() {
	k := &r.kept
	switch {
	case k.Earlier:
		r.logf("predictions as written on %s, unchanged: %s", k.Written.Format("2006-01-02 15:04:05 MST"), k.File)
	case k.Others > 0:
		r.logf("the predictions differ from those of %d files beside it, so they are written anew: %s", k.Others, k.File)
	default:
		r.logf("predictions of %d points written before the first measurement: %s", len(r.predictions.Points), k.File)
	}
	r.logf("SHA-256 %s", k.SHA256)
}

// measured runs what is left of the points. That some fail is no error here.
func (r *rehearsal) measured(ctx context.Context) (err error) {
	run := r.v.live.measure
	if run == nil {
		run = r.lab.Measure
		defer func() { err = errors.Join(err, r.lab.Close()) }()
	}
	r.outcome, err = experiment.Run(ctx, r.trials, placed(run), experiment.Options{
		Store: experiment.Store{Dir: r.v.live.results}, File: r.exp.File, Gap: r.exp.Gap, Notify: r.notify,
	})
	if r.outcome.Trials > 0 {
		r.logf("%s: %v", r.exp.Name, r.outcome)
	}
	if ctx.Err() != nil {
		r.logf("what was measured is kept in %s: the same command goes on from there", r.v.live.results)
		return ctx.Err()
	}
	if o := &r.outcome; o.Trials > 0 && o.Measured+o.Kept+o.Failed == o.Trials {
		return nil // what failed is said point by point
	}
	return err
}
