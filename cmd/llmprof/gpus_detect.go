package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
	"llmprof/measure/power"
	"llmprof/unit"
)

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
			table, err := a.GPUs(file)
			if err != nil {
				return err
			}
			found := detect(cmd.Context(), os.DirFS(root), root == "/")
			if len(found) == 0 {
				return errors.New("no GPU found: neither /proc/driver/nvidia/gpus nor /proc/device-tree/model nor nvidia-smi names one")
			}
			unknown := match(table, found)
			clocks(cmd.Context(), os.DirFS(root), root == "/", found)
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
	hardwareFlag(cmd, &file)
	cmd.Flags().StringVar(&root, "root", "/", "`folder` that the host's /proc is in")
	return cmd
}

// A device is a GPU as the machine names it.
type device = view.Device

// detect lists the GPUs that a file system names. The driver's files have no
// memory size, so where nvidia-smi can be asked it is asked first.
func detect(ctx context.Context, root fs.FS, here bool) []device {
	found := procDevices(root)
	if len(found) == 0 {
		found = jetson(root)
	}
	if here && (len(found) == 0 || found[0].Memory == nil) {
		if named := nvidiaSMI(ctx); len(named) > 0 {
			return named
		}
	}
	return found
}

// clocks adds the clocks at which the GPUs run now, where a sensor reports them.
func clocks(ctx context.Context, root fs.FS, here bool, found []device) {
	m, err := power.Open(ctx, power.Options{Root: root, NoGPUs: !here})
	if err != nil {
		return
	}
	defer m.Close()
	now, err := m.Now()
	if err != nil {
		return
	}
	for i := range now {
		for j := range found {
			if d := &found[j]; d.UUID != nil && *d.UUID == now[i].UUID || now[i].UUID == "" && len(found) == 1 {
				d.Clocks = view.OrNull(power.Clocks(&now[i]))
			}
		}
	}
}

// procDevices reads the NVIDIA driver's files: lines of "Key:  value".
func procDevices(root fs.FS) []device {
	files, err := fs.Glob(root, "proc/driver/nvidia/gpus/*/information")
	if err != nil {
		return nil
	}
	var found []device
	for _, file := range files {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		d := device{}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
			case "Model":
				d.Name = value
			case "GPU UUID":
				d.UUID = view.OrNull(value)
			}
		}
		bus := path.Base(path.Dir(file))
		if d.Bus = &bus; d.Name != "" {
			found = append(found, d)
		}
	}
	return found
}

// jetson reads the device tree of a Jetson, whose memory is the system's.
func jetson(root fs.FS) []device {
	text, err := fs.ReadFile(root, "proc/device-tree/model")
	name := strings.TrimRight(string(text), "\x00\n")
	if err != nil || !strings.Contains(strings.ToLower(name), "jetson") {
		return nil
	}
	d := device{Name: name}
	if info, err := fs.ReadFile(root, "proc/meminfo"); err == nil {
		d.Memory = memTotal(string(info))
	}
	return []device{d}
}

// memTotal reads the line "MemTotal:  16054180 kB" of /proc/meminfo, whose kB
// are KiB.
func memTotal(meminfo string) *unit.Bytes {
	for line := range strings.Lines(meminfo) {
		f := strings.Fields(line)
		if len(f) < 2 || f[0] != "MemTotal:" {
			continue
		}
		if kib, err := strconv.ParseUint(f[1], 10, 50); err == nil {
			return new(unit.Bytes(kib * 1024))
		}
	}
	return nil
}

// nvidiaSMI asks the driver's tool.
func nvidiaSMI(ctx context.Context) (found []device) {
	all, _ := power.List(ctx) // The tool is there or not.
	for i := range all {
		g := &all[i]
		found = append(found, device{Name: g.Name, Bus: view.OrNull(g.Bus), UUID: view.OrNull(g.UUID), Memory: g.Memory})
	}
	return found
}

// match finds the devices in the table, and counts those that are not in it.
func match(table *hardware.Table, found []device) (unknown int) {
	for i := range found {
		d := &found[i]
		var memory unit.Bytes
		if d.Memory != nil {
			memory = *d.Memory
		}
		g, err := table.Match(d.Name, memory)
		if err != nil {
			d.Error = new(err.Error())
			unknown++
			continue
		}
		d.Key = &g.Key
	}
	return unknown
}
