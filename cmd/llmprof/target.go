package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"

	"llmprof"
	"llmprof/hardware"
)

func thisMachine(ctx context.Context) []device { return detect(ctx, os.DirFS("/"), true) }

// target is the GPU that is measured, and the UUIDs of those to use where not all
// of the machine's are of that kind. On a processor ("cpu") it is what name describes,
// else what gpus lists, of the kind that is called name if that is not empty.
func target(ctx context.Context, table *hardware.Table, on, name string, gpus func(context.Context) []device) (g hardware.GPU, uuids []string, err error) {
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
		return g, nil, errors.New("no GPU found to measure on: neither /proc/driver/nvidia/gpus nor /proc/device-tree/model nor nvidia-smi names one; " +
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
