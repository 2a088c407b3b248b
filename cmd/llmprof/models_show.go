package main

import (
	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/models"
)

func (a *app) modelsShow() *cobra.Command {
	o := &output{}
	var offline, lenient bool
	cmd := &cobra.Command{
		Use:     "show MODEL",
		Short:   "Show the shape of a model, matrix by matrix",
		Example: "  llmprof models show llama3.1-8b\n  llmprof models show ./config.json --format json",
		Args:    cli.Needs("MODEL", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.Model(cmd.Context(), args[0], offline, lenient)
			if err != nil {
				return err
			}
			return o.write(a, forms{
				page:  func() *render.Document { return view.ModelPage(m, args[0], aliasesOf(m.Name)) },
				table: func() *render.Table { t := view.MatrixTable(m); return &t },
				data:  func() any { return view.DocumentModel(m) },
			})
		},
		ValidArgsFunction: completeModels,
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&offline, "offline", false, "never use the network")
	cmd.Flags().BoolVar(&lenient, "lenient", false, "note what of a config.json is not understood, instead of refusing it")
	return cmd
}

// completeModels offers the names of the built-in models.
func completeModels(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return table.Names(), cobra.ShellCompDirectiveDefault
}

// completeModelThenGPU completes the arguments MODEL and GPU.
func completeModelThenGPU(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return completeModels(cmd, args, begun)
	case 1:
		return completeGPUs(cmd, args, begun)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}

// aliasesOf lists the other names of a built-in model.
func aliasesOf(name string) []string {
	table, err := models.Load(llmprof.ModelsJSON)
	if err != nil {
		return nil
	}
	return table.Aliases(name)
}
