package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/measure/aggregate"
	"llmprof/measure/result"
	"llmprof/validate"
)

func (a *app) resultsShow() *cobra.Command {
	o := &output{}
	var dir string
	var raw bool
	var may aggregate.Options
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show the result of an experiment",
		Long: "Show what the processes of an experiment measured, put together. With --raw, show each process\n" +
			"by itself: as JSON the stored results, as CSV every sample.",
		Example: "  llmprof results show example-c0\n  llmprof results show example-c0 --raw --format csv",
		Args:    cli.Needs("ID", 1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			all, broken := result.ReadFolder(dir)
			if all == nil && broken != nil {
				return broken
			}
			found, err := ofID(all, args[0])
			if err != nil {
				if broken != nil {
					err = fmt.Errorf("%w\n%w", err, unreadable(broken))
				}
				return err
			}
			scorer, err := a.scorer("", "")
			if err != nil {
				return err
			}
			if raw {
				return o.write(a, rawForms(found, scorer))
			}
			report, err := a.makeReport(found, may)
			if err != nil {
				return err
			}
			return o.write(a, withOperators(reportForms(report), found, scorer))
		},
	}
	o.flags(cmd)
	resultsFlag(cmd, &dir)
	cmd.Flags().BoolVar(&raw, "raw", false, "each process by itself, with all samples")
	allowFlags(cmd, &may)
	return cmd
}

// withOperators adds the operators of the processes to a page.
func withOperators(forms forms, all []*result.Result, s *validate.Scorer) forms {
	page := forms.page
	forms.page = func() *render.Document {
		d := page()
		d.Blocks = append(d.Blocks, view.OperatorBlocks(s, all)...)
		return d
	}
	return forms
}

// rawForms are the results of an experiment as they are stored.
func rawForms(all []*result.Result, s *validate.Scorer) forms {
	return forms{
		page:  func() *render.Document { return view.ProcessPage(all, s) },
		table: func() *render.Table { return view.SampleTable(all) },
		data:  func() any { return all },
	}
}
