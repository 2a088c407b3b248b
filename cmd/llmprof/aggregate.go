package main

import (
	"errors"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/measure/aggregate"
	"llmprof/measure/result"
	"llmprof/plots/render"
)

func (a *app) aggregate() *cobra.Command {
	o := &output{}
	var dir string
	var all bool
	var may aggregate.Options
	cmd := &cobra.Command{
		Use:   "aggregate [ID|FILE | --all]",
		Short: "Put the processes of an experiment together",
		Long: "Put together what the processes of an experiment measured: energies, tokens and FLOPs summed,\n" +
			"percentiles over the samples of all. It checks that the processes ran at the same time, each on\n" +
			"GPUs of its own, with one configuration, and that none is missing. Repeats of a configuration\n" +
			"(cycles) are compared.",
		Example: "  llmprof aggregate example-c0\n  llmprof aggregate --all --format json -o aggregate.out",
		Args:    cli.Needs("ID", 0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if (len(args) == 1) == all {
				return usage("aggregate what? Give the ID of an experiment, or --all")
			}
			var results []*result.Result
			var broken error
			if all {
				if results, broken = result.ReadFolder(dir); results == nil && broken != nil {
					return broken
				}
			} else {
				var err error
				if results, err = experimentOf(cmd, dir, args[0]); err != nil {
					return err
				}
			}
			report, err := a.makeReport(results, may)
			if report == nil {
				return err
			}
			return errors.Join(o.write(a, reportForms(report)), err, unreadable(broken))
		},
	}
	o.flags(cmd)
	resultsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&all, "all", false, "every experiment of the folder")
	allowFlags(cmd, &may)
	return cmd
}

func allowFlags(cmd *cobra.Command, o *aggregate.Options) {
	cmd.Flags().BoolVar(&o.AllowMixed, "allow-mixed", false, "add processes of other configurations all the same")
	cmd.Flags().BoolVar(&o.AllowMissing, "allow-missing", false, "add what is there where processes are missing")
}

// makeReport aggregates results, with FLOPs from the table of models. Of some
// that cannot be aggregated the error is beside the report of the others; nil
// is returned where there are no others.
func (a *app) makeReport(results []*result.Result, o aggregate.Options) (*aggregate.Report, error) {
	o.FLOPs = aggregate.Analytic(deployment.BuiltInModels())
	report, err := aggregate.Make(results, o)
	if err != nil && len(report.Experiments) == 0 {
		return nil, err
	}
	return report, err
}

func reportForms(r *aggregate.Report) forms {
	return forms{
		page:  func() *render.Document { return view.AggregatePage(r) },
		table: func() *render.Table { return view.AggregateTable(r) },
		data:  func() any { return r },
	}
}
