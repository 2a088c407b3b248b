package main

import (
	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
)

func (a *app) gpusList() *cobra.Command {
	o := &output{}
	var file string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the GPUs that are known",
		Example: "  llmprof gpus list\n  llmprof gpus list --format csv",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			t, err := a.GPUs(file)
			if err != nil {
				return err
			}
			return writeList(a, o, t.All(), view.GPUsTable, func(g *hardware.GPU) any { return view.DocumentGPU(g) })
		},
	}
	o.flags(cmd)
	hardwareFlag(cmd, &file)
	return cmd
}

func hardwareFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
}

func (a *app) gpusShow() *cobra.Command {
	o := &output{}
	var file string
	cmd := &cobra.Command{
		Use:     "show GPU",
		Short:   "Show what a GPU can do, and what it does in practice",
		Example: "  llmprof gpus show h200\n  llmprof gpus show a100 --format json",
		Args:    cli.Needs("GPU", 1, 1),
		RunE: func(_ *cobra.Command, args []string) error {
			g, err := a.GPU(args[0], file)
			if err != nil {
				return err
			}
			return o.write(a, forms{
				page:  func() *render.Document { c := practice(g); return view.GPUPage(g, args[0], &c) },
				table: func() *render.Table { t := view.PeaksTable(g); return &t },
				data:  func() any { return view.DocumentGPU(g) },
			})
		},
		ValidArgsFunction: completeGPUs,
	}
	o.flags(cmd)
	hardwareFlag(cmd, &file)
	return cmd
}

// completeGPUs offers the names of the built-in GPUs.
func completeGPUs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	table, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return table.Names(), cobra.ShellCompDirectiveNoFileComp
}

// practice is what estimates assume that a GPU reaches.
func practice(g *hardware.GPU) hardware.Calibration {
	if f, err := hardware.BuiltIn(llmprof.Calibrations, g, "native"); err == nil && f != nil {
		c, _ := f.Apply(g, "native") // BuiltIn checked it
		return c
	}
	return hardware.DefaultCalibration(g)
}

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
