package hardware

import (
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"llmprof/unit"
)

// A calibrationText is a calibration file as TOML has it.
type calibrationText struct {
	Schema  string            `toml:"schema"`
	Name    string            `toml:"name"`
	GPU     string            `toml:"gpu"`
	Engine  string            `toml:"engine"`
	Kernels string            `toml:"kernels"`
	DType   string            `toml:"dtype"`
	TP      []int             `toml:"tp"`
	Made    time.Time         `toml:"made"`
	Version string            `toml:"llmprof"`
	Notes   []string          `toml:"notes"`
	Tools   map[string]string `toml:"versions"`
	Device  deviceText        `toml:"device"`

	GEMM      map[string]valueText    `toml:"gemm"`
	Own       map[string]valueText    `toml:"own"`
	Wide      map[string]valueText    `toml:"wide"`
	Mixture   map[string]valueText    `toml:"mixture"`
	Experts   map[string]valueText    `toml:"experts"`
	Choice    map[string]valueText    `toml:"choice"`
	Attention map[string]valueText    `toml:"attention"`
	Element   map[string]valueText    `toml:"element"`
	Graph     map[string]valueText    `toml:"graph"`
	Stream    map[string]valueText    `toml:"stream"`
	Link      map[string]valueText    `toml:"link"`
	OneShot   map[string]valueText    `toml:"one_shot"`
	Posted    map[string]valueText    `toml:"posted"`
	Power     map[string]valueText    `toml:"power"`
	Host      map[string]valueText    `toml:"host"`
	HeldOut   map[string]residualText `toml:"held_out"`
}

type deviceText struct {
	Name        string           `toml:"name"`
	Memory      unit.Bytes       `toml:"memory"`
	PowerLimit  unit.Watts       `toml:"power_limit"`
	Clock       unit.Hertz       `toml:"clock"`
	MemoryClock unit.Hertz       `toml:"memory_clock"`
	Peak        unit.FLOPsPerSec `toml:"peak"`
	Bandwidth   unit.BytesPerSec `toml:"bandwidth"`
}

// A valueText has a number or a string with a unit, as the constant wants it.
type valueText struct {
	Value       any    `toml:"value"`
	Uncertainty any    `toml:"uncertainty"`
	N           *int   `toml:"n"`
	From        string `toml:"from"`
}

type residualText struct {
	N      int     `toml:"n"`
	Median float64 `toml:"median"`
	P90    float64 `toml:"p90"`
}

// sections gives the tables of constants by their names.
func (t *calibrationText) sections() map[string]map[string]valueText {
	return map[string]map[string]valueText{
		"gemm": t.GEMM, "own": t.Own, "wide": t.Wide, "mixture": t.Mixture, "experts": t.Experts, "choice": t.Choice,
		"attention": t.Attention, "element": t.Element, "graph": t.Graph, "stream": t.Stream,
		"link": t.Link, "one_shot": t.OneShot, "posted": t.Posted, "power": t.Power, "host": t.Host,
	}
}

// ReadCalibration reads a calibration file.
func ReadCalibration(path string) (*CalibrationFile, error) {
	in, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	defer in.Close()
	text, err := io.ReadAll(io.LimitReader(in, maxFile+1))
	if err != nil {
		return nil, fmt.Errorf("calibration: %w", err)
	}
	if len(text) > maxFile {
		return nil, fmt.Errorf("calibration: %s is longer than %v", path, unit.Bytes(maxFile).Binary())
	}
	return ParseCalibration(path, string(text))
}

// ParseCalibration reads the text of a calibration file, named file in messages.
// It is strict: what is unknown, missing, of another unit or out of range is an
// *Error that says where, and what would be right.
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
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return nil, r.unknown(unknown[0], &meta)
	}
	f := &CalibrationFile{
		File: file, Name: t.Name, GPU: t.GPU, Engine: t.Engine, Kernels: t.Kernels, TP: t.TP, Made: t.Made.UTC(), Version: t.Version, Tools: t.Tools,
		Notes: t.Notes, Device: CalibratedDevice(t.Device), Values: map[string]Value{}, HeldOut: map[string]Residual{},
	}
	if err := r.head(f, &t); err != nil {
		return nil, err
	}
	if err := r.values(f, t.sections()); err != nil {
		return nil, err
	}
	return f, r.heldOut(f, t.HeldOut)
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
		known = keysIn[calibrationText]()
	case key[0] == "device":
		known = keysIn[deviceText]()
	case key[0] == "held_out":
		known = keysIn[residualText]()
	case meta.Type(key[:len(key)-1]...) != "Hash":
		return r.at(key.String(), "%s is not a table", key[:len(key)-1])
	}
	return r.at(key.String(), "%q is not a key here; %s", key[len(key)-1], hint(key[len(key)-1], known))
}

// head checks what stands before the constants.
func (r *calibrationReader) head(f *CalibrationFile, t *calibrationText) (err error) {
	for _, s := range []struct{ key, value, example string }{
		{"name", f.Name, "h200"}, {"gpu", f.GPU, "h200-sxm-141gb"}, {"kernels", f.Kernels, "torch 2.11.0 (cuBLAS, cuDNN)"},
		{"dtype", t.DType, "bf16"}, {"llmprof", f.Version, "v0.1.0"}, {"device.name", f.Device.Name, "NVIDIA H200"},
	} {
		if s.value == "" {
			return r.at(s.key, "the file has no %s, or an empty one: want %s = %q", s.key, s.key, s.example)
		}
	}
	if f.DType, err = unit.ParseFormat(t.DType); err != nil {
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
	}{{"memory", float64(d.Memory), 100e12}, {"power_limit", float64(d.PowerLimit), 1e5}, {"clock", float64(d.Clock), 10e9}, {"memory_clock", float64(d.MemoryClock), 100e9}} {
		if !(q.value >= 0 && q.value <= q.most) {
			return r.at("device."+q.key, "%s of %v is not plausible: leave it out if it is not known", q.key, q.value)
		}
	}
	return nil
}

// whole are sections of optional constants of which one alone is of no use.
var whole = []string{"wide", "experts", "choice"}

// values checks every constant.
func (r *calibrationReader) values(f *CalibrationFile, sections map[string]map[string]valueText) error {
	for _, name := range slices.Sorted(maps.Keys(sections)) {
		var known []string
		for i := range constants {
			if s, key, _ := strings.Cut(constants[i].Key, "."); s == name {
				known = append(known, key)
			}
		}
		var unknown []string
		for key := range sections[name] {
			if !slices.Contains(known, key) {
				unknown = append(unknown, key)
			}
		}
		if slices.Sort(unknown); len(unknown) > 0 {
			return r.at(name+"."+unknown[0], "%q is not a constant of %s; %s", unknown[0], name, hint(unknown[0], known))
		}
	}
	for i := range constants {
		k := &constants[i]
		section, key, _ := strings.Cut(k.Key, ".")
		t, ok := sections[section][key]
		switch {
		case !ok && slices.Contains(whole, section) && len(sections[section]) > 0:
			return r.at(section, "the file has no %s (%s), but others of %s: give all of them or none", k.Key, k.Help, section)
		case !ok && !k.optional:
			return r.at(k.Key, "the file has no %s (%s): give its value, or the default's with n = 0", k.Key, k.Help)
		case !ok:
			continue
		case k.host != nil && f.Engine == "":
			return r.at(k.Key, "%s is an engine's and the file names none: want engine = \"native\"", k.Key)
		}
		v, err := r.value(k, &t)
		if err != nil {
			return err
		}
		f.Values[k.Key] = v
	}
	return nil
}

// value checks one constant.
func (r *calibrationReader) value(k *Constant, t *valueText) (v Value, err error) {
	if t.Value == nil {
		return v, r.at(k.Key, "%s has no value: want value = %s", k.Key, k.quantity.want())
	}
	if v.Value, err = k.quantity.read(t.Value); err != nil || !k.Valid(v.Value) {
		return v, r.at(k.Key+".value", "%s is %v: want %s", k.Key, t.Value, k.quantity.want())
	}
	if t.Uncertainty != nil {
		if v.Uncertainty, err = k.quantity.read(t.Uncertainty); err != nil || !(v.Uncertainty >= 0 && v.Uncertainty <= 1e6) {
			return v, r.at(k.Key+".uncertainty", "the uncertainty of %s is %v: want half of its 95 %% interval, in what the value is in", k.Key, t.Uncertainty)
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
		return v, r.at(k.Key, "%s has n = 0 and is from %q: a constant that was not measured says so, as from = \"default for hopper\"", k.Key, v.From)
	}
	v.N = *t.N
	return v, nil
}

// read takes a number as TOML has it, or a string with a unit.
func (q quantity) read(v any) (float64, error) {
	switch v := v.(type) {
	case int64:
		if !q.timed() {
			return float64(v), nil
		}
	case float64:
		if !q.timed() {
			return v, nil
		}
	case string:
		var s unit.Seconds
		if err := s.UnmarshalText([]byte(v)); q.timed() && err == nil && strings.HasSuffix(v, "s") {
			return float64(s), nil
		}
	}
	return math.NaN(), fmt.Errorf("not %s", q.want())
}

// heldOut checks the errors of rows that were left out of the fit.
func (r *calibrationReader) heldOut(f *CalibrationFile, all map[string]residualText) error {
	var keys []string
	for key := range all {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		h := all[key]
		switch {
		case ConstantOf(key) == nil:
			return r.at("held_out."+key, "%q is no constant; %s", key, hint(key, keysOf(constants)))
		case h.N < 1 || !(h.Median >= 0 && h.Median <= h.P90 && h.P90 < 10):
			return r.at("held_out."+key, "the error of %s is n %d, median %v, p90 %v: want shares of the time, the median no more than the p90, of 1 row at least", key, h.N, h.Median, h.P90)
		case f.Values[key].N == 0:
			return r.at("held_out."+key, "%s was not fitted, so no row was left out of its fit", key)
		}
		f.HeldOut[key] = Residual(h)
	}
	for i := range constants {
		k := &constants[i]
		if _, ok := f.HeldOut[k.Key]; !ok && k.quantity == share && k.of != nil && f.Values[k.Key].N >= 2 {
			return r.at("held_out", "held_out has no %q, which was fitted: an interval cannot be made without it", k.Key)
		}
	}
	return nil
}

func keysOf(all []Constant) []string {
	keys := make([]string, len(all))
	for i := range all {
		keys[i] = all[i].Key
	}
	return keys
}
