package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
)

// gpuTable is the built-in table overlaid with the user's: of the file
// that was named, else of the one in the configuration folder, if there is one.
func (a *app) gpuTable(file string) (*hardware.Table, error) {
	t, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		return nil, err
	}
	if file != "" {
		return t.OverlayFile(file)
	}
	if path, err := hardware.UserFile(); err == nil {
		u, err := t.OverlayFile(path)
		if !errors.Is(err, fs.ErrNotExist) {
			return u, err
		}
	}
	return t, nil
}

// gpu looks a GPU up.
func (a *app) gpu(name, file string) (*hardware.GPU, error) {
	if file == "" && !userFileExists() {
		g, err := hardware.Find(llmprof.HardwareTOML, name)
		return &g, err
	}
	t, err := a.gpuTable(file)
	if err != nil {
		return nil, err
	}
	g, err := t.GPU(name)
	if err != nil {
		return nil, err
	}
	return &g, nil
}

// userFileExists reports whether the user has a table of GPUs, or may have: what
// cannot be looked at is left to the reader to report.
func userFileExists() bool {
	path, err := hardware.UserFile()
	if err != nil {
		return false
	}
	_, err = os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func (a *app) gpusList() *cobra.Command {
	o := &output{}
	var file string
	cmd := &cobra.Command{
		Use:     "list",
		Short:   "List the GPUs that are known",
		Example: "  llmprof gpus list\n  llmprof gpus list --format csv",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			t, err := a.gpuTable(file)
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
