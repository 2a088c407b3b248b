package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/hardware"
)

func (a *app) gpusCheck() *cobra.Command {
	o := &output{}
	cmd := &cobra.Command{
		Use:     "check FILE...",
		Short:   "Check hardware files as --hardware reads them",
		Long:    "Lay each hardware file over the built-in table and say what it adds, or what is wrong in it\nand where. It fails if any of them does.",
		Example: "  llmprof gpus check ./hardware.toml",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := o.check(); err != nil {
				return err
			}
			table, err := hardware.Load(llmprof.HardwareTOML)
			if err != nil {
				return err
			}
			checks := make([]sheetCheck, len(args))
			failed := 0
			for i, file := range args {
				if checks[i] = checkSheet(table, file); !checks[i].OK {
					failed++
				}
			}
			err = o.write(a, result{
				page:  func() *render.Document { return sheetPage(checks) },
				table: func() *render.Table { t := sheetTable(checks); return &t },
				data:  func() any { return checks },
			})
			if err == nil && failed > 0 {
				err = fmt.Errorf("%d of %d could not be read", failed, len(checks))
			}
			return err
		},
	}
	o.flags(cmd)
	return cmd
}

// A sheetCheck is what was found in one hardware file.
type sheetCheck struct {
	File  string   `json:"file"`
	OK    bool     `json:"ok"`
	Error *string  `json:"error"`
	Added []string `json:"added"` // keys that the built-in table lacks
	GPUs  *int     `json:"gpus"`  // with the built-in ones
}

func checkSheet(table *hardware.Table, file string) sheetCheck {
	t, err := table.OverlayFile(file)
	if err != nil {
		text := err.Error()
		return sheetCheck{File: file, Error: &text}
	}
	names := t.Names()
	n := len(names)
	return sheetCheck{File: file, OK: true, Added: append([]string{}, names[len(table.Names()):]...), GPUs: &n}
}

func sheetTable(checks []sheetCheck) render.Table {
	t := render.Table{Columns: []render.Column{
		{Title: "file", Key: "file", Left: true}, {Title: "ok", Key: "ok", Left: true},
		{Title: "added", Key: "added"}, {Title: "GPUs in all", Key: "gpus"}, {Title: "error", Key: "error", Left: true},
	}}
	for i := range checks {
		c := &checks[i]
		if !c.OK {
			t.Rows = append(t.Rows, render.Row{Cells: []any{c.File, render.Painted{Value: "no", Color: render.Bad}, nil, nil, *c.Error}})
			continue
		}
		t.Rows = append(t.Rows, render.Row{Cells: []any{c.File, render.Painted{Value: "yes", Color: render.Good}, len(c.Added), *c.GPUs, nil}})
	}
	return t
}

func sheetPage(checks []sheetCheck) *render.Document {
	t := sheetTable(checks)
	t.Columns = t.Columns[:len(t.Columns)-1]
	var failed []string
	for i := range checks {
		t.Rows[i].Cells = t.Rows[i].Cells[:len(t.Columns)]
		if e := checks[i].Error; e != nil {
			failed = append(failed, *e)
		}
	}
	return &render.Document{Blocks: []render.Block{t, render.Notes{Title: "Not read", Items: failed}}}
}
