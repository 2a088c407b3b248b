package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/models"
)

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

// checkModel reads one file.
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
