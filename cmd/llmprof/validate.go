package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/models"
	"llmprof/plots"
	"llmprof/validate"
	"llmprof/validate/reports"
)

// A comparison is predictions beside observations, as the command line asks for it.
type comparison struct {
	view.Validation
	validate.Selection
	by       []string
	ablate   bool
	pool     bool
	host     string
	chart    string
	constant string // file of constants, "default", or ""
	live     liveFlags
	trace    traceFlags
	output   output
	given    func(flag string) bool
}

func (a *app) validateCommand(v *comparison) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "validate [FILE...]",
		Short: "Compare predictions with observations",
		Long: "Compare predictions with observations: those that come with the program, or else those of the\n" +
			"given result files, folders of them, or files of \"llmprof validate reduce\". No GPU is needed.\n" +
			"Reports of AIPerf, GuideLLM, vllm bench and others (docs/other-tools.md) are read too.\n\n" +
			"The error is predicted over observed, less 1. Each group has its bias, the median, mean and 90th " +
			"percentile of its absolute value, the share of observations inside the predicted 90 % interval, how far " +
			"one is from another of its configuration (\"repeat\", 90th percentile), and the observations' noise. Those that a constant was " +
			"fitted on are scored separately.\n\n" +
			"With --live it predicts a grid, measures it on this machine, and compares; --model, --engine and --gpu " +
			"then say what is measured. What is interrupted goes on when the command is given again. With --live URL\n" +
			"it measures a running server for two minutes, alone and under a load.",
		Example: "  llmprof validate\n" +
			"  llmprof validate --engine vllm-2024 --fail-over 25\n" +
			"  llmprof validate --live http://localhost:8000 --gpu h200 --concurrency 32\n" +
			"  llmprof validate --chart follow -m qwen3-8b -g h200 --engine native -o a.svg\n" +
			"  llmprof validate --trace t.json.gz -m llama3.1-8b --batch 32 --context 1024",
		RunE: func(cmd *cobra.Command, args []string) error {
			v.Files, v.given = args, cmd.Flags().Changed
			return a.runValidate(cmd.Context(), v)
		},
	}
	cli.Define(cmd, "What is compared", v.chosenFlags)
	cli.Define(cmd, "Measured here (--live)", v.live.add)
	cli.Define(cmd, "Operators of a trace (--trace)", v.trace.add)
	cli.Define(cmd, cli.Output, func(*pflag.FlagSet) { v.outputFlags(cmd) })
	cli.Rare(cmd, "device", "hardware", "host", "python", "cuda-libs", "shared", "offline", "color", "grid", "gen-len", "context", "tp",
		"weights", "kv", "time", "served-model", "rate", "concurrency")
	cmd.AddCommand(a.validateReduce(), a.validateServers())
	return cmd
}

func (v *comparison) chosenFlags(f *pflag.FlagSet) {
	f.StringSliceVarP(&v.Models, "model", "m", nil, "only of these `models`; a directory names your own")
	f.StringVarP(&v.GPU, "gpu", "g", "", "only on this `GPU`")
	f.StringVar(&v.host, "host", "", "`host` of the GPU, of files that tell what lies in its memory (default: the usual one)")
	f.StringSliceVar(&v.Engines, "engine", nil, "only by these `engines`, as \"transformers graph\"")
	f.StringSliceVar(&v.by, "by", []string{"engine", "gpu", "tp"},
		"group by `keys`: engine, gpu, tp, model, ffn, kind, batch, release, source")
	f.Lookup("by").DefValue = "engine,gpu,tp"
	settings.CalibrationFlag(f, &v.constant)
	f.BoolVar(&v.pool, "pool", false, "compare with the median of each configuration")
	f.BoolVar(&v.ablate, "ablate", false, "say what each constant buys: errors where it is ideal")
	f.Float64Var(&v.FailOver, "fail-over", 0, "fail where a median error is over this `percent`")
	settings.Words(f, "by", "engine", "gpu", "tp", "model", "ffn", "kind", "placement", "batch", "release", "source")
}

func (v *comparison) outputFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	v.output.chart = true
	v.output.flags(cmd)
	settings.Choice(f, &v.chart, "chart", "scatter", "`kind` of chart: %s", "scatter", "follow", "ops")
	f.IntVar(&v.Worst, "worst", 10, "show the `N` observations that are farthest off")
}

func (v *comparison) check() error {
	if err := v.checkLive(); err != nil {
		return wrong(err)
	}
	if err := v.checkTrace(); err != nil || v.trace.file != "" {
		return err
	}
	for _, name := range v.by {
		d, err := validate.ParseDimension(name)
		if err != nil {
			return usage("--by: %w", err)
		}
		if !slices.Contains(v.By, d) {
			v.By = append(v.By, d)
		}
	}
	switch {
	case v.Worst < 0:
		return usage("--worst %d: want a number of observations, or 0 for none", v.Worst)
	case v.given("fail-over") && !(v.FailOver > 0 && v.FailOver < 1e6):
		return usage("--fail-over %v: want percent, above 0", v.FailOver)
	case v.ablate:
		return v.checkAblate()
	case v.given("chart") && v.output.picture() == "":
		return usage("--chart %s: give -o too, with a name that ends in .svg, .png or .pdf", v.chart)
	}
	return nil
}

func (a *app) runValidate(ctx context.Context, v *comparison) error {
	if err := v.check(); err != nil {
		return err
	}
	switch {
	case v.live.server.url != "":
		return a.runLiveServer(ctx, v)
	case v.live.wanted:
		return a.runLive(ctx, v)
	case v.trace.file != "":
		return a.runTrace(ctx, v)
	}
	constants, err := deployment.NewCalibrations(v.constant)
	if err != nil {
		return err
	}
	scorer, err := a.scorerBy(v.live.hardware, constants)
	if err != nil {
		return err
	}
	v.Scorer = scorer
	if err := a.ownModels(ctx, v); err != nil {
		return err
	}
	c, err := a.collect(v)
	if err != nil {
		return err
	}
	if err := a.score(ctx, v, c.Observations); err != nil {
		return err
	}
	if gpu := constants.Unused(); gpu != "" {
		return usage("--calibration %s: it is of %s, and no observation is", v.constant, gpu)
	}
	for _, r := range c.Refused {
		v.Score.Refuse(r.Path, settings.InFlags(r.Err))
	}
	if v.Operators, err = reports.Operators(v.Files, scorer, &v.Selection, v.told()); err != nil {
		return err
	}
	if v.Sources, err = validate.Sources(); err != nil {
		return err
	}
	if v.ablate {
		return errors.Join(a.writeAblation(ctx, v), unread(c.Refused))
	}
	return errors.Join(a.writeComparison(v), v.verdict(), unread(c.Refused))
}

// score predicts all observations, and ends at the first signal.
func (a *app) score(ctx context.Context, v *comparison, all []validate.Observation) (err error) {
	v.Observations = len(all)
	if f := a.follow(); f.terminal {
		f.progress(fmt.Sprintf("predicting %d observations", len(all)))
		defer f.progress("")
	}
	v.Score, err = interruptible(ctx, func() (*validate.Score, error) { return v.Scorer.Score(all), nil })
	if err == nil && v.pool {
		v.Score.Pool()
	}
	return err
}

func (a *app) writeComparison(v *comparison) error {
	return v.output.write(a, forms{page: v.Page, table: v.Table, data: v.JSON, chart: v.figure})
}

func (v *comparison) figure() (f *plots.Figure, err error) {
	switch v.chart {
	case "follow":
		f, err = v.Follow()
	case "ops":
		f, err = v.OperatorChart()
	default:
		return v.Scatter()
	}
	if err != nil {
		return nil, fmt.Errorf("--chart %s: %w", v.chart, err)
	}
	return f, nil
}

// scorer finds models and GPUs in the tables, the user's own of GPUs laid over, and predicts by
// the calibration of a file, or by those that come with the program where none is named.
func (a *app) scorer(hardware, calibration string) (*validate.Scorer, error) {
	constants, err := deployment.NewCalibrations(calibration)
	if err != nil {
		return nil, err
	}
	return a.scorerBy(hardware, constants)
}

// scorerBy predicts by calibrations that were read.
func (a *app) scorerBy(file string, constants *deployment.Calibrations) (*validate.Scorer, error) {
	gpus, err := a.library().GPUs(file)
	if err != nil {
		return nil, err
	}
	return validate.NewScorer(deployment.BuiltInModels(), gpus, constants.Among), nil
}

// ownModels lets models of directories and config.json files be found by their own
// names, as results have them.
func (a *app) ownModels(ctx context.Context, v *comparison) error {
	var own []*models.Model
	for i, name := range v.Models {
		if !strings.ContainsAny(name, `/\`) {
			continue
		}
		m, err := a.library().Model(ctx, name, v.live.offline, false)
		if err != nil {
			return err
		}
		own, v.Models[i] = append(own, m), m.Name
	}
	v.Scorer.Know(own...)
	return nil
}

// verdict is an error where a group is off by more than --fail-over, or where
// nothing could be compared.
func (v *comparison) verdict() error {
	if len(v.Score.Rows) == 0 && len(v.Operators) == 0 {
		return fmt.Errorf("none of %d observations could be compared", v.Observations)
	}
	if v.FailOver == 0 {
		return nil
	}
	var wrong []error
	for _, s := range validate.Over(validate.Summarize(v.Score.Rows, v.By...), v.FailOver/100) {
		wrong = append(wrong, fmt.Errorf("%s: the median error is %.1f %%, over %g %%", s.String(), 100*s.MedianAPE, v.FailOver))
	}
	return errors.Join(wrong...)
}

// checkAblate refuses what an ablation has no use for.
func (v *comparison) checkAblate() error {
	err := settings.Refuse(v.given, []string{"by", "worst", "fail-over", "chart", "pool"},
		"--%s: --ablate prints errors by metric and constant alone; leave one of the two out")
	if err == nil && v.output.picture() != "" {
		err = usage("-o %.40q: --ablate draws no chart; give a name that ends otherwise", v.output.file)
	}
	return err
}

// writeAblation puts one constant after the other to its ideal, and writes how the errors change.
func (a *app) writeAblation(ctx context.Context, v *comparison) error {
	if len(v.Score.Rows) == 0 {
		return fmt.Errorf("none of %d observations could be compared", v.Observations)
	}
	part, end := a.follow().counted("predicting without each constant")
	v.Scorer.Progress = part
	b, err := interruptible(ctx, func() (*view.Ablation, error) {
		each, all, err := v.Scorer.Ablate(v.Score.Rows)
		return &view.Ablation{Score: v.Score, Each: each, All: all}, err
	})
	end()
	if err != nil {
		return err
	}
	return v.output.write(a, forms{page: b.Page, table: b.Table, data: b.JSON})
}
