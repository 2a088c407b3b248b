package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/deployment"
	"llmprof/hardware"
	"llmprof/measure/calibrate"
	"llmprof/measure/detect"
	"llmprof/plots/render"
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
			t, err := a.library().GPUs(file)
			if err != nil {
				return err
			}
			return writeList(a, o, t.All(), view.GPUsTable, func(g *hardware.GPU) any { return view.DocumentGPU(g) })
		},
	}
	o.flags(cmd)
	hardwareFlag(cmd.Flags(), &file)
	return cmd
}

func hardwareFlag(f *pflag.FlagSet, file *string) {
	f.StringVar(file, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
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
			g, err := a.library().GPU(args[0], file)
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
	hardwareFlag(cmd.Flags(), &file)
	return cmd
}

func completeGPUs(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return deployment.BuiltInGPUs().Names(), cobra.ShellCompDirectiveNoFileComp
}

// practice is what estimates assume that a GPU reaches.
func practice(g *hardware.GPU) hardware.Calibration {
	if f, err := hardware.BuiltIn(llmprof.Calibrations, g, calibrate.Native); err == nil && f != nil {
		c, _ := f.Apply(g, calibrate.Native) // BuiltIn checked it
		return c
	}
	return hardware.DefaultCalibration(g)
}

func (a *app) gpusCheck() *cobra.Command {
	o := &output{}
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Check hardware files as --hardware reads them",
		Long: "Lay each hardware file over the built-in table and say what it adds, or what is wrong in it\nand where. It fails if any of " +
			"them does.",
		Example: "  llmprof gpus check ./hardware.toml",
		Args:    cli.Needs("FILE", 1, -1),
		RunE: func(_ *cobra.Command, args []string) error {
			table := deployment.BuiltInGPUs()
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

func (a *app) gpusDetect() *cobra.Command {
	o := &output{}
	var file, root string
	cmd := &cobra.Command{
		Use:   "detect",
		Short: "Say which GPUs this machine has",
		Long: "Say which GPUs this machine has and what they are called in the table, from what the driver\n" +
			"writes under /proc, a Jetson's device tree, or nvidia-smi. It fails if there is none.",
		Example: "  llmprof gpus detect --format json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			table, err := a.library().GPUs(file)
			if err != nil {
				return err
			}
			found, err := detect.List(cmd.Context(), os.DirFS(root), root == "/")
			if err != nil {
				return fmt.Errorf("no GPU found: %w", err)
			}
			if len(found) == 0 {
				return errors.New("no GPU found: " + detect.None)
			}
			unknown := detect.Match(table, found)
			detect.Clocks(cmd.Context(), os.DirFS(root), root == "/", found)
			detect.Hosts(os.DirFS(root), found)
			err = o.write(a, forms{
				page:  func() *render.Document { return view.DevicesPage(found) },
				table: func() *render.Table { t := view.DevicesTable(found); return &t },
				data:  func() any { return found },
			})
			if err == nil && unknown > 0 {
				err = fmt.Errorf("%d of %d GPUs are not in the table", unknown, len(found))
			}
			return err
		},
	}
	o.flags(cmd)
	hardwareFlag(cmd.Flags(), &file)
	cmd.Flags().StringVar(&root, "root", "/", "`folder` that the host's /proc is in")
	return cmd
}
