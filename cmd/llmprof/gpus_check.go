package main

import (
	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/cli"
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
			check := func(file string) (view.HardwareCheck, bool) {
				c := view.CheckHardware(table, file)
				return c, c.OK
			}
			return checkFiles(a, o, args, "%d of %d could not be read", check, view.HardwareChecksPage, view.HardwareChecksTable)
		},
	}
	o.flags(cmd)
	return cmd
}
