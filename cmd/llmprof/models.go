package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/models"
	"llmprof/plots/render"
)

func (a *app) modelsList() *cobra.Command {
	o := &output{}
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the built-in models",
		Example: "  llmprof models list\n  llmprof models list --format csv",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			all, err := deployment.BuiltInModels().All()
			if err != nil {
				return err
			}
			return writeList(a, o, all, view.ModelsTable, func(m **models.Model) any { return view.SummarizeModel(*m) })
		},
	}
	o.flags(cmd)
	return cmd
}

func (a *app) modelsCheck() *cobra.Command {
	o := &output{}
	var lenient bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Read config.json files and say what models they are",
		Long: "Read config.json files, or directories that hold one, and say for each what model it is,\n" +
			"or why it is none that is known. \"-\" reads standard input. It fails if any of them does.",
		Example: "  llmprof models check ./config.json\n  llmprof models check --format json */config.json",
		Args:    cli.Needs("FILE", 1, -1),
		RunE: func(cmd *cobra.Command, args []string) error {
			check := func(file string) (view.ModelCheck, bool) {
				c := a.checkModel(cmd.Context(), file, lenient)
				return c, c.OK
			}
			return checkFiles(a, o, args, "%d of %d could not be read", check, view.ModelChecksPage, view.ModelChecksTable)
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&lenient, "lenient", false, "note what is not understood, instead of refusing it")
	return cmd
}

func (a *app) checkModel(ctx context.Context, file string, lenient bool) view.ModelCheck {
	m, err := a.readFile(ctx, file, lenient)
	c := view.CheckModel(file, m, err)
	if c.Error != nil { // without the "./" that readFile put before the name
		*c.Error = strings.Replace(*c.Error, here+file, file, 1)
	}
	return c
}

// here before a name makes it a path and nothing else.
const here = "." + string(filepath.Separator)

// mostStdin is the most of standard input that is read: more than any
// config.json that is accepted.
const mostStdin = 16 << 20

// readFile reads a path, which is never taken for a built-in name or a hub id.
func (a *app) readFile(ctx context.Context, file string, lenient bool) (*models.Model, error) {
	if file == "-" {
		data, err := io.ReadAll(io.LimitReader(a.stdin, mostStdin))
		if err != nil {
			return nil, fmt.Errorf("reading standard input: %w", err)
		}
		return models.Checkpoint{Config: data, Lenient: lenient}.Read("stdin")
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	path := file
	if !filepath.IsAbs(path) && !strings.HasPrefix(path, ".") {
		path = here + path
	}
	return models.Resolver{Table: &models.Table{}, Lenient: lenient}.Resolve(ctx, path)
}

func (a *app) modelsShow() *cobra.Command {
	o := &output{}
	var offline, lenient bool
	cmd := &cobra.Command{
		Use:     "show MODEL",
		Short:   "Show the shape of a model, matrix by matrix",
		Example: "  llmprof models show llama3.1-8b\n  llmprof models show ./config.json --format json",
		Args:    cli.Needs("MODEL", 1, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			m, err := a.library().Model(cmd.Context(), args[0], offline, lenient)
			if err != nil {
				return err
			}
			return o.write(a, forms{
				page:  func() *render.Document { return view.ModelPage(m, args[0], deployment.BuiltInModels().Aliases(m.Name)) },
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

func (a *app) modelsExport() *cobra.Command {
	var path string
	cmd := &cobra.Command{
		Use:   "export MODEL",
		Short: "Write the config.json of a built-in model",
		Long: "Write the fields of a built-in model's config.json that its shape needs, to edit them or to\n" +
			"give them to another program.",
		Example: "  llmprof models export qwen3-8b -o config.json",
		Args:    cli.Needs("MODEL", 1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			config, err := deployment.BuiltInModels().Config(args[0])
			if err != nil {
				return err
			}
			var text bytes.Buffer
			if err := json.Indent(&text, config, "", "  "); err != nil {
				return err
			}
			text.WriteByte('\n')
			return a.put("config.json", path, text.Bytes())
		},
		ValidArgsFunction: completeModels,
	}
	cmd.Flags().StringVarP(&path, "output", "o", "", "`file` (default: standard output)")
	return cmd
}

func completeModels(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return deployment.BuiltInModels().Names(), cobra.ShellCompDirectiveDefault
}

func completeModelThenGPU(cmd *cobra.Command, args []string, begun string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return completeModels(cmd, args, begun)
	case 1:
		return completeGPUs(cmd, args, begun)
	}
	return nil, cobra.ShellCompDirectiveNoFileComp
}
