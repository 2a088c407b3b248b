package calibrate

import (
	"fmt"
	"math"
	"time"

	"llmprof/hardware"
	"llmprof/internal/stats"
	"llmprof/roofline"
	"llmprof/unit"
)

// RowSchema names the form of a line of a file of rows, which
// "llmprof schema bench" shows.
const RowSchema = "llmprof.bench/v1"

// A Row is what was seen of one point: a line of JSON.
type Row struct {
	Schema string `json:"schema"`
	Kind   Kind   `json:"kind"` // what was timed
	// how large it was; sizes that the kind has no use for are left out
	Shape  Shape           `json:"shape"`
	DType  unit.Format     `json:"dtype"`                        // of products and tensors
	Ranks  int             `json:"ranks" jsonschema:"minimum=1"` // GPUs that took part
	Scheme roofline.Scheme `json:"-"`                            // scheme of imported rows; no file of rows has it
	Source string          `json:"-"`                            // the kernel, as the table of imported rows names it
	// copies of the weights that the calls of an imported row took in turn; 0 where that is not known
	Copies int `json:"-"`
	// The weights of an imported row were random numbers, which draw the power of a model's.
	Random bool `json:"-"`
	// The collector timed the rows of these weights one after the other, those of most tokens first.
	InTurn bool   `json:"-"`
	Engine string `json:"engine"` // whose kernels; empty for none
	Graph  bool   `json:"graph"`  // timed in a CUDA graph
	// The buffers were rotated, so that none was in the L2 cache.
	Cold    bool      `json:"cold"`
	Seconds []float64 `json:"seconds" jsonschema:"minItems=1,exclusiveMinimum=0"` // samples, each of one call
	Median  float64   `json:"median_s" jsonschema:"exclusiveMinimum=0"`           // median of the samples
	FLOPs   float64   `json:"flops" jsonschema:"minimum=0"`                       // FLOPs of one call
	Bytes   float64   `json:"bytes" jsonschema:"minimum=0"`                       // bytes of one call
	Wire    float64   `json:"wire_bytes" jsonschema:"minimum=0"`                  // bytes that one rank sends
	// power of a GPU, the median of the last half of the time; null where no sensor was read
	Power   *float64  `json:"power_w" jsonschema:"exclusiveMinimum=0"`
	Clock   *float64  `json:"clock_hz" jsonschema:"exclusiveMinimum=0"` // clock of the multiprocessors, the median
	Limited []string  `json:"throttled"`                                // reasons for which clocks were held down
	When    time.Time `json:"when"`
}

// A Machine is what the rows of a file were measured on: its first line.
type Machine struct {
	Schema      string            `json:"schema"`
	Kind        string            `json:"kind" jsonschema:"enum=machine"`   // "machine"
	GPU         string            `json:"gpu" jsonschema:"minLength=1"`     // key in the table
	Device      string            `json:"device" jsonschema:"minLength=1"`  // as its driver calls it
	Memory      *unit.Bytes       `json:"memory_bytes"`                     // in all; null where not known
	PowerLimit  *unit.Watts       `json:"power_limit_w"`                    // null where not known
	Clock       *unit.Hertz       `json:"clock_hz"`                         // highest that was seen while memory was read
	MemoryClock *unit.Hertz       `json:"memory_clock_hz"`                  // null where not known
	Engine      string            `json:"engine"`                           // engine whose host was timed; "" for none
	Kernels     string            `json:"kernels" jsonschema:"minLength=1"` // kernels that were timed
	DType       unit.Format       `json:"dtype"`
	Tools       map[string]string `json:"versions"`                         // of driver, CUDA, torch and others
	Version     string            `json:"llmprof" jsonschema:"minLength=1"` // version of the program that measured
	When        time.Time         `json:"when"`
	Notes       []string          `json:"notes,omitempty"` // remarks of the file's author, which go into a calibration
}

// machineKind is the kind of the line that says where it was.
const machineKind = "machine"

func newRow(p *Point, seconds []float64) (Row, error) {
	sum, err := stats.Summarize(seconds)
	if err != nil {
		return Row{}, fmt.Errorf("%v: %w", p, err)
	}
	w := p.Work()
	return Row{
		Schema: RowSchema, Kind: p.Kind, Shape: p.Shape, DType: p.DType, Ranks: p.Ranks, Seconds: seconds, Median: sum.Median,
		FLOPs: float64(w.FLOPs), Bytes: float64(w.Traffic()), Wire: float64(w.Wire), Limited: []string{},
	}, nil
}

// Point is what the row is of.
func (r *Row) Point() Point { return Point{r.Kind, r.Shape, r.DType, r.Scheme, r.Ranks} }

// check returns what is wrong with the row, if anything is; a point may be measured twice. Its median and its work
// are held to what they are computed from.
func (r *Row) check([]Row) error {
	p := r.Point()
	if err := p.check(); err != nil {
		return err
	}
	if r.DType == unit.NoFormat {
		return fmt.Errorf("%v has no dtype", p)
	}
	for _, s := range r.Seconds {
		if !(s > 0 && s < 1e4) {
			return fmt.Errorf("%v took %v s: want a time above 0", p, s)
		}
	}
	again, err := newRow(&p, r.Seconds)
	if err != nil {
		return err
	}
	for _, c := range []struct {
		key       string
		got, want float64
	}{{"median_s", r.Median, again.Median}, {"flops", r.FLOPs, again.FLOPs}, {"bytes", r.Bytes, again.Bytes},
		{"wire_bytes", r.Wire, again.Wire}} {
		if !(math.Abs(c.got-c.want) <= 1e-9*math.Abs(c.want)) {
			return fmt.Errorf("%v has %s %v: its samples and its shape give %v", p, c.key, c.got, c.want)
		}
	}
	for _, x := range []*float64{r.Power, r.Clock} {
		if x != nil && !(*x > 0 && *x < 1e12) {
			return fmt.Errorf("%v has a power or a clock of %v", p, *x)
		}
	}
	return nil
}

// is says how a file of its rows is recognized.
func (*Machine) is() (kind string, keys []string) {
	return machineKind, []string{"gpu", "device", "engine", "dtype", "kernels"}
}

// check returns what is wrong with the machine's line.
func (m *Machine) check() error {
	switch {
	case m.GPU == "" || m.Device == "" || m.Kernels == "" || m.Version == "":
		return fmt.Errorf("the line of the machine lacks gpu, device, kernels or llmprof")
	case m.DType == unit.NoFormat:
		return fmt.Errorf("the line of the machine has no dtype")
	case m.When.IsZero():
		return fmt.Errorf("the line of the machine does not say when it was")
	}
	return nil
}

// device is the machine as a calibration file says it.
func (m *Machine) device(f *hardware.CalibrationFile) {
	d := &f.Device
	d.Name = m.Device
	set(&d.Memory, m.Memory)
	set(&d.PowerLimit, m.PowerLimit)
	set(&d.Clock, m.Clock)
	set(&d.MemoryClock, m.MemoryClock)
}

// set sets to what is known.
func set[T any](to, known *T) {
	if known != nil {
		*to = *known
	}
}

// Lines are one of each type of line of files of rows.
func Lines() []any { return []any{Machine{}, Row{}, Server{}, ServedPoint{}} }
