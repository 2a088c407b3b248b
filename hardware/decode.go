package hardware

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"llmprof/unit"
)

// An entry is one [gpu.KEY] table: a GPU, and what a GPU has in another form.
type entry struct {
	Base string `toml:"base"`
	GPU
	Devices      []string                    `toml:"devices"`
	Peak         map[string]unit.FLOPsPerSec `toml:"peak"`
	DriverMemory unit.Bytes                  `toml:"driver_memory"`
	Idle         unit.Watts                  `toml:"idle"`
	Price        unit.DollarsPerHour         `toml:"price"`
}

// A document is a whole file.
type document struct {
	GPU map[string]toml.Primitive `toml:"gpu"`
}

// add lays the tables of text over t, in the order of the file, so that a base
// has to come before what starts from it.
func (t *Table) add(file, text string) error {
	if err := within(file, text); err != nil {
		return err
	}
	var doc document
	meta, err := toml.Decode(text, &doc)
	if err != nil {
		return readError(file, text, err)
	}
	if kind := meta.Type("gpu"); kind != "" && kind != "Hash" {
		return errorAt(file, text, []string{"gpu"}, "gpu has to be a table of GPUs, [gpu.KEY]")
	}
	for _, key := range meta.Keys() {
		if len(key) != 2 || key[0] != "gpu" {
			continue
		}
		if err := t.addEntry(file, text, key[1], doc.GPU[key[1]], &meta); err != nil {
			// A key misspelt is why another is missing.
			for _, k := range meta.Undecoded() {
				if len(k) > 2 && k[0] == "gpu" && k[1] == key[1] {
					return unknownIn(file, text, k, err)
				}
			}
			return err
		}
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return unknownKey(file, text, unknown[0])
	}
	return nil
}

// unknownIn prefers an unknown key over another error of the same entry,
// unless the reader stopped at that error before it came to the key.
func unknownIn(file, text string, key toml.Key, err error) error {
	if slices.Contains(keysIn[entry](), key[2]) {
		return err
	}
	return unknownKey(file, text, key)
}

func (t *Table) addEntry(file, text, key string, p toml.Primitive, meta *toml.MetaData) error {
	at := func(field, format string, args ...any) error {
		return errorAt(file, text, []string{"gpu", key, field}, fmt.Sprintf(format, args...))
	}
	if key != strings.ToLower(key) || fold(key) == "" {
		return at("", "%q cannot be the key of a GPU: write it in lower case", key)
	}
	e, index, err := t.start(key, p, meta)
	if err != nil {
		return at("base", "%v", err)
	}
	if err := meta.PrimitiveDecode(p, &e); err != nil {
		return readError(file, text, err)
	}
	// The reader skips a map that is something else.
	if kind := meta.Type("gpu", key, "peak"); kind != "" && kind != "Hash" {
		return at("peak", "peak has to name formats: peak.bf16 = \"989.4 TFLOP/s\"")
	}
	if meta.IsDefined("gpu", key, "memory") && !meta.IsDefined("gpu", key, "driver_memory") {
		e.DriverMemory = 0 // the base's driver reported another memory
	}
	if e.Source == "" && file != "hardware.toml" {
		e.Source = file
	}
	g, field, err := e.gpu(key)
	if err == nil {
		field, err = check(&g)
	}
	if err != nil {
		return at(field, "%v", err)
	}
	if index < 0 {
		index = len(t.gpus)
		t.gpus = append(t.gpus, g)
	}
	t.gpus[index] = g
	if field, err := t.index(index, e.Devices); err != nil {
		return at(field, "%v", err)
	}
	return nil
}

// start is the entry that the fields of a table are laid over: the GPU that
// has the key already, the one that it names as its base, or nothing.
func (t *Table) start(key string, p toml.Primitive, meta *toml.MetaData) (e entry, index int, err error) {
	for i, g := range t.gpus {
		if g.Key == key {
			return g.entry(), i, nil
		}
	}
	if !meta.IsDefined("gpu", key, "base") {
		return entry{}, -1, nil
	}
	var b struct {
		Base string `toml:"base"`
	}
	// A base of another type is reported when the whole entry is decoded.
	if err := meta.PrimitiveDecode(p, &b); err != nil || b.Base == "" {
		return entry{}, -1, nil //nolint:nilerr // see above
	}
	g, err := t.GPU(b.Base)
	if err != nil {
		return entry{}, -1, err
	}
	e = g.entry()
	e.Name, e.Aliases = "", nil
	return e, -1, nil
}

// index records the names that find t.gpus[i], which no other GPU may have.
func (t *Table) index(i int, devices []string) (field string, err error) {
	g := &t.gpus[i]
	for n, name := range append([]string{g.Key, g.Name}, g.Aliases...) {
		field = "aliases"
		if n < 2 {
			field = []string{"", "name"}[n]
		}
		f := fold(name)
		if j, ok := t.names[f]; ok && j != i {
			return field, fmt.Errorf("%q already stands for %s", name, t.gpus[j].Key)
		}
		if f == "" {
			return field, fmt.Errorf("%q cannot name a GPU: it has no letter or digit", name)
		}
		t.names[f] = i
	}
	for _, name := range devices {
		if f := fold(name); !slices.Contains(t.devices[f], i) {
			t.devices[f] = append(slices.Clone(t.devices[f]), i)
		}
	}
	return "", nil
}

// gpu converts an entry, filling in what may be left out.
func (e *entry) gpu(key string) (g GPU, field string, err error) {
	g = e.GPU
	g.Key, g.driverMemory, g.idle, g.price = key, e.DriverMemory, e.Idle, e.Price
	g.peak = [unit.NumFormats]unit.FLOPsPerSec{}
	g.Name = cmp.Or(g.Name, key)
	g.TensorClock = cmp.Or(g.TensorClock, g.Clock)
	if g.Link > 0 && g.LinkGPUs == 0 {
		g.LinkGPUs = g.GPUsPerNode
	}
	for _, name := range slices.Sorted(maps.Keys(e.Peak)) {
		f, err := unit.ParseFormat(name)
		if err != nil {
			return g, "peak." + name, err
		}
		if e.Peak[name] == 0 {
			return g, "peak." + name, fmt.Errorf("a rate of 0: leave out a format that has no unit")
		}
		g.peak[f] = e.Peak[name]
	}
	return g, "", nil
}

// entry is the inverse of gpu, for tables that build on g.
func (g *GPU) entry() entry {
	e := entry{GPU: *g, DriverMemory: g.driverMemory, Idle: g.idle, Price: g.price, Peak: map[string]unit.FLOPsPerSec{}}
	for _, f := range g.Formats() {
		e.Peak[f.String()] = g.peak[f]
	}
	return e
}
