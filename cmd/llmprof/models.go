package main

import (
	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/models"
)

func (a *app) models() *cobra.Command {
	return parent("models", "List, show or check models", a.modelsList(), a.modelsShow(), a.modelsCheck())
}

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
			return o.write(a, forms{
				page:  func() *render.Document { return listPage(view.ModelsTable(all)) },
				table: func() *render.Table { t := view.ModelsTable(all); return &t },
				data: func() any {
					list := make([]view.ModelSummary, len(all))
					for i, m := range all {
						list[i] = view.SummarizeModel(m)
					}
					return list
				},
			})
		},
	}
	o.flags(cmd)
	return cmd
}

func listPage(t render.Table) *render.Document {
	return &render.Document{Blocks: []render.Block{t}}
}
