package hardware

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"llmprof/internal/input"
	"llmprof/internal/spelling"
)

// A Table holds GPUs by name. It does not change once it is loaded.
type Table struct {
	gpus    []GPU
	names   map[string]int   // folded key or alias to index in gpus
	devices map[string][]int // folded device name of a driver, to those it may mean
}

// Load reads a table of GPUs in the format of hardware.toml, the head of which
// explains it. What is wrong in it is a *fileerror.Error that says where.
func Load(text string) (*Table, error) { return (&Table{}).Overlay("hardware.toml", text) }

// Overlay is t with the tables of a user's file applied over it. A table of a key
// that t has changes the fields it names; one of a new key adds a GPU, and may
// start from another with base = "KEY". File is for messages.
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
var counted = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?:(\d+) ?[xX×*] ?(.+)|(.+?) ?[xX×*] ?(\d+))$`) })

// named is the GPU of a key, name, alias or name that a driver reports of no other one; nil if there is none.
func (t *Table) named(name string) *GPU {
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
	if g := t.named(name); g != nil {
		return *g, nil
	}
	if found := t.devices[fold(name)]; len(found) > 1 {
		var keys []string
		for _, i := range found {
			keys = append(keys, t.gpus[i].Key)
		}
		return GPU{}, spelling.Unknown("GPU %q is what the drivers of %s report; name one of these", name, strings.Join(keys, ", "))
	}
	if parts := counted().FindStringSubmatch(strings.TrimSpace(name)); parts != nil {
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
