package hardware

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"llmprof/internal/input"
	"llmprof/internal/spelling"
	"llmprof/roofline"
	"llmprof/unit"
)

// A calibrationText is a calibration file as TOML has it, without the tables of constants.
type calibrationText struct {
	Schema string `toml:"schema"`
	CalibrationFile
}

// A valueText is the entry of a constant, whose figures are numbers or times with their units.
type valueText struct {
	Value       any    `toml:"value"`
	Uncertainty any    `toml:"uncertainty"`
	N           *int   `toml:"n"`
	From        string `toml:"from"`
}

// refit ends the errors of what no file of this release has.
const refit = ` A file of another release is fitted again by "llmprof calibrate --rows ROWS.jsonl -o FILE.toml".`

// ReadCalibration reads a calibration file.
func ReadCalibration(path string) (*CalibrationFile, error) {
	text, err := input.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	return ParseCalibration(path, string(text))
}

// ParseCalibration reads the text of a calibration file, named file in messages.
// It is strict: what is unknown, missing, of another unit or out of range is a
// *fileerror.Error that says where, and what would be right.
func ParseCalibration(file, text string) (*CalibrationFile, error) {
	s := &source{file, text}
	t := calibrationText{CalibrationFile: CalibrationFile{File: file, Values: map[string]Value{}, HeldOut: map[string]Residual{}}}
	into, sections := fields(&t), map[string]map[string]valueText{}
	for name := range keysBySection() {
		values := map[string]valueText{}
		sections[name], into[name] = values, &values
	}
	var all map[string]toml.Primitive
	meta, err := s.decode(&all)
	if err != nil {
		return nil, err
	}
	// The schema comes first: a file of another kind has all keys wrong.
	if err := meta.PrimitiveDecode(all["schema"], &t.Schema); err != nil || t.Schema != CalibrationSchema {
		return nil, s.at("schema", "the schema is %q: want schema = %q", t.Schema, CalibrationSchema)
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		kind := meta.Type(name)
		switch {
		case into[name] == nil:
			return nil, s.unknownIn(into, toml.Key{name})
		case reflect.TypeOf(into[name]).Elem().Kind() == reflect.Map && kind != "" && kind != "Hash": // The library would skip it.
			return nil, s.at(name, "%s has to be a table, [%s]", name, name)
		}
		if err := meta.PrimitiveDecode(all[name], into[name]); err != nil {
			return nil, s.located(err)
		}
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, s.unknownIn(into, unknown[0])
	}
	f := &t.CalibrationFile
	f.Made = f.Made.UTC()
	if err := cmp.Or(f.checkHead(s), f.readValues(s, sections), f.checkHeldOut(s), f.checkTables(s)); err != nil {
		return nil, err
	}
	return f, nil
}

// unknownIn is the error of a key of a calibration file that no field has.
func (s *source) unknownIn(into map[string]any, key toml.Key) error {
	known := slices.Sorted(maps.Keys(into))
	if len(key) > 1 {
		table := reflect.TypeOf(into[key[0]]).Elem()
		for table.Kind() != reflect.Struct {
			table = table.Elem()
		}
		known = slices.Sorted(maps.Keys(fields(reflect.New(table).Interface())))
	}
	last := key[len(key)-1]
	return s.at(strings.Join(key, "."), "%.60q is not a key here; %s"+refit, last, spelling.Hint(last, known))
}

// checkHead checks what stands before the constants.
func (f *CalibrationFile) checkHead(s *source) error {
	d := &f.Device
	return s.check("", []rule{
		{"name", f.Name, f.Name != "", `name = "h200"`},
		{"gpu", f.GPU, f.GPU != "", `gpu = "h200-sxm-141gb"`},
		{"kernels", f.Kernels, f.Kernels != "", `kernels = "torch 2.11.0 (cuBLAS, cuDNN)"`},
		{"dtype", f.DType, f.DType != unit.NoFormat, `dtype = "bf16"`},
		{"llmprof", f.Version, f.Version != "", `llmprof = "v0.1.0"`},
		{"made", f.Made, !f.Made.IsZero(), "when it was made, as made = 2026-11-20T12:00:00Z"},
		{"tp", f.TP, len(f.TP) > 0 && slices.Min(f.TP) >= 1 && slices.Max(f.TP) <= 1e5 && slices.IsSorted(f.TP),
			"the numbers of GPUs that were timed together, rising, as tp = [1, 2, 4, 8]"},
		{"device.name", d.Name, d.Name != "", `name = "NVIDIA H200"`},
		{"device.peak", d.Peak, d.Peak >= 1e9 && d.Peak <= 1e18, `the data-sheet peak that the shares are of, as "989.4 TFLOP/s"`},
		{"device.bandwidth", d.Bandwidth, d.Bandwidth >= 1e9 && d.Bandwidth <= 1e15,
			`the data-sheet bandwidth that the shares are of, as "4.8 TB/s"`},
		optional("device.memory", d.Memory, 0, 100e12),
		optional("device.power_limit", d.PowerLimit, 0, 1e5),
		optional("device.clock", d.Clock, 0, 10e9),
		optional("device.memory_clock", d.MemoryClock, 0, 100e9),
	})
}

// whole are sections of optional constants of which one alone is of no use.
var whole = []string{"wgmma_gemm", "moe_prefill", "moe_routing", "grouped_gemm"}

// readValues takes the constants from their tables.
func (f *CalibrationFile) readValues(s *source, sections map[string]map[string]valueText) (err error) {
	for _, section := range slices.Sorted(maps.Keys(sections)) {
		for _, key := range slices.Sorted(maps.Keys(sections[section])) {
			if known := keysBySection()[section]; !slices.Contains(known, key) {
				return s.at(section+"."+key, "%q is not a constant of %s; %s"+refit, key, section, spelling.Hint(key, known))
			}
		}
	}
	for _, c := range roofline.All() {
		k := c.Info()
		section, name, _ := strings.Cut(k.Key, ".")
		t, ok := sections[section][name]
		switch {
		case k.Unfiled:
			continue
		case !ok && len(sections[section]) > 0 && (slices.Contains(whole, section) || c.OfScheme()):
			return s.at(section, "the file has no %s (%s), but others of %s: give all of them or none", k.Key, k.Help, section)
		case !ok && !k.Optional:
			return s.at(k.Key, "the file has no %s (%s): give its value, or the default's with n = 0", k.Key, k.Help)
		case !ok:
			continue
		case k.Engine && f.Engine == "":
			return s.at(k.Key, "%s is an engine's and the file names none: want engine = \"native\"", k.Key)
		}
		if f.Values[k.Key], err = t.read(s, c); err != nil {
			return err
		}
	}
	return nil
}

// read takes a constant from its entry.
func (t *valueText) read(s *source, c roofline.Constant) (Value, error) {
	k, n := c.Info(), -1
	if t.N != nil {
		n = *t.N
	}
	v := Value{Value: read(k.Quantity, t.Value), N: n, From: t.From}
	if t.Uncertainty != nil {
		v.Uncertainty = read(k.Quantity, t.Uncertainty)
	}
	return v, s.check(k.Key+".", []rule{
		{"value", &t.Value, c.Valid(v.Value), k.Quantity.Want()},
		{"uncertainty", t.Uncertainty, v.Uncertainty >= 0 && v.Uncertainty <= 1e6, "half of the 95 % interval, in what the value is in"},
		{"n", t.N, n >= 0, "the number of rows that the constant was fitted from, 0 for a default"},
		{"uncertainty", t.Uncertainty, n < 2 || t.Uncertainty != nil, "half of the 95 % interval, which 2 rows and more give"},
		{"uncertainty", &t.Uncertainty, n >= 2 || t.Uncertainty == nil, "none where n is below 2, for a row says nothing of it"},
		{"from", t.From, t.From != "", `where the constant is from, as "40 products" or "default for hopper"`},
		{"from", t.From, n > 0 || strings.HasPrefix(t.From, "default"), `"default for hopper" where n = 0: what was not measured says so`},
	})
}

// read takes a number as TOML has it, or a string with a unit; it is NaN for what is not of the quantity.
func read(q roofline.Quantity, v any) float64 {
	switch v := v.(type) {
	case int64:
		return read(q, float64(v))
	case float64:
		if !q.Timed() {
			return v
		}
	case string:
		var s unit.Seconds
		if err := s.UnmarshalText([]byte(v)); q.Timed() && err == nil && strings.HasSuffix(v, "s") {
			return float64(s)
		}
	}
	return math.NaN()
}

// checkHeldOut checks the errors of rows that were left out of the fit.
func (f *CalibrationFile) checkHeldOut(s *source) error {
	for _, key := range slices.Sorted(maps.Keys(f.HeldOut)) {
		if _, ok := f.Values[key]; !ok {
			return s.at("held_out."+key, "%q is no constant of the file; %s", key, spelling.Hint(key, slices.Sorted(maps.Keys(f.Values))))
		}
		h := f.HeldOut[key]
		if err := s.check("held_out.", []rule{
			{key, h, h.N >= 1 && shares(h.Median, h.P90),
				"shares of the time, the median no more than the p90, of 1 row at least"},
			{key, h, f.Values[key].N > 0, "none, for no row was left out of the fit of a constant that was not fitted"},
		}); err != nil {
			return err
		}
	}
	for _, c := range roofline.All() {
		k := c.Info()
		if _, ok := f.HeldOut[k.Key]; !ok && k.Quantity == roofline.Share && !k.Engine && f.Values[k.Key].N >= 2 {
			return s.at("held_out", "held_out has no %q, which was fitted: an interval cannot be made without it", k.Key)
		}
	}
	return nil
}

// shares reports whether errors are shares of a time that rise.
func shares(rising ...float64) bool {
	return slices.IsSorted(slices.Concat([]float64{0}, rising, []float64{math.MaxFloat64}))
}

// checkTables checks where imported rows come from, and what the laws make of them.
func (f *CalibrationFile) checkTables(s *source) error {
	var rules []rule
	if t := f.Tables; t != nil {
		rules = []rule{
			{"tables.package", t.Package, t.Package != "", "the package that the rows come from"},
			{"tables.version", t.Version, t.Version != "", "the version of the package"},
			{"tables.licence", t.Licence, t.Licence != "", "the licence of the package"},
			{"tables.files", t.Files, len(t.Files) > 0, "the files that rows were taken from"},
		}
		for _, file := range t.Files {
			rules = append(rules, rule{"tables.files", file, file.Path != "" && len(file.SHA256) == 64 && file.Rows >= 1,
				"a path, 64 hexadecimal digits and 1 row at least"})
		}
	}
	for _, section := range slices.Sorted(maps.Keys(f.Operators)) {
		o := f.Operators[section]
		rules = append(rules, rule{"operators." + section, section, keysBySection()[section] != nil, "a section of constants"},
			rule{"operators." + section, o, o.N >= 1 && o.HeldOut >= 1 && shares(o.Fitted) &&
				shares(o.Median, o.P90), "errors as shares of the time, of 1 row at least"})
	}
	return s.check("", rules)
}

// keysBySection has the names of the constants in each table of a file.
var keysBySection = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for _, c := range roofline.All() {
		if section, k, _ := strings.Cut(c.Info().Key, "."); !c.Info().Unfiled {
			all[section] = append(all[section], k)
		}
	}
	return all
})
