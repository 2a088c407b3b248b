package main

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/settings"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/plots/render"
)

// A estimateFlags is an estimate as it was asked for on the command line.
type estimateFlags struct {
	deployment.Request
	top     int
	shows   struct{ ops, explain, full bool }
	verbose bool
	output  output
}

type answer = view.Estimate

// check refuses flags that contradict each other before anything is read.
func (q *estimateFlags) check() error {
	if err := q.Check(); err != nil {
		return settings.InFlags(err)
	}
	if q.top < 0 {
		return usage("--top %d: want a number of operators, or 0 for all", q.top)
	}
	return nil
}

func (a *app) answer(ctx context.Context, q *estimateFlags) (*answer, error) {
	ans, err := a.library().Answer(ctx, &q.Request)
	return &answer{Answer: ans, Top: q.top, Binary: q.output.binary}, settings.InFlags(err)
}

func (a *app) estimate() *cobra.Command {
	q := &estimateFlags{}
	cmd := &cobra.Command{
		Use:   "estimate MODEL GPU",
		Short: "Predict time, memory, energy and cost",
		Long: "Predict what it takes to serve a model on a GPU: whether it fits, the time to the first token " +
			"(TTFT) and for each one after it (TPOT), throughput, memory, energy and cost, what that rests on " +
			"and what would change it most. Each time has a floor, which nothing beats (data-sheet peaks, " +
			"perfect overlap), and an expected value with a 90 % interval.\n\n" +
			"Under a load --prompt-len and --gen-len also take distributions: 512..2048, mean=2000,p95=6000, " +
			"lognormal:1024,0.8 or trace:FILE.\n\n" +
			"What cannot run, for want of memory or context, is an answer too; it exits with 1.",
		Example: "  llmprof estimate llama3.1-8b h100\n" +
			"  llmprof estimate llama2-70b a100 --tp 8 --batch 32 --ops\n" +
			"  llmprof estimate deepseek-v3 h200 --tp 8 --kv fp8 --format json\n" +
			"  llmprof estimate ./config.json rtx-4090 --weights awq --prompt-len 8k",
		Args:              cli.Positional("model", "gpu"),
		ValidArgsFunction: completeModelThenGPU,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.runEstimate(cmd.Context(), q, cmd.Flags().Changed("top"))
		},
	}
	q.flags(cmd)
	q.loads(cmd)
	bind(cmd, cli.Hardware, q, settings.Experts)
	cli.Define(cmd, cli.Output, func(*pflag.FlagSet) { q.estimateFlags(cmd) })
	rare(cmd, "color", "binary", "verbose", "top")
	return cmd
}

// loads defines the flags of a load.
func (q *estimateFlags) loads(cmd *cobra.Command) {
	cli.Define(cmd, "Load", q.loadFlags)
	rare(cmd)
}

// loadFlags are about a load, and the server that answers it. The lengths of requests may differ under one.
func (q *estimateFlags) loadFlags(f *pflag.FlagSet) {
	settings.Bind(f, &q.Request, settings.Load, settings.Server)
	settings.LengthDistributions(f, &q.Request, traceLengths)
}

// common are the keys of the settings of a deployment that most need.
var common = []string{"model", "weights", "kv", "gpu", "tp", "pp", "dp", "price", "fit", "batch", "prompt_len", "gen_len", "images",
	"engine", "calibration", "rate", "concurrency"}

// rare leaves the settings of a deployment that few need, and other flags of a command, to --help-all.
func rare(cmd *cobra.Command, others ...string) {
	for f := range settings.Fields(&deployment.Request{}) {
		if name := f.Flag(); !slices.Contains(common, f.Key) && cmd.Flags().Lookup(name) != nil {
			cli.Rare(cmd, name)
		}
	}
	cli.Rare(cmd, others...)
}

func (q *estimateFlags) estimateFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&q.shows.ops, "ops", false, "show every operator too")
	f.BoolVar(&q.shows.explain, "explain", false, "show what it is computed from and how too")
	f.BoolVar(&q.shows.full, "full", false, "show all of it: --explain and --ops")
	q.output.gauges = true
	q.output.flags(cmd)
	f.BoolVar(&q.output.binary, "binary", false, "memory in GiB (2^30) rather than GB (10^9)")
	f.IntVar(&q.top, "top", 0, "show the `N` longest operators of each phase; 0 for all")
	f.BoolVarP(&q.verbose, "verbose", "v", false, "say on standard error what the estimate is computed from")
}

func (a *app) runEstimate(ctx context.Context, q *estimateFlags, some bool) error {
	if err := q.check(); err != nil {
		return err
	}
	if err := q.fits(); err != nil {
		return err
	}
	ans, err := a.answer(ctx, q)
	if err != nil {
		return err
	}
	if q.verbose {
		for _, line := range ans.Inputs() {
			a.logf("%s", line)
		}
	}
	err = q.output.write(a, forms{page: q.page(ans, some), table: ans.Table, data: func() any { return ans.Document() }})
	if v := ans.Verdict(); err == nil && !v.Possible {
		return errors.New(v.Text)
	}
	return err
}

// fits refuses flags of what the form of the output does not have, or always has.
func (q *estimateFlags) fits() error {
	s, form := &q.shows, q.output.format
	switch {
	case (s.ops || s.explain || s.full) && form == "json":
		return usage("--ops, --explain and --full are about a table: json has all of it")
	case (s.ops || s.explain || s.full) && form == "prometheus":
		return usage("--ops, --explain and --full are about a table: prometheus has the figures of the whole")
	case (s.explain || s.full) && form == "csv":
		return usage("--explain and --full are about a table: csv has the operators alone")
	case q.Loaded() && form == "csv":
		return usage("--format csv has the operators, which no load changes: give --format json, or \"llmprof sweep\" for a row with the load")
	}
	return nil
}

// page is as much of the estimate as is asked for: with every operator where only some of them are to be shown.
func (q *estimateFlags) page(ans *answer, some bool) func() *render.Document {
	switch s := &q.shows; {
	case s.full, s.explain && s.ops:
		return ans.Page
	case s.explain:
		return ans.Explanation
	case s.ops, some:
		return ans.Operators
	}
	return ans.Brief
}

// bind puts the flags of settings under a heading.
func bind(cmd *cobra.Command, heading cli.Group, q *estimateFlags, groups ...string) {
	cli.Define(cmd, heading, func(f *pflag.FlagSet) { settings.Bind(f, &q.Request, groups...) })
}

func (q *estimateFlags) flags(cmd *cobra.Command) {
	bind(cmd, cli.Model, q, settings.Model)
	bind(cmd, cli.Hardware, q, settings.Hardware)
	bind(cmd, cli.Workload, q, settings.Workload, settings.Media)
	bind(cmd, cli.Engine, q, settings.Engine)
	rare(cmd)
}
