package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/deployment"
	"llmprof/measure/detect"
	"llmprof/measure/experiment"
	"llmprof/validate"
	"llmprof/validate/live"
)

// liveFlags say what --live measures on this machine.
type liveFlags struct {
	wanted                    bool
	batches, prompts          []int
	gen                       int
	grid                      string // experiment file
	device, hardware, results string
	python, libraries         string
	offline, shared           bool
	server                    servedLive

	gpus    func(context.Context) []detect.Device // GPUs of this machine
	measure experiment.Measure                    // nil for a lab of this machine
}

func (l *liveFlags) add(f *pflag.FlagSet) {
	f.BoolVar(&l.wanted, "live", false, "predict and measure on this machine, or with a URL a running server")
	f.StringVar(&l.grid, "grid", "", "measure the points of an experiment `FILE`")
	f.IntSliceVarP(&l.batches, "batch", "b", []int{1, 8, 32}, "`sequences` that run together")
	f.IntSliceVar(&l.prompts, "prompt-len", []int{128, 1024, 4096}, "`tokens` of each prompt")
	f.IntVar(&l.gen, "gen-len", 32, "`tokens` generated for each prompt")
	settings.Choice(f, &l.device, "device", "", "`device` that is measured: %s (default: cuda)", "cuda", "cpu")
	f.StringVar(&l.hardware, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
	f.StringVar(&l.results, "results", defaultResults, "`FOLDER` of results and predictions")
	f.StringVar(&l.python, "python", "", "Python `interpreter` of the transformers engine")
	f.StringVar(&l.libraries, "cuda-libs", "", "`folder` of the CUDA libraries that the native engine opens")
	f.BoolVar(&l.shared, "shared", false, "measure although others use the GPU")
	f.BoolVar(&l.offline, "offline", false, "never use the network")
	l.server.add(f)
	_ = cobra.MarkFlagDirname(f, "results")
}

// liveOnly are the flags that mean nothing without --live, gridOnly those that a
// grid file leaves nothing to.
var (
	liveOnly = []string{"grid", "batch", "prompt-len", "gen-len", "results", "python", "cuda-libs", "shared", "offline"}
	gridOnly = []string{"model", "engine", "batch", "prompt-len", "gen-len", "python", "cuda-libs"}
)

// traceToo are those of them that say what a trace is of, too.
var traceToo = []string{"batch", "prompt-len", "offline"}

func (v *comparison) checkLive() error {
	l := &v.live
	if err := v.takeServer(); err != nil || l.server.url != "" {
		return err
	}
	if l.device == "cpu" && v.GPU == "" {
		return usage("--device cpu: a processor has no row in the table of GPUs; describe it in a file for --hardware and name it with --gpu, " +
			"as docs/validate-live.md does")
	}
	if !l.wanted {
		for _, flag := range liveOnly {
			if v.given(flag) && (v.trace.file == "" || !slices.Contains(traceToo, flag)) {
				return usage("--%s is about measuring: give --live too", flag)
			}
		}
		return nil
	}
	err := settings.Refuse(v.given, gridOnly, "--%s: the points and their settings are those of --grid %s; leave one of the two out", l.grid)
	switch {
	case l.grid != "" && err != nil:
		return err
	case len(v.Files) > 0:
		return usage("%s: --live compares what it measures; leave the files out, or --live", v.Files[0])
	case v.pool:
		return usage("--pool: first measure with --live, then pool the result files")
	case v.ablate:
		return usage("--ablate: first measure with --live, then ablate the result files")
	}
	return nil
}

func (a *app) runLive(ctx context.Context, v *comparison) error {
	made, err := a.compareLive(ctx, v)
	if asked := (live.RequestError{}); errors.As(err, &asked) {
		return wrong(err)
	}
	if err != nil {
		return err
	}
	v.Live, v.Scorer, v.Score, v.Operators, v.Observations = made, made.Scorer, made.Score, made.Operators, made.Observations
	if err := a.writeComparison(v); err != nil {
		return err
	}
	if made.Runs.Measured+made.Runs.Kept == 0 {
		return fmt.Errorf("none of %d points could be measured", made.Runs.Trials)
	}
	return v.verdict()
}

// compareLive finds the GPU and the engines of this machine and runs the comparison.
func (a *app) compareLive(ctx context.Context, v *comparison) (made *validate.Comparison, err error) {
	l := &v.live
	table, err := a.library().GPUs(l.hardware)
	if err != nil {
		return nil, err
	}
	gpu, uuids, err := detect.Target(ctx, table, l.device, v.GPU, l.gpus)
	if err != nil {
		return nil, err
	}
	if l.device == "cpu" {
		if err := detect.Processor(deployment.BuiltInGPUs(), &gpu); err != nil {
			return nil, err
		}
	}
	lab, err := a.lab(l.offline)
	if err != nil {
		return nil, err
	}
	lab.GPUs, lab.Shared = table, l.shared
	defer func() { err = errors.Join(err, lab.Close()) }()
	measure := l.measure
	if measure == nil {
		measure = lab.Measure
	}
	constants, err := deployment.NewCalibrations(v.constant)
	if err != nil {
		return nil, err
	}
	return live.Run(ctx, live.Options{
		Grid: live.Grid{
			File: l.grid, Models: v.Models, Engines: v.Engines, Batches: l.batches, PromptLens: l.prompts, GenLen: l.gen,
			Python: l.python, Libraries: l.libraries,
		},
		Target:  live.Target{GPU: gpu, Named: v.GPU != "", UUIDs: uuids, CPU: l.device == "cpu"},
		Engine:  live.Engine{Measure: measure, Choose: lab.Engine},
		Results: l.results, Version: versionText(), Models: lab.Models, GPUs: table, Calibration: constants.Only,
	}, &notifier{app: a})
}
