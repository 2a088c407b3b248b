package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"llmprof/analytic"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/unit"
)

// A question is an estimate as it was asked for on the command line.
type question struct {
	model, gpu, engine, weights string
	act, kv                     unit.Format
	workload                    analytic.Workload
	parallel                    analytic.Parallelism
	eff                         efficiencies
	utilization                 float64
	price                       price
	hardware, calibration       string
	offline, lenient            bool

	top     int
	shows   struct{ ops, explain, full bool }
	verbose bool
	load    *steadyLoad // nil where no load can be asked for
	output  output
	given   func(flag string) bool
}

// estimate is the command that predicts.
func (a *app) estimate() *cobra.Command {
	q := &question{load: &steadyLoad{}}
	cmd := &cobra.Command{
		Use:   "estimate MODEL GPU",
		Short: "Predict time, memory, energy and cost",
		Long: "Predict what it takes to serve a model on a GPU: whether it fits, the time to the first token " +
			"(TTFT) and for each one after it (TPOT), throughput, memory, energy and cost, what that rests on " +
			"and what would change it most. Each time has a floor, which nothing beats (data-sheet peaks, " +
			"perfect overlap), and an expected value with a 90 % interval.\n\n" +
			"What cannot run, for want of memory or context, is an answer too; it exits with 1.",
		Example: "  llmprof estimate llama3.1-8b h100\n" +
			"  llmprof estimate llama2-70b a100 --tp 8 --batch 32 --ops\n" +
			"  llmprof estimate deepseek-v3 h200 --tp 8 --kv fp8 --format json\n" +
			"  llmprof estimate ./config.json rtx-4090 --weights awq --prompt-len 8k",
		Args:              cli.Positional("model", "gpu"),
		ValidArgsFunction: completeModelThenGPU,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.given = cmd.Flags().Changed
			return a.runEstimate(cmd.Context(), q)
		},
	}
	q.flags(cmd)
	cli.Define(cmd, "Load", q.load.flags)
	cli.Rare(cmd, append([]string{"scheduler", "speculative-tokens", "acceptance", "prefix-hit-rate", "chunk", "cached-prefix", "ep"}, serverFlags...)...)
	cli.Define(cmd, cli.Output, q.estimateFlags)
	cli.Rare(cmd, "color", "binary", "verbose", "top")
	return cmd
}

// estimateFlags are about what an estimate shows.
func (q *question) estimateFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&q.shows.ops, "ops", false, "show every operator too")
	f.BoolVar(&q.shows.explain, "explain", false, "show what it is computed from and how too")
	f.BoolVar(&q.shows.full, "full", false, "show all of it: --explain and --ops")
	q.output.flags(cmd)
	f.BoolVar(&q.output.binary, "binary", false, "memory in GiB (2^30) rather than GB (10^9)")
	f.IntVar(&q.top, "top", 0, "show the `N` longest operators of each phase; 0 for all")
	f.BoolVarP(&q.verbose, "verbose", "v", false, "say on standard error what the estimate is computed from")
}

func (a *app) runEstimate(ctx context.Context, q *question) error {
	if err := q.check(); err != nil {
		return err
	}
	if s := &q.shows; (s.ops || s.explain || s.full) && (q.output.format == "json" || q.output.format == "csv") {
		return usage("--ops, --explain and --full are about a table: %s has all of it", q.output.format)
	}
	ans, err := a.answer(ctx, q)
	if err != nil {
		return err
	}
	if err := a.steady(ctx, q, ans); err != nil {
		return err
	}
	if q.verbose {
		for _, line := range ans.Inputs() {
			a.logf("%s", line)
		}
	}
	err = q.output.write(a, forms{page: q.page(ans), table: ans.Table, data: func() any { return ans.Document() }})
	if v := ans.Verdict(); err == nil && !v.Possible {
		return errors.New(v.Text)
	}
	return err
}

// page is as much of the estimate as is asked for.
func (q *question) page(ans *answer) func() *render.Document {
	switch s := &q.shows; {
	case s.full, s.explain && s.ops:
		return ans.Page
	case s.explain:
		return ans.Explanation
	case s.ops, q.given("top"):
		return ans.Operators
	}
	return ans.Brief
}
