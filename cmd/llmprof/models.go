package main

import (
	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/models"
)

func (a *app) modelsList() *cobra.Command {
	o := &output{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the built-in models",
		Example: "  llmprof models list\n  llmprof models list --format csv",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			table, err := models.Load(llmprof.ModelsJSON)
			if err != nil {
				return err
			}
			all, err := table.All()
			if err != nil {
				return err
			}
			return writeList(a, o, all, view.ModelsTable, func(m **models.Model) any { return view.SummarizeModel(*m) })
		},
	}
	o.flags(cmd)
	return cmd
}
