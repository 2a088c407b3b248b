package hardware

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"

	"llmprof/internal/spelling"
	"llmprof/unit"
)

// Find is Load(text) and then GPU(name), in a fraction of the time: it reads
// only the table of the entry that is asked for. A mistake elsewhere in the
// text goes unseen, so this is for the table that the program is built with.
func Find(text, name string) (GPU, error) {
	if _, rest, ok := strings.Cut(text, "\n[gpu."+name+"]"); ok { // most names are keys, and names are unique
		rest, _, _ = strings.Cut(rest, "\n[gpu.")
		return findIn(text, "[gpu."+name+"]"+rest, name)
	}
	var named strings.Builder
	for _, section := range sections(text) {
		if has(section, fold(name)) {
			named.WriteString(section)
		}
	}
	return findIn(text, named.String(), name)
}

// findIn finds name in the sections that have it, or in all of text where there is none, or one has a base
// or does not stand alone.
func findIn(text, sections, name string) (GPU, error) {
	if t, err := Load(sections); err == nil && len(t.gpus) > 0 {
		return t.GPU(name)
	}
	t, err := Load(text)
	if err != nil {
		return GPU{}, err
	}
	return t.GPU(name)
}

// sections cuts text before each line that starts a [gpu.KEY] table.
func sections(text string) []string {
	const start = "\n[gpu."
	var parts []string
	for {
		_, rest, ok := strings.Cut(text, start)
		if !ok {
			return parts
		}
		end := strings.Index(rest, start)
		if end < 0 {
			end = len(rest)
		}
		parts = append(parts, start[1:]+rest[:end])
		text = rest[end:]
	}
}

// has reports whether a section is of a GPU that a folded name may mean. It reads its
// first lines alone: key, name, aliases and devices come first, and what follows is long.
func has(section, want string) bool {
	for line := range strings.Lines(section) {
		if key, ok := strings.CutPrefix(line, "[gpu."); ok && fold(key) == want {
			return true
		}
		if strings.HasPrefix(line, "vendor = ") {
			break
		}
		for i, quoted := range strings.Split(line, `"`) {
			if i%2 == 1 && fold(quoted) == want {
				return true
			}
		}
	}
	return false
}

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
