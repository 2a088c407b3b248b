package hardware

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"llmprof/internal/input"
	"llmprof/internal/spelling"
	"llmprof/unit"
)

// Find is Load(text) and then GPU(name), in a fraction of the time (BenchmarkFind, BenchmarkLoad): it reads
// only the tables of GPUs that have the name. What is wrong elsewhere in the text goes unseen, so this is for
// the table that the program is built with, whose entries begin with key, name, aliases and devices.
func Find(text, name string) (GPU, error) {
	var named strings.Builder
	for _, section := range strings.Split(text, "\n[gpu.")[1:] {
		names, _, _ := strings.Cut(section, "\nvendor = ")
		quoted := strings.FieldsFunc(names, func(r rune) bool { return r == '"' || r == ']' })
		if slices.ContainsFunc(quoted, func(s string) bool { return fold(s) == fold(name) }) {
			named.WriteString("[gpu." + section + "\n")
		}
	}
	if t, err := Load(named.String()); err == nil {
		if g, err := t.GPU(name); err == nil {
			return g, nil
		}
	}
	t, err := Load(text) // No entry has the name, or one starts from another.
	if err != nil {
		return GPU{}, err
	}
	return t.GPU(name)
}

// memoryTolerance is how far the memory that a system reports may be from the
// entry's: a driver keeps some back, and vendors sell GiB as GB (7 %).
const memoryTolerance = 0.15

// Match finds the GPU that a driver means by a device name, as NVML,
// nvidia-smi, rocm-smi or /proc/device-tree/model give it. The memory that the
// system reports in all distinguishes variants; 0 means it is not known.
func (t *Table) Match(name string, memory unit.Bytes) (GPU, error) {
	name = strings.TrimSpace(strings.TrimRight(name, "\x00")) // the device tree ends strings in NUL
	var all []string
	var fits []*GPU
	for _, i := range t.devices[fold(name)] {
		g := &t.gpus[i]
		all = append(all, fmt.Sprintf("%s (%v)", g.Key, g.Memory))
		if memory == 0 || g.memoryOff(memory) <= memoryTolerance {
			fits = append(fits, g)
		}
	}
	switch {
	case len(all) == 0:
		_, err := t.GPU(name)
		if err == nil { // an alias is no match
			err = fmt.Errorf("%q is not a name that a driver reports", name)
		}
		return GPU{}, fmt.Errorf("this device is not in the table: %w", err)
	case len(fits) == 0:
		return GPU{}, fmt.Errorf("device %q with %v is none of %s: a slice of one, or a variant that the table lacks",
			name, memory, strings.Join(all, ", "))
	case len(fits) > 1 && memory == 0:
		return GPU{}, fmt.Errorf("device %q may be any of %s: its memory has to be known", name, strings.Join(all, ", "))
	}
	return *slices.MinFunc(fits, func(a, b *GPU) int { return cmp.Compare(a.memoryOff(memory), b.memoryOff(memory)) }), nil
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
	for _, brand := range brands {
		if rest, ok := strings.CutPrefix(f, brand); ok && rest != "" {
			f = rest
		}
	}
	return f
}

// brands are words that a name may begin with or leave out.
var brands = []string{"nvidia", "amd", "tesla", "geforce", "quadro", "radeon", "instinct", "jetson", "apple", "google", "intel"}

// near lists keys or aliases that resemble name, the nearest first; of a brand its last five GPUs.
func (t *Table) near(name string) (names []string) {
	want := fold(name)
	if slices.Contains(brands, want) {
		for _, g := range t.gpus {
			if g.Vendor == want || strings.HasPrefix(strings.ToLower(g.Name), want) {
				names = append(names, g.Key)
			}
		}
		return names[max(len(names)-5, 0):]
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

// A Table holds GPUs by name. It does not change once it is loaded.
type Table struct {
	gpus    []GPU
	names   map[string]int   // folded key or alias to index in gpus
	devices map[string][]int // folded device name of a driver, to those it may mean
}

// Load reads a table of GPUs in the format of hardware.toml, the head of which
// explains it. What is wrong in it is a *fileerror.Error that says where.
func Load(text string) (*Table, error) { return (&Table{}).Overlay("hardware.toml", text) }

// Overlay is t with the tables of a user's file applied over it. Where t has the key of
// a table, the table changes the fields it names. A new key adds a GPU, which may start
// from another one by base = "KEY". File is for messages.
func (t *Table) Overlay(file, text string) (*Table, error) {
	u := &Table{slices.Clone(t.gpus), map[string]int{}, map[string][]int{}}
	maps.Copy(u.names, t.names)
	maps.Copy(u.devices, t.devices)
	if err := u.add(&source{file, text}); err != nil {
		return nil, err
	}
	return u, nil
}

// OverlayFile is Overlay with the file at path.
func (t *Table) OverlayFile(path string) (*Table, error) {
	text, err := input.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("hardware file: %w", err)
	}
	return t.Overlay(path, string(text))
}

// counted is a GPU with a number of them, as "8xH100" or "h100 x 2".
var counted = regexp.MustCompile(`^(?:(\d+) ?[xX×*] ?(.+)|(.+?) ?[xX×*] ?(\d+))$`)

// Named is the GPU of a key, name, alias or name that a driver reports of no other one; nil if there is none.
func (t *Table) Named(name string) *GPU {
	f := fold(name)
	if i, ok := t.names[f]; ok {
		return &t.gpus[i]
	}
	if found := t.devices[f]; len(found) == 1 {
		return &t.gpus[found[0]]
	}
	return nil
}

// GPU looks up a key, name, alias or the name that a driver reports, ignoring
// case, punctuation and the vendor's name. The error for one that is not there
// lists near misses.
func (t *Table) GPU(name string) (GPU, error) {
	if g := t.Named(name); g != nil {
		return *g, nil
	}
	if found := t.devices[fold(name)]; len(found) > 1 {
		var keys []string
		for _, i := range found {
			keys = append(keys, t.gpus[i].Key)
		}
		return GPU{}, spelling.Unknown("GPU %q is what the drivers of %s report; name one of these", name, strings.Join(keys, ", "))
	}
	if parts := counted.FindStringSubmatch(strings.TrimSpace(name)); parts != nil {
		if i, ok := t.names[fold(parts[2]+parts[3])]; ok {
			return GPU{}, spelling.Unknown("GPU %q is not known; for %s of %s say how a model is split over them, as with --tp %s", name,
				parts[1]+parts[4], t.gpus[i].Key, parts[1]+parts[4])
		}
	}
	near := t.near(name)
	if len(near) == 0 {
		vendors := map[string]bool{}
		for i := range t.gpus {
			vendors[t.gpus[i].Vendor] = true
		}
		return GPU{}, spelling.Unknown("GPU %q is not known, nor any like it; the %d that are known, of %s, are listed by \"llmprof gpus list\"",
			name, len(t.gpus), strings.Join(slices.Sorted(maps.Keys(vendors)), ", "))
	}
	return GPU{}, spelling.Unknown("GPU %q is not known; did you mean %s?", name, strings.Join(near, ", "))
}

// All lists every GPU in the order of the file.
func (t *Table) All() []GPU { return slices.Clone(t.gpus) }

// Names lists the key of every GPU in the order of the file.
func (t *Table) Names() []string {
	keys := make([]string, len(t.gpus))
	for i, g := range t.gpus {
		keys[i] = g.Key
	}
	return keys
}
