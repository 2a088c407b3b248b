package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
)

func (a *app) gpusCheck() *cobra.Command {
	o := &output{}
	cmd := &cobra.Command{
		Use:     "check FILE...",
		Short:   "Check hardware files as --hardware reads them",
		Long:    "Lay each hardware file over the built-in table and say what it adds, or what is wrong in it\nand where. It fails if any of them does.",
		Example: "  llmprof gpus check ./hardware.toml",
		Args:    cli.Needs("FILE", 1, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			table, err := hardware.Load(llmprof.HardwareTOML)
			if err != nil {
				return err
			}
			checks := make([]view.HardwareCheck, len(args))
			failed := 0
			for i, file := range args {
				if checks[i] = view.CheckHardware(table, file); !checks[i].OK {
					failed++
				}
			}
			err = o.write(a, forms{
				page:  func() *render.Document { return view.HardwareChecksPage(checks) },
				table: func() *render.Table { t := view.HardwareChecksTable(checks); return &t },
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
