package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"llmprof"
	"llmprof/cmd/llmprof/internal/cli"
	"llmprof/cmd/llmprof/internal/render"
	"llmprof/cmd/llmprof/internal/view"
	"llmprof/hardware"
	"llmprof/measure/calibrate"
	"llmprof/measure/power"
	"llmprof/unit"
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
	table, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return table.Names(), cobra.ShellCompDirectiveNoFileComp
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
			found := detect(cmd.Context(), os.DirFS(root), root == "/")
			if len(found) == 0 {
				return errors.New("no GPU found: neither /proc/driver/nvidia/gpus nor /proc/device-tree/model nor nvidia-smi names one")
			}
			unknown := match(table, found)
			clocks(cmd.Context(), os.DirFS(root), root == "/", found)
			inHost(os.DirFS(root), found)
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

// inHost adds the host around the GPUs, as flags of an estimate.
func inHost(root fs.FS, found []device) {
	h, err := hardware.DetectHost(root)
	if err != nil {
		return
	}
	for i := range found {
		found[i].Host = new(h.Flags())
	}
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

func nvidiaSMI(ctx context.Context) (found []device) {
	all, _ := power.List(ctx) // The tool is there or not.
	for _, g := range all {
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

func thisMachine(ctx context.Context) []device { return detect(ctx, os.DirFS("/"), true) }

// target is the kind of GPU that is measured. Where the machine has other kinds too, uuids are those to use. The kind is
// the one that is called name, else the one that gpus lists; on a processor ("cpu") name describes it.
func target(ctx context.Context, table *hardware.Table, on, name string, gpus func(context.Context) []device) (g hardware.GPU,
	uuids []string, err error) {
	if name != "" {
		if g, err = table.GPU(name); err != nil {
			return g, nil, wrong(err)
		}
	}
	if on == "cpu" {
		return g, nil, nil
	}
	found := gpus(ctx)
	if len(found) == 0 {
		return g, nil, errors.New("no GPU found to measure on: neither /proc/driver/nvidia/gpus nor /proc/device-tree/model nor nvidia-smi " +
			"names one; " +
			"--device cpu measures on the processor")
	}
	match(table, found)
	if name == "" {
		g, err = onlyKind(table, found)
		return g, nil, err
	}
	of := slices.IndexFunc(found, func(d device) bool { return d.Key != nil && *d.Key == g.Key })
	unlike := slices.ContainsFunc(found, func(d device) bool { return d.Key == nil || *d.Key != g.Key })
	switch {
	case of < 0 && !slices.ContainsFunc(found, func(d device) bool { return d.Key == nil }):
		return g, nil, usage("--gpu %s: this machine has %s; leave --gpu out, or change that entry with --hardware", name, *found[0].Key)
	case of >= 0 && unlike && found[of].UUID != nil:
		uuids = []string{*found[of].UUID}
	}
	return g, uuids, nil
}

// processor refuses what is measured on a processor and would be set against what a
// GPU is predicted to do: one of a generation that the built-in table has GPUs of.
func processor(g *hardware.GPU) error {
	table, err := hardware.Load(llmprof.HardwareTOML)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(table.All(), func(known hardware.GPU) bool { return known.Generation == g.Generation }) {
		return nil
	}
	return usage("--device cpu --gpu %s: %s is a GPU (of generation %q), and what a processor does says nothing of it; "+
		"describe the processor in a file for --hardware, with generation = \"cpu\", as docs/validate-live.md does",
		g.Key, g.Name, g.Generation)
}

// onlyKind is the kind of GPU that all devices are of.
func onlyKind(table *hardware.Table, found []device) (g hardware.GPU, err error) {
	for _, d := range found {
		switch {
		case d.Key == nil:
			return g, fmt.Errorf("%s; name it with --gpu, or describe it in a file for --hardware", *d.Error)
		case *d.Key != *found[0].Key:
			return g, usage("this machine has unlike GPUs, %s and %s: name the one to measure with --gpu", *found[0].Key, *d.Key)
		}
	}
	return table.GPU(*found[0].Key)
}
