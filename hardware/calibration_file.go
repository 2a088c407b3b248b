package hardware

import (
	"fmt"
	"io/fs"
	"math"
	"slices"
	"strings"
	"time"

	"llmprof/roofline"
	"llmprof/unit"
)

// CalibrationSchema is the first line of a calibration file.
const CalibrationSchema = "llmprof.calibration/v1"

// A CalibrationFile is what was measured on one kind of GPU: constants with how
// far they can be trusted, and where, when and with what they were measured. It
// names the GPU by its key in the table, never by a UUID.
type CalibrationFile struct {
	File    string              `toml:"-"` // path of the file, for messages
	Name    string              `toml:"name"`
	GPU     string              `toml:"gpu"`     // key in the table
	Engine  string              `toml:"engine"`  // engine of the host constants; "" for none
	Kernels string              `toml:"kernels"` // kernels that were timed: "torch 2.11 (cuBLAS, cuDNN)"
	DType   unit.Format         `toml:"dtype"`   // format of GEMMs and attention
	TP      []int               `toml:"tp"`      // numbers of GPUs that all-reduces were timed over, 1 among them
	Made    time.Time           `toml:"made"`
	Version string              `toml:"llmprof"` // version of llmprof
	Notes   []string            `toml:"notes"`
	Tools   map[string]string   `toml:"versions"` // versions: driver, cuda, torch, ...
	Device  CalibratedDevice    `toml:"device"`
	Values  map[string]Value    `toml:"-"`        // constants by their keys
	HeldOut map[string]Residual `toml:"held_out"` // errors of rows left out of the fit, by the key of the constant that bounds them

	Tables    *Tables              `toml:"tables"`    // tables that rows were imported from; nil where they were measured
	Operators map[string]Operators `toml:"operators"` // imported rows, by the section of their constants
}

// Tables are published tables of operator times that constants were fitted to.
type Tables struct {
	Package string      `toml:"package"`
	Version string      `toml:"version"`
	Licence string      `toml:"licence"`
	Files   []TableFile `toml:"files"`
}

// A TableFile is one table.
type TableFile struct {
	Path   string `toml:"path"`
	SHA256 string `toml:"sha256"`
	Rows   int    `toml:"rows"` // number of rows used
}

// Operators is how well a law does on the rows of a section: constants fitted to all
// of them, and to one half of their shapes alone for the error of the other half. Errors
// are shares of the time.
type Operators struct {
	N       int     `toml:"n"`        // rows
	Fitted  float64 `toml:"fitted"`   // median error of all rows
	HeldOut int     `toml:"held_out"` // rows of the other half
	Median  float64 `toml:"median"`   // median error of the other half
	P90     float64 `toml:"p90"`      // 90th percentile of the errors of the other half
}

// A CalibratedDevice says which board it was, and which peaks the shares are of.
// What is 0 was not recorded.
type CalibratedDevice struct {
	Name        string           `toml:"name"` // name that its driver gives
	Memory      unit.Bytes       `toml:"memory"`
	PowerLimit  unit.Watts       `toml:"power_limit"`
	Clock       unit.Hertz       `toml:"clock"` // highest that was seen
	MemoryClock unit.Hertz       `toml:"memory_clock"`
	Peak        unit.FLOPsPerSec `toml:"peak"`      // peak of DType in the table of GPUs
	Bandwidth   unit.BytesPerSec `toml:"bandwidth"` // bandwidth in the table of GPUs
}

// A Value is a constant as it was measured, or taken from the defaults.
type Value struct {
	Value       float64
	Uncertainty float64 // half-width of its 95 % interval; 0 where N is less than 2
	N           int     // rows that determine it; 0 for a default
	From        string
}

// A Residual is how far predictions were off on rows that were left out of the
// fit, as shares of the time.
type Residual struct {
	N      int     `toml:"n"`
	Median float64 `toml:"median"`
	P90    float64 `toml:"p90"`
}

// Check returns what is wrong with the file for g, if anything is.
func (f *CalibrationFile) Check(g *GPU) error {
	switch peak, ok := g.Peak(f.DType); {
	case f.GPU != g.Key:
		return fmt.Errorf("%s: the calibration %q is of %s, not of %s: calibrate on one, or give --gpu %s", f.File, f.Name, f.GPU, g.Key, f.GPU)
	case !ok:
		return fmt.Errorf("%s: the calibration %q is in %v, for which %s has no peak", f.File, f.Name, f.DType, g.Key)
	case !near(float64(f.Device.Peak), float64(peak)) || !near(float64(f.Device.Bandwidth), float64(g.Bandwidth)):
		return fmt.Errorf("%s: its shares are of %v in %v and of %v, but %s has %v and %v: fit it again with \"llmprof calibrate --rows\"",
			f.File, f.Device.Peak, f.DType, f.Device.Bandwidth, g.Key, peak, g.Bandwidth)
	}
	return nil
}

// near allows for the four digits that a file is written with.
func near(a, b float64) bool { return math.Abs(a-b) <= 1e-3*math.Abs(b) }

// Serves reports whether the file's host constants are of an engine: of the one
// that it names, in a graph or not.
func (f *CalibrationFile) Serves(engine string) bool {
	return f.Engine != "" && (engine == f.Engine || strings.HasPrefix(engine, f.Engine+"-"))
}

// Apply is the calibration of g by the file: its constants replace the defaults, and those of the
// host replace the engine's where the file is of that engine.
func (f *CalibrationFile) Apply(g *GPU, engine string) (c Calibration, err error) {
	if err := f.Check(g); err != nil {
		return c, err
	}
	c = DefaultCalibration(g)
	throttled := c.Constants[roofline.GEMMSustained] < c.Constants[roofline.GEMMCompute]
	for _, k := range roofline.All() {
		if v, ok := f.value(k, engine); ok {
			c.Constants[k] = v.Value
		}
	}
	for key, h := range f.HeldOut {
		c.Residuals[roofline.ConstantOf(key)] = h.width()
	}
	if _, ok := f.Values["gemm.sustained"]; !ok && !throttled { // nothing is known of a power limit
		c.Constants[roofline.GEMMSustained] = c.Constants[roofline.GEMMCompute]
	}
	c.Name, c.Source, c.Measured = f.Name, f.source(), true
	for key, v := range f.Values {
		c.Fitted[roofline.ConstantOf(key)] = v.N > 0
	}
	return c, nil
}

// value is a constant that the file has, for the kernels and the host of an engine.
func (f *CalibrationFile) value(k roofline.Constant, engine string) (Value, bool) {
	v, ok := f.Values[k.String()]
	return v, ok && (!k.Info().Engine || f.Serves(engine))
}

func (f *CalibrationFile) source() string {
	s := fmt.Sprintf("measured on %s, %s, %s", f.Device.Name, f.Made.Format(time.DateOnly), f.Kernels)
	defaults := 0
	for _, v := range f.Values {
		if v.N == 0 {
			defaults++
		}
	}
	if defaults > 0 {
		s += fmt.Sprintf("; %d of %d constants are defaults", defaults, len(f.Values))
	}
	return s
}

// A SlowEnd is constants at the slow end of their 90 % intervals, all of them together: an uncertain constant, or those of a transport.
type SlowEnd []Longer

// A Longer is by how much longer the terms take that a constant stretches, as a share of their time.
type Longer struct {
	Constant roofline.Constant
	By       float64
}

// SlowEnds are what an interval of times is made of, for an engine with the constants c on a GPU. A constant moves by its own uncertainty;
// by how much kernels of other shapes are off besides is in Residuals. A constant that was left to the default may be off by the default's
// error, and so may those of the transports that no file has. Constants that the engine has in place of the file's are left out.
func (f *CalibrationFile) SlowEnds(g *GPU, engine string, c *roofline.Constants) (all []SlowEnd) {
	defaults := DefaultCalibration(g)
	for _, k := range roofline.All() {
		if v, ok := f.value(k, engine); ok && !k.IsPower() && v.Value == c[k] {
			all = append(all, SlowEnd{{k, k.Longer(width(v, &defaults))}})
		}
	}
	e := max(defaults.DecodeError, defaults.PrefillError)
	for _, transport := range [][]roofline.Constant{
		{roofline.PCIeShare, roofline.PCIeBase, roofline.PCIePerGPU}, {roofline.HostCopyShare}, {roofline.InterNodeShare, roofline.InterNodeBase},
	} {
		var end SlowEnd
		for _, k := range transport {
			end = append(end, Longer{k, k.Longer(e)})
		}
		all = append(all, end)
	}
	return all
}

// width is half of the 90 % interval of a kernel: that of a normal distribution with the same
// median error, where the 90th percentile is larger. It is larger for the shortest of the
// rows, which a step has little of.
func (r *Residual) width() float64 { return min(r.P90, r.Median*normal90/normal50) }

// normal50, normal90 and normal95 are how many standard deviations the halves of these
// intervals of a normal distribution have.
const normal50, normal90, normal95 = 0.6745, 1.645, 1.960

// width is half of the 90 % interval of a constant, as a share of it.
func width(v Value, defaults *Calibration) float64 {
	switch {
	case v.N < 2 && defaults.Board > 0: // one row says nothing of its own error
		return defaults.Board
	case v.N < 2:
		return max(defaults.DecodeError, defaults.PrefillError)
	case v.Value == 0:
		return 0
	}
	return v.Uncertainty / v.Value * normal90 / normal95
}

// BuiltIn finds the calibration of a GPU among those that come with the program:
// that of the engine, hardware/calibrations/KEY.ENGINE.toml, or of its family (transformers of
// transformers-graph), else that of no engine, hardware/calibrations/KEY.toml. It is nil where
// there is none, or where the figures of g are not those that the shares are of: a
// user may have changed them.
func BuiltIn(files fs.FS, g *GPU, engine string) (*CalibrationFile, error) {
	family, _, _ := strings.Cut(engine, "-")
	for _, name := range slices.Compact([]string{g.Key + "." + engine + ".toml", g.Key + "." + family + ".toml", g.Key + ".toml"}) {
		text, err := fs.ReadFile(files, "hardware/calibrations/"+name)
		if err != nil {
			continue // there is none
		}
		f, err := ParseCalibration("calibrations/"+name, string(text))
		if fits := err == nil && f.Check(g) == nil; !fits {
			f = nil
		}
		return f, err
	}
	return nil, nil
}
