package hardware

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"llmprof/spelling"
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

// fold reduces a name to what GPUs differ in: "NVIDIA A100-SXM4-80GB" and
// "a100_sxm4_80gb" are the same, and so are "GeForce RTX 4090" and "rtx-4090".
func fold(name string) string {
	f := strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, name)
	for _, brand := range brands() {
		if rest, ok := strings.CutPrefix(f, brand); ok && rest != "" {
			f = rest
		}
	}
	return f
}

// brands are words that a name may begin with or leave out.
func brands() []string {
	return []string{"nvidia", "amd", "tesla", "geforce", "quadro", "radeon", "instinct", "jetson", "apple", "google", "intel"}
}

// near lists keys or aliases that resemble name, the nearest first; of a brand its last GPUs.
func (t *Table) near(name string) (names []string) {
	want := fold(name)
	if slices.Contains(brands(), want) {
		return t.branded(want)
	}
	groups := make([][]string, len(t.gpus))
	for i, g := range t.gpus {
		groups[i] = append([]string{g.Key}, g.Aliases...)
	}
	for _, m := range spelling.Nearest(want, groups) {
		names = append(names, m.Name)
	}
	return names
}

// branded lists the last five GPUs of a brand.
func (t *Table) branded(brand string) (keys []string) {
	for _, g := range t.gpus {
		if g.Vendor == brand || strings.HasPrefix(strings.ToLower(g.Name), brand) {
			keys = append(keys, g.Key)
		}
	}
	return keys[max(len(keys)-5, 0):]
}
