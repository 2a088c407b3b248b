package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/view"
)

// schema shows or writes the JSON Schemas of what commands write.
func (a *app) schema() *cobra.Command {
	forms := view.Forms()
	var dir string
	cmd := &cobra.Command{
		Use:   "schema [NAME]",
		Short: "Show the JSON Schema of a document, or write all of them",
		Long: "Show the JSON Schema of what a command writes as JSON, or write those of all documents to a folder.\n\n" +
			"Documents: " + strings.Join(forms.Names(), ", ") + ".",
		Example: "  llmprof schema estimate\n  llmprof schema --dir schema",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if dir != "" && len(args) == 0 {
				return writeSchemas(dir)
			}
			if len(args) == 0 || dir != "" {
				return usage("schema needs the name of a document, or --dir alone")
			}
			text, err := forms.Named(args[0], llmprof.Sources)
			if err != nil {
				return wrong(err)
			}
			_, err = a.stdout.Write(text)
			return err
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "write the schemas of all documents to `FOLDER`")
	return cmd
}

func writeSchemas(dir string) error {
	forms := view.Forms()
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, name := range forms.Names() {
		text, err := forms.Named(name, llmprof.Sources)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, name+".json"), text); err != nil {
			return err
		}
	}
	return nil
}
