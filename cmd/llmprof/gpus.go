package main

import (
	"errors"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"llmprof"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/hardware"
	"llmprof/unit"
)

func (a *app) gpus() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "gpus",
		Short: "List, show, check or detect GPUs",
		Args:  noArgs,
		RunE:  needCommand,
	}
	cmd.AddCommand(a.gpusList(), a.gpusShow(), a.gpusCheck(), a.gpusDetect())
	return cmd
}

// gpuTable is the built-in table with the user's own laid over it: of the file
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

// userFileExists reports whether the user has GPUs of his own, or may have: what
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
			if err := o.check(); err != nil {
				return err
			}
			t, err := a.gpuTable(file)
			if err != nil {
				return err
			}
			all := t.All()
			return o.write(a, result{
				page:  func() *render.Document { return listPage(gpuList(all)) },
				table: func() *render.Table { t := gpuList(all); return &t },
				data: func() any {
					list := make([]sheetJSON, len(all))
					for i := range all {
						list[i] = sheetOf(&all[i])
					}
					return list
				},
			})
		},
	}
	o.flags(cmd)
	hardwareFlag(cmd, &file)
	return cmd
}

func hardwareFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "hardware", "", "TOML `FILE` of GPUs that overlays the built-in table")
}

// gpuList is the table of GPUs, one a row.
func gpuList(all []hardware.GPU) render.Table {
	rate := func(f unit.Format, drop int) render.Column {
		return render.Column{Title: f.String(), Key: f.String() + "_flop_per_s", Unit: "TFLOP/s", Fixed: true, By: 1e12, Drop: drop}
	}
	t := render.Table{Columns: []render.Column{
		{Title: "name", Key: "key", Left: true}, {Title: "generation", Key: "generation", Left: true, Drop: 2},
		{Title: "memory", Key: "memory_bytes", Unit: "GB", Fixed: true, By: 1e9},
		{Title: "speed", Key: "bandwidth_bytes_per_s", Unit: "GB/s", Fixed: true, By: 1e9},
	}}
	for _, f := range unit.Formats() {
		drop := 4
		switch f {
		case unit.BF16, unit.FP8:
			drop = 0
		case unit.FP16:
			drop = 3
		}
		t.Columns = append(t.Columns, rate(f, drop))
	}
	t.Columns = append(t.Columns,
		render.Column{Title: "link", Key: "link_bytes_per_s", Unit: "GB/s", Fixed: true, By: 1e9, Drop: 1},
		render.Column{Title: "power", Key: "tdp_w", Unit: "W", Fixed: true},
		render.Column{Title: "price", Key: "price_usd_per_hour", Unit: "$/h", Fixed: true, Places: 2, Drop: 1})
	for i := range all {
		g := &all[i]
		cells := []any{g.Key, g.Generation, g.Memory, g.Bandwidth}
		for _, f := range unit.Formats() {
			cells = append(cells, known(g.Peak(f)))
		}
		cells = append(cells, known(g.Link, g.Link > 0), g.TDP, known(g.Price()))
		t.Rows = append(t.Rows, render.Row{Cells: cells})
	}
	return t
}

// known is q, or nil if it is not known.
func known[Q any](q Q, ok bool) any {
	if !ok {
		return nil
	}
	return q
}
