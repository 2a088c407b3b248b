package hardware

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"llmprof/internal/spelling"
	"llmprof/unit"
)

// An entry is one [gpu.KEY] table: a GPU, and what a GPU has in another form.
type entry struct {
	Base string `toml:"base"`
	GPU
	Devices      []string                    `toml:"devices"`
	Peak         map[string]unit.FLOPsPerSec `toml:"peak"`
	DriverMemory unit.Bytes                  `toml:"driver_memory"`
	CUDAMemory   unit.Bytes                  `toml:"cuda_memory"`
	Idle         unit.Watts                  `toml:"idle"`
	Price        unit.DollarsPerHour         `toml:"price"`
}

// add applies the tables of a file over t, in the order of the file, so that a base
// has to come before what starts from it.
func (t *Table) add(s *source) error {
	var doc struct {
		GPU map[string]toml.Primitive `toml:"gpu"`
	}
	meta, err := s.decode(&doc)
	if err != nil {
		return err
	}
	if kind := meta.Type("gpu"); kind != "" && kind != "Hash" {
		return s.at("gpu", "gpu has to be a table of GPUs, [gpu.KEY]")
	}
	var failed string
	for _, key := range meta.Keys() {
		if len(key) == 2 && key[0] == "gpu" && err == nil {
			failed, err = key[1], t.addEntry(s, key[1], doc.GPU[key[1]], &meta)
		}
	}
	for _, key := range meta.Undecoded() {
		// A misspelt key is why another is missing. Keys that the reader did not come to are undecoded too.
		if err == nil || len(key) > 2 && key[1] == failed && fields(&entry{})[key[2]] == nil {
			return s.unknownGPUKey(key)
		}
	}
	return err
}

func (s *source) unknownGPUKey(key toml.Key) error {
	part, known := key[0], []string{"gpu"}
	if key[0] == "gpu" && len(key) > 2 {
		part, known = key[2], slices.Sorted(maps.Keys(fields(&entry{})))
	}
	return s.at(strings.Join(key, "."), "%.60q is not a key here; %s", part, spelling.Hint(part, known))
}

func (t *Table) addEntry(s *source, key string, p toml.Primitive, meta *toml.MetaData) error {
	path := "gpu." + key + "."
	if key != strings.ToLower(key) || fold(key) == "" {
		return s.at(path, "%q cannot be the key of a GPU: write it in lower case", key)
	}
	var e entry
	var known *GPU // the board that the fields change
	err := meta.PrimitiveDecode(p, &e)
	i := slices.IndexFunc(t.gpus, func(g GPU) bool { return g.Key == key })
	if err == nil && (i >= 0 || e.Base != "") {
		if e, err = t.start(i, e.Base); err != nil {
			return s.at(path+"base", "%v", err)
		}
		base := e.GPU
		known = &base
		err = meta.PrimitiveDecode(p, &e)
	}
	if err != nil {
		return s.located(err)
	}
	// The reader skips a map that is something else.
	if kind := meta.Type("gpu", key, "peak"); kind != "" && kind != "Hash" {
		return s.at(path+"peak", "peak has to name formats: peak.bf16 = \"989.4 TFLOP/s\"")
	}
	if meta.IsDefined("gpu", key, "memory") && !meta.IsDefined("gpu", key, "driver_memory") {
		e.DriverMemory, e.CUDAMemory = 0, 0 // the base's driver reported another memory
	}
	if e.Source == "" && s.file != "hardware.toml" {
		e.Source = s.file
	}
	g, field, err := e.gpu(key)
	if err != nil {
		return s.at(path+field, "%v", err)
	}
	if err := g.check(s); err != nil {
		return err
	}
	if known != nil {
		g.limit(known)
	}
	if i < 0 {
		i = len(t.gpus)
		t.gpus = append(t.gpus, g)
	}
	t.gpus[i] = g
	if field, err := t.index(i, e.Devices); err != nil {
		return s.at(path+field, "%v", err)
	}
	return nil
}

// start is the entry that the fields of a table change: that of t.gpus[i], or of a base.
func (t *Table) start(i int, base string) (entry, error) {
	if i >= 0 {
		return t.gpus[i].entry(), nil
	}
	g, err := t.GPU(base)
	g.Name, g.Aliases = "", nil
	return g.entry(), err
}

// index records the names that find t.gpus[i], which no other GPU may have.
func (t *Table) index(i int, devices []string) (field string, err error) {
	g := &t.gpus[i]
	for n, name := range append([]string{g.Key, g.Name}, g.Aliases...) {
		field, f := []string{"", "name", "aliases"}[min(n, 2)], fold(name)
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

// limit takes the power and the clock of a known board for limits that it is set to. The entry of another chip has its own.
func (g *GPU) limit(known *GPU) {
	if g.SMs != known.SMs || g.peak != known.peak || g.Bandwidth != known.Bandwidth {
		return
	}
	if g.TDP != known.TDP {
		g.PowerLimit, g.TDP = g.TDP, known.TDP
	}
	if g.Clock < known.Clock {
		g.ClockLimit = g.Clock
	}
	g.Clock = known.Clock
}

// gpu converts an entry, filling in what may be left out.
func (e *entry) gpu(key string) (g GPU, field string, err error) {
	g = e.GPU
	g.Key, g.driverMemory, g.cudaMemory, g.idle, g.price = key, e.DriverMemory, e.CUDAMemory, e.Idle, e.Price
	g.peak = [unit.NumFormats]unit.FLOPsPerSec{}
	g.Name = cmp.Or(g.Name, key)
	g.TensorClock = cmp.Or(g.TensorClock, g.Clock)
	if g.Link > 0 {
		g.LinkGPUs = cmp.Or(g.LinkGPUs, g.GPUsPerNode)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Peak)) {
		f, err := unit.ParseFormat(name)
		if err == nil && e.Peak[name] == 0 {
			err = fmt.Errorf("a rate of 0: leave out a format that has no unit")
		}
		if err != nil {
			return g, "peak." + name, err
		}
		g.peak[f] = e.Peak[name]
	}
	return g, "", nil
}

// entry is the inverse of gpu, for tables that build on g. The reader writes into a list that is there already.
func (g *GPU) entry() entry {
	e := entry{GPU: *g, DriverMemory: g.driverMemory, CUDAMemory: g.cudaMemory, Idle: g.idle, Price: g.price,
		Peak: map[string]unit.FLOPsPerSec{}}
	e.Aliases, e.Notes, e.Traps = slices.Clone(g.Aliases), slices.Clone(g.Notes), slices.Clone(g.Traps)
	for _, f := range g.Formats() {
		e.Peak[f.String()] = g.peak[f]
	}
	return e
}
