// Package detect says which GPUs a machine has, and which of them is measured.
package detect

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"

	"llmprof/hardware"
	"llmprof/internal/procfs"
	"llmprof/measure/power"
	"llmprof/unit"
)

// None says that no GPU was found, and where it was looked for.
const None = "neither /proc/driver/nvidia/gpus nor /proc/device-tree/model nor nvidia-smi names one"

// A Device is a GPU as the machine names it.
type Device struct {
	Name   string      `json:"name"`
	Bus    *string     `json:"bus_id"`
	UUID   *string     `json:"uuid"`
	Memory *unit.Bytes `json:"memory_bytes"` // in all, as the driver reports it
	Key    *string     `json:"key"`          // in the table
	Error  *string     `json:"error"`
	Host   *string     `json:"host,omitempty"` // the host around it, as flags of an estimate; null where it is not told
	Clocks *string     `json:"clocks"`         // at this moment, of the greatest; null where no sensor reports them
}

// List lists the GPUs that a file system names. The driver's files have no
// memory size, so where nvidia-smi can be asked it is asked first. Where there are none, an nvidia-smi that fails is an error.
func List(ctx context.Context, root fs.FS, here bool) ([]Device, error) {
	found := procDevices(root)
	if len(found) == 0 {
		found = jetson(root)
	}
	if here && (len(found) == 0 || found[0].Memory == nil) {
		named, err := nvidiaSMI(ctx)
		if len(named) > 0 || err != nil && len(found) == 0 && !errors.Is(err, exec.ErrNotFound) {
			return named, err
		}
	}
	return found, nil
}

// Hosts adds the host around the GPUs, as flags of an estimate.
func Hosts(root fs.FS, found []Device) {
	h, err := hostOf(root)
	if err != nil {
		return
	}
	for i := range found {
		found[i].Host = new(hostFlags(&h))
	}
}

// Clocks adds the clocks at which the GPUs run now, where a sensor reports them.
func Clocks(ctx context.Context, root fs.FS, here bool, found []Device) {
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
				d.Clocks = unit.OrNull(power.Clocks(&now[i]))
			}
		}
	}
}

// procDevices reads the NVIDIA driver's files: lines of "Key:  value".
func procDevices(root fs.FS) []Device {
	files, err := fs.Glob(root, "proc/driver/nvidia/gpus/*/information")
	if err != nil {
		return nil
	}
	var found []Device
	for _, file := range files {
		text, err := fs.ReadFile(root, file)
		if err != nil {
			continue
		}
		d := Device{}
		for line := range strings.Lines(string(text)) {
			key, value, _ := strings.Cut(line, ":")
			switch value = strings.TrimSpace(value); strings.TrimSpace(key) {
			case "Model":
				d.Name = value
			case "GPU UUID":
				d.UUID = unit.OrNull(value)
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
func jetson(root fs.FS) []Device {
	name := procfs.Board(root)
	if !strings.Contains(strings.ToLower(name), "jetson") {
		return nil
	}
	d := Device{Name: name}
	if n := procfs.Memory(root); n != nil {
		d.Memory = new(unit.Bytes(*n))
	}
	return []Device{d}
}

func nvidiaSMI(ctx context.Context) (found []Device, err error) {
	all, err := power.List(ctx)
	for _, g := range all {
		found = append(found, Device{Name: g.Name, Bus: unit.OrNull(g.Bus), UUID: unit.OrNull(g.UUID), Memory: g.Memory})
	}
	return found, err
}

// Match finds the devices in the table, and counts those that are not in it.
func Match(table *hardware.Table, found []Device) (unknown int) {
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

// Here lists the GPUs of this machine.
func Here(ctx context.Context) []Device {
	found, _ := List(ctx, os.DirFS("/"), true) // Without a GPU there may be a broken driver.
	return found
}

// Target is the kind of GPU that is measured. Where the machine has other kinds too, uuids are those to use. The kind is
// the one that is called name, else the one that gpus lists; on a processor ("cpu") name describes it.
func Target(ctx context.Context, table *hardware.Table, on, name string, gpus func(context.Context) []Device) (g hardware.GPU,
	uuids []string, err error) {
	if name != "" {
		if g, err = table.GPU(name); err != nil {
			return g, nil, unit.Wrong(err)
		}
	}
	if on == "cpu" {
		return g, nil, nil
	}
	found := gpus(ctx)
	if len(found) == 0 {
		return g, nil, unit.Failf("no GPU found to measure on: %s; {device} cpu measures on the processor", None)
	}
	Match(table, found)
	if name == "" {
		g, err = onlyKind(table, found)
		return g, nil, err
	}
	of := slices.IndexFunc(found, func(d Device) bool { return d.Key != nil && *d.Key == g.Key })
	unlike := slices.ContainsFunc(found, func(d Device) bool { return d.Key == nil || *d.Key != g.Key })
	switch {
	case of < 0 && !slices.ContainsFunc(found, func(d Device) bool { return d.Key == nil }):
		return g, nil, unit.Errorf("{gpu} %s: this machine has %s; leave {gpu} out, or change that entry with {hardware}", name, *found[0].Key)
	case of >= 0 && unlike && found[of].UUID != nil:
		uuids = []string{*found[of].UUID}
	}
	return g, uuids, nil
}

// Processor refuses what is measured on a processor and would be set against what a
// GPU is predicted to do: one of a generation that the table has GPUs of.
func Processor(table *hardware.Table, g *hardware.GPU) error {
	if !slices.ContainsFunc(table.All(), func(known hardware.GPU) bool { return known.Generation == g.Generation }) {
		return nil
	}
	return unit.Errorf("{device} cpu {gpu} %s: %s is a GPU (of generation %q), and what a processor does says nothing of it; "+
		"describe the processor in a file for {hardware}, with generation = \"cpu\", as docs/validate-live.md does",
		g.Key, g.Name, g.Generation)
}

// onlyKind is the kind of GPU that all devices are of.
func onlyKind(table *hardware.Table, found []Device) (g hardware.GPU, err error) {
	for _, d := range found {
		switch {
		case d.Key == nil:
			return g, unit.Failf("%s; name it with {gpu}, or describe it in a file for {hardware}", *d.Error)
		case *d.Key != *found[0].Key:
			return g, unit.Errorf("this machine has unlike GPUs, %s and %s: name the one to measure with {gpu}", *found[0].Key, *d.Key)
		}
	}
	return table.GPU(*found[0].Key)
}
