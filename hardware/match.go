package hardware

import (
	"fmt"
	"math"
	"strings"

	"llmprof/unit"
)

// memoryTolerance is how far the memory that a system reports may be from the
// entry's: a driver keeps some back, and vendors sell GiB as GB (7 %).
const memoryTolerance = 0.15

// Match finds the GPU that a driver means by a device name, as NVML,
// nvidia-smi, rocm-smi or /proc/device-tree/model give it. The memory that the
// system reports in all distinguishes variants; 0 means it is not known.
func (t *Table) Match(name string, memory unit.Bytes) (GPU, error) {
	name = strings.TrimSpace(strings.TrimRight(name, "\x00")) // the device tree ends strings in NUL
	var fits, all []string
	var found GPU
	nearest := math.Inf(1)
	for _, i := range t.devices[fold(name)] {
		g := t.gpus[i]
		all = append(all, fmt.Sprintf("%s (%v)", g.Key, g.Memory))
		off := g.memoryOff(memory)
		if memory != 0 && !(off <= memoryTolerance) {
			continue
		}
		fits = append(fits, g.Key)
		if off < nearest || len(fits) == 1 {
			found, nearest = g, off
		}
	}
	switch {
	case len(all) == 0:
		_, err := t.GPU(name)
		return GPU{}, fmt.Errorf("this device is not in the table: %w", orUnknown(err, name))
	case len(fits) == 0:
		return GPU{}, fmt.Errorf("device %q with %v is none of %s: a slice of one, or a variant that the table lacks",
			name, memory, strings.Join(all, ", "))
	case len(fits) > 1 && memory == 0:
		return GPU{}, fmt.Errorf("device %q may be any of %s: its memory has to be known", name, strings.Join(all, ", "))
	}
	return found, nil
}

// orUnknown keeps a name that finds an entry as an alias, but is none that a
// driver reports, from passing for a match.
func orUnknown(err error, name string) error {
	if err == nil {
		return fmt.Errorf("%q is not a name that a driver reports", name)
	}
	return err
}

// memoryOff is the relative distance of a system's memory from what g is sold
// with, or from what its driver reports, whichever is nearer.
func (g *GPU) memoryOff(memory unit.Bytes) float64 {
	off := math.Abs(float64(memory/g.Memory - 1))
	if m, ok := g.DriverMemory(); ok {
		off = min(off, math.Abs(float64(memory/m-1)))
	}
	return off
}
