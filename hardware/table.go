package hardware

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"llmprof/input"
)

// A Table holds GPUs by name. It does not change once it is loaded.
type Table struct {
	gpus    []GPU
	names   map[string]int   // folded key or alias to index in gpus
	devices map[string][]int // folded device name of a driver, to those it may mean
}

// maxFile is more than a thousand GPUs take; a longer file is not a table.
const maxFile = 4 << 20

// Load reads a table of GPUs in the format of hardware.toml, the head of which
// explains it. A mistake in it is an *Error that says where.
func Load(text string) (*Table, error) {
	t := &Table{names: map[string]int{}, devices: map[string][]int{}}
	if err := t.add("hardware.toml", text); err != nil {
		return nil, err
	}
	return t, nil
}

// Overlay is t with the tables of a user's file laid over it. A table of a key
// that t has changes the fields it names; one of a new key adds a GPU, and may
// start from another with base = "KEY". File is for messages.
func (t *Table) Overlay(file, text string) (*Table, error) {
	u := &Table{gpus: slices.Clone(t.gpus), names: maps.Clone(t.names), devices: maps.Clone(t.devices)}
	if err := u.add(file, text); err != nil {
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

// UserFile is where a user's own table is looked for unless one is named:
// llmprof/hardware.toml in the user's configuration folder. It need not exist.
func UserFile() (string, error) {
	dir, err := os.UserConfigDir()
	if err != nil {
		return "", fmt.Errorf("no folder for a hardware file: %w", err)
	}
	return filepath.Join(dir, "llmprof", "hardware.toml"), nil
}

// GPU looks up a key, name or alias, or the one GPU that drivers call so, ignoring
// case, punctuation and the vendor's name. The error for one that is not there lists near misses.
func (t *Table) GPU(name string) (GPU, error) {
	if i, ok := t.names[fold(name)]; ok {
		return t.gpus[i], nil
	}
	switch found := t.devices[fold(name)]; {
	case len(found) == 1:
		return t.gpus[found[0]], nil
	case len(found) > 1:
		keys := make([]string, len(found))
		for i, f := range found {
			keys[i] = t.gpus[f].Key
		}
		return GPU{}, fmt.Errorf("GPU %q is what drivers call each of %s: name one of them", name, strings.Join(keys, ", "))
	}
	near := t.near(name)
	if len(near) == 0 {
		return GPU{}, fmt.Errorf("GPU %q is not known, nor any like it; there are %d, among them %s",
			name, len(t.gpus), strings.Join(t.Names()[:min(8, len(t.gpus))], ", "))
	}
	return GPU{}, fmt.Errorf("GPU %q is not known; did you mean %s?", name, strings.Join(near, ", "))
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
