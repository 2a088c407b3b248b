package hardware

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"

	"llmprof/internal/input"
	"llmprof/internal/spelling"
	"llmprof/roofline"
	"llmprof/unit"
)

// A calibrationText is a calibration file as TOML has it.
type calibrationText struct {
	Schema    string                   `toml:"schema"`
	DType     string                   `toml:"dtype"`
	Operators map[string]operatorsText `toml:"operators"`
	CalibrationFile
}

type operatorsText struct {
	N       int     `toml:"n"`
	Fitted  float64 `toml:"fitted"`
	HeldOut int     `toml:"held_out"`
	Median  float64 `toml:"median"`
	P90     float64 `toml:"p90"`
}

// A valueText has a number or a string with a unit, as the constant wants it.
type valueText struct {
	Value       any    `toml:"value"`
	Uncertainty any    `toml:"uncertainty"`
	N           *int   `toml:"n"`
	From        string `toml:"from"`
}

// calibrationSections reads the tables of constants.
func (r *calibrationReader) calibrationSections() (map[string]map[string]valueText, error) {
	var all map[string]toml.Primitive
	meta, err := toml.Decode(r.text, &all)
	if err != nil {
		return nil, readError(r.file, r.text, err)
	}
	out := map[string]map[string]valueText{}
	for _, name := range sectionNames() {
		section, ok := all[name]
		if !ok {
			continue
		}
		values := map[string]valueText{}
		if err := meta.PrimitiveDecode(section, &values); err != nil {
			return nil, readError(r.file, r.text, err)
		}
		out[name] = values
	}
	for _, key := range meta.Undecoded() {
		if _, ok := out[key[0]]; ok && len(key) > 1 {
			return nil, r.unknown(key, &meta)
		}
	}
	return out, nil
}

// sectionNames lists the tables of constants.
var sectionNames = sync.OnceValue(func() (names []string) {
	for _, s := range calibrationSections() {
		names = append(names, s[0])
	}
	return slices.Clip(names)
})

// ReadCalibration reads a calibration file.
func ReadCalibration(path string) (*CalibrationFile, error) {
	text, err := input.Read(path, maxFile)
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	return ParseCalibration(path, string(text))
}

// ParseCalibration reads the text of a calibration file, named file in messages.
// It is strict: what is unknown, missing, of another unit or out of range is an
// *input.Mistake that says where, and what would be right.
func ParseCalibration(file, text string) (*CalibrationFile, error) {
	if err := within(file, text); err != nil {
		return nil, err
	}
	r := calibrationReader{file: file, text: text}
	var t calibrationText
	meta, err := toml.Decode(text, &t)
	if err != nil {
		return nil, readError(file, text, err)
	}
	if t.Schema != CalibrationSchema { // first: a file of another kind has all keys wrong
		return nil, r.at("schema", "the schema is %q: want schema = %q", t.Schema, CalibrationSchema)
	}
	for _, key := range meta.Undecoded() {
		if !slices.Contains(sectionNames(), key[0]) {
			return nil, r.unknown(key, &meta)
		}
	}
	sections, err := r.calibrationSections()
	if err != nil {
		return nil, err
	}
	f, heldOut := &t.CalibrationFile, t.HeldOut
	f.File, f.Made, f.Values, f.HeldOut = file, t.Made.UTC(), map[string]Value{}, map[string]Residual{}
	if err := r.head(f, t.DType); err != nil {
		return nil, err
	}
	if err := r.values(f, sections); err != nil {
		return nil, err
	}
	if err := r.heldOut(f, heldOut); err != nil {
		return nil, err
	}
	return f, r.tables(f, t.Operators)
}

// A calibrationReader makes errors that name a place.
type calibrationReader struct{ file, text string }

// at is an error at a key, which may be one that is not there.
func (r *calibrationReader) at(key, format string, args ...any) error {
	return errorAt(r.file, r.text, strings.Split(key, "."), fmt.Sprintf(format, args...))
}

// unknown names the key that comes nearest to one that no file has.
func (r *calibrationReader) unknown(key toml.Key, meta *toml.MetaData) error {
	known := keysIn[valueText]()
	switch {
	case len(key) == 1:
		known = append(keysIn[calibrationText](), sectionNames()...)
	case key[0] == "device":
		known = keysIn[CalibratedDevice]()
	case key[0] == "held_out":
		known = keysIn[Residual]()
	case meta.Type(key[:len(key)-1]...) != "Hash":
		return r.at(key.String(), "%s is not a table", key[:len(key)-1])
	}
	return r.at(key.String(), "%q is not a key here; %s", key[len(key)-1], spelling.Hint(key[len(key)-1], known))
}

// head checks what stands before the constants.
func (r *calibrationReader) head(f *CalibrationFile, dtype string) (err error) {
	for _, s := range []struct{ key, value, example string }{
		{"name", f.Name, "h200"}, {"gpu", f.GPU, "h200-sxm-141gb"}, {"kernels", f.Kernels, "torch 2.11.0 (cuBLAS, cuDNN)"},
		{"dtype", dtype, "bf16"}, {"llmprof", f.Version, "v0.1.0"}, {"device.name", f.Device.Name, "NVIDIA H200"},
	} {
		if s.value == "" {
			return r.at(s.key, "the file has no %s, or an empty one: want %s = %q", s.key, s.key, s.example)
		}
	}
	if f.DType, err = unit.ParseFormat(dtype); err != nil {
		return r.at("dtype", "%v", err)
	}
	d := &f.Device
	switch {
	case f.Made.IsZero():
		return r.at("made", "the file does not say when it was made: want made = 2026-11-20T12:00:00Z")
	case len(f.TP) == 0 || slices.Min(f.TP) < 1 || slices.Max(f.TP) > 1e5 || !slices.IsSorted(f.TP):
		return r.at("tp", "tp is %v: want the numbers of GPUs that were timed together, rising, as [1, 2, 4, 8]", f.TP)
	case !(d.Peak >= 1e9 && d.Peak <= 1e18):
		return r.at("device.peak", "peak is %v: want the data-sheet peak that the shares are of, as \"989.4 TFLOP/s\"", d.Peak)
	case !(d.Bandwidth >= 1e9 && d.Bandwidth <= 1e15):
		return r.at("device.bandwidth", "bandwidth is %v: want the data-sheet bandwidth that the shares are of, as \"4.8 TB/s\"", d.Bandwidth)
	}
	for _, q := range []struct {
		key   string
		value float64
		most  float64
	}{{"memory", float64(d.Memory), 100e12}, {"power_limit", float64(d.PowerLimit), 1e5}, {"clock", float64(d.Clock), 10e9},
		{"memory_clock", float64(d.MemoryClock), 100e9}} {
		if !(q.value >= 0 && q.value <= q.most) {
			return r.at("device."+q.key, "%s of %v is not plausible: leave it out if it is not known", q.key, q.value)
		}
	}
	return nil
}

// whole are sections of optional constants of which one alone is of no use.
var whole = []string{"wgmma_gemm", "moe_prefill", "moe_routing", "grouped_gemm"}

// known are the constants of a file.
func (r *calibrationReader) known(sections map[string]map[string]valueText) (map[roofline.Constant]valueText, error) {
	out := map[roofline.Constant]valueText{}
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		for _, key := range slices.Sorted(maps.Keys(sections[name])) {
			c := roofline.ConstantOf(name + "." + key)
			if c == roofline.None || c.Info().Unfiled {
				return nil, r.at(name+"."+key, "%q is not a constant of %s; %s", key, name, spelling.Hint(key, constantsIn(name)))
			}
			out[c] = sections[name][key]
		}
	}
	return out, nil
}

func constantsIn(section string) []string { return keysBySection()[section] }

// keysBySection is made once: every calibration file asks for all sections several times.
var keysBySection = sync.OnceValue(func() map[string][]string {
	all := map[string][]string{}
	for _, c := range roofline.All() {
		if section, k, _ := strings.Cut(c.Info().Key, "."); !c.Info().Unfiled {
			all[section] = append(all[section], k)
		}
	}
	return all
})

func (r *calibrationReader) values(f *CalibrationFile, sections map[string]map[string]valueText) error {
	given, err := r.known(sections)
	if err != nil {
		return err
	}
	begun := map[string]bool{}
	for c := range given {
		section, _, _ := strings.Cut(c.Info().Key, ".")
		begun[section] = true
	}
	for _, c := range roofline.All() {
		k := c.Info()
		section, _, _ := strings.Cut(k.Key, ".")
		t, ok := given[c]
		switch {
		case k.Unfiled:
			continue
		case !ok && begun[section] && (slices.Contains(whole, section) || c.OfScheme()):
			return r.at(section, "the file has no %s (%s), but others of %s: give all of them or none", k.Key, k.Help, section)
		case !ok && !k.Optional:
			return r.at(k.Key, "the file has no %s (%s): give its value, or the default's with n = 0", k.Key, k.Help)
		case !ok:
			continue
		case k.Engine && f.Engine == "":
			return r.at(k.Key, "%s is an engine's and the file names none: want engine = \"native\"", k.Key)
		}
		v, err := r.value(c, &t)
		if err != nil {
			return err
		}
		f.Values[k.Key] = v
	}
	return nil
}

func (r *calibrationReader) value(c roofline.Constant, t *valueText) (v Value, err error) {
	k := c.Info()
	if t.Value == nil {
		return v, r.at(k.Key, "%s has no value: want value = %s", k.Key, k.Quantity.Want())
	}
	if v.Value, err = read(k.Quantity, t.Value); err != nil || !c.Valid(v.Value) {
		return v, r.at(k.Key+".value", "%s is %v: want %s", k.Key, t.Value, k.Quantity.Want())
	}
	if t.Uncertainty != nil {
		if v.Uncertainty, err = read(k.Quantity, t.Uncertainty); err != nil || !(v.Uncertainty >= 0 && v.Uncertainty <= 1e6) {
			return v, r.at(k.Key+".uncertainty", "the uncertainty of %s is %v: want half of its 95 %% interval, in what the value is in", k.Key,
				t.Uncertainty)
		}
	}
	v.From = t.From
	switch {
	case t.N == nil || *t.N < 0:
		return v, r.at(k.Key, "%s does not say how many rows it was fitted from: want n, 0 for a default", k.Key)
	case v.From == "":
		return v, r.at(k.Key, "%s does not say where it is from: want from, as \"40 products\" or \"default for hopper\"", k.Key)
	case *t.N < 2 && t.Uncertainty != nil:
		return v, r.at(k.Key+".uncertainty", "%s has an uncertainty, but n = %d rows say nothing of one: leave it out", k.Key, *t.N)
	case *t.N >= 2 && t.Uncertainty == nil:
		return v, r.at(k.Key, "%s has no uncertainty: n = %d rows give one", k.Key, *t.N)
	case *t.N == 0 && !strings.HasPrefix(v.From, "default"):
		return v, r.at(k.Key, "%s has n = 0 and is from %q: a constant that was not measured says so, as from = \"default for hopper\"", k.Key,
			v.From)
	}
	v.N = *t.N
	return v, nil
}

// read takes a number as TOML has it, or a string with a unit.
func read(q roofline.Quantity, v any) (float64, error) {
	switch v := v.(type) {
	case int64:
		if !q.Timed() {
			return float64(v), nil
		}
	case float64:
		if !q.Timed() {
			return v, nil
		}
	case string:
		var s unit.Seconds
		if err := s.UnmarshalText([]byte(v)); q.Timed() && err == nil && strings.HasSuffix(v, "s") {
			return float64(s), nil
		}
	}
	return math.NaN(), fmt.Errorf("not %s", q.Want())
}

// heldOut checks the errors of rows that were left out of the fit.
func (r *calibrationReader) heldOut(f *CalibrationFile, all map[string]Residual) error {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		h, c := all[key], roofline.ConstantOf(key)
		switch {
		case c == roofline.None:
			return r.at("held_out."+key, "%q is no constant; %s", key, spelling.Hint(key, constantKeys()))
		case h.N < 1 || !(h.Median >= 0 && h.Median <= h.P90 && h.P90 <= math.MaxFloat64):
			return r.at("held_out."+key,
				"the error of %s is n %d, median %v, p90 %v: want shares of the time, the median no more than the p90, of 1 row at least", key, h.N,
				h.Median, h.P90)
		case f.Values[c.String()].N == 0:
			return r.at("held_out."+key, "%s was not fitted, so no row was left out of its fit", key)
		}
		f.HeldOut[c.String()] = h
	}
	for _, c := range roofline.All() {
		k := c.Info()
		if _, ok := f.HeldOut[k.Key]; !ok && k.Quantity == roofline.Share && !k.Engine && f.Values[k.Key].N >= 2 {
			return r.at("held_out", "held_out has no %q, which was fitted: an interval cannot be made without it", k.Key)
		}
	}
	return nil
}

// tables checks where imported rows come from, and what the laws make of them.
func (r *calibrationReader) tables(f *CalibrationFile, operators map[string]operatorsText) error {
	if f.Tables != nil {
		if f.Tables.Package == "" || f.Tables.Version == "" || f.Tables.Licence == "" || len(f.Tables.Files) == 0 {
			return r.at("tables", "the tables lack package, version, licence or files: want where the rows come from, and by which licence")
		}
		for _, file := range f.Tables.Files {
			if file.Path == "" || len(file.SHA256) != 64 || file.Rows < 1 {
				return r.at("tables.files", "the table %q has sha256 %q and %d rows: want a path, 64 hexadecimal digits and 1 row at least", file.Path,
					file.SHA256, file.Rows)
			}
		}
	}
	for section, o := range operators {
		if len(constantsIn(section)) == 0 {
			return r.at("operators."+section, "%q is no section of constants", section)
		}
		if o.N < 1 || o.HeldOut < 1 || !(o.Fitted >= 0 && o.Fitted <= math.MaxFloat64 && o.Median >= 0 && o.Median <= o.P90 &&
			o.P90 <= math.MaxFloat64) {
			return r.at("operators."+section, "the errors of %s are %+v: want shares of the time of 1 row at least", section, o)
		}
		if f.Operators == nil {
			f.Operators = map[string]Operators{}
		}
		f.Operators[section] = Operators{o.N, o.Fitted, Residual{o.HeldOut, o.Median, o.P90}}
	}
	return nil
}

func constantKeys() (keys []string) {
	for _, c := range roofline.All() {
		keys = append(keys, c.String())
	}
	return keys
}
