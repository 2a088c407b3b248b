package calibrate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"llmprof/hardware"
	"llmprof/internal/input"
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

// check returns what is wrong with the row, if anything is. Its median and its work
// are held to what they are computed from.
func (r *Row) check() error {
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

// Rows are those of a file, with what they were measured on.
type Rows struct {
	Machine Machine
	Rows    []Row
	Torn    int // bytes of a last line that was never finished
}

// most is longer than any file of rows.
const most = 64 << 20

// ReadRows reads a file of rows. A last line without its end is left out: whoever
// wrote it was stopped.
func ReadRows(path string) (*Rows, error) {
	return read(path, parseRows)
}

// read reads a file of rows by parse.
func read[T any](path string, parse func(path string, text []byte) (T, error)) (rows T, err error) {
	text, err := readRowFile(path)
	if err != nil {
		return rows, err
	}
	return parse(path, text)
}

func readRowFile(path string) ([]byte, error) {
	text, err := input.Read(path, most)
	if err != nil {
		return nil, fmt.Errorf("rows: %w (want a regular file of at most %v)", err, unit.Bytes(most).Binary())
	}
	return text, nil
}

// parseRows reads the lines of a file of rows, named file in messages.
func parseRows(file string, text []byte) (*Rows, error) {
	out := &Rows{}
	var err error
	if out.Torn, err = eachLine(file, text, out.line); err != nil {
		return nil, err
	}
	if out.Machine.Kind == "" {
		return nil, fmt.Errorf("%s: no line says on which machine the rows were measured: want one of kind %q first", file, machineKind)
	}
	return out, nil
}

// eachLine has every whole line taken, by its kind, and returns the length of a last one without its end.
func eachLine(file string, text []byte, take func(kind string, strict *json.Decoder) error) (torn int, err error) {
	for n := 1; len(text) > 0; n++ {
		line, rest, whole := bytes.Cut(text, []byte("\n"))
		if !whole {
			return len(line), nil
		}
		text = rest
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		var head struct{ Schema, Kind string }
		err := json.Unmarshal(line, &head)
		switch {
		case err != nil:
			err = fmt.Errorf("not a row: %w", err)
		case head.Schema != RowSchema:
			err = fmt.Errorf("the schema is %.60q: want %q", head.Schema, RowSchema)
		default:
			strict := json.NewDecoder(bytes.NewReader(line))
			strict.DisallowUnknownFields()
			err = take(head.Kind, strict)
		}
		if err != nil {
			return 0, fmt.Errorf("%s:%d: %w", file, n, err)
		}
	}
	return 0, nil
}

func (out *Rows) line(kind string, strict *json.Decoder) error {
	if kind == serverKind {
		return fmt.Errorf("the rows are of a server: give --engine openai, or --rows alone")
	}
	if kind == machineKind {
		if out.Machine.Kind != "" {
			return fmt.Errorf("a second line of the machine: rows of two machines are two files")
		}
		if err := strict.Decode(&out.Machine); err != nil {
			return err
		}
		return out.Machine.check()
	}
	if out.Machine.Kind == "" {
		return fmt.Errorf("a row comes before the line of the machine")
	}
	var r Row
	if err := strict.Decode(&r); err != nil {
		return err
	}
	out.Rows = append(out.Rows, r)
	return r.check()
}

// has reports whether the point was measured.
func (out *Rows) has(p Point) bool {
	return slices.ContainsFunc(out.Rows, func(r Row) bool { return r.Point() == p })
}

// A rowFile is one that rows are added to, each a whole line.
type rowFile struct{ *os.File }

// openRows opens a file of rows to add to. A new file begins with the machine.
func openRows(path string, m *Machine) (*rowFile, *Rows, error) {
	m.Schema, m.Kind = RowSchema, machineKind
	rows := &Rows{Machine: *m}
	out, err := openRowFile(path, m, func() (torn int, err error) {
		if rows, err = ReadRows(path); err != nil {
			return 0, err
		}
		if h := &rows.Machine; h.GPU != m.GPU || h.Engine != m.Engine || h.DType != m.DType || h.Device != m.Device || h.Kernels != m.Kernels {
			return 0, fmt.Errorf("%s has rows of %s (%s, %s, %v, %s); here are %s (%s, %s, %v, %s): give another file",
				path, h.GPU, h.Device, h.Engine, h.DType, h.Kernels, m.GPU, m.Device, m.Engine, m.DType, m.Kernels)
		}
		return rows.Torn, nil
	})
	if err != nil {
		return nil, nil, err
	}
	return out, rows, nil
}

// openRowFile opens a file to add lines to, and cuts off a torn last line, whose bytes read counts. A new file begins with the head.
func openRowFile(path string, head any, read func() (torn int, err error)) (*rowFile, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, fmt.Errorf("rows: %w", err)
	}
	out := &rowFile{f}
	if err := out.begin(head, read); err != nil {
		_ = f.Close() // the error says more
		return nil, err
	}
	return out, nil
}

func (out *rowFile) begin(head any, read func() (torn int, err error)) error {
	info, err := out.Stat()
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return out.write(head)
	}
	torn, err := read()
	if err != nil {
		return err
	}
	end := info.Size() - int64(torn)
	if err := out.Truncate(end); err != nil {
		return err
	}
	_, err = out.Seek(end, 0)
	return err
}

// write writes a row, or the machine: whole, and to the disk, before the next is measured.
func (out *rowFile) write(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err = out.Write(append(line, '\n')); err == nil {
		err = out.Sync()
	}
	if err != nil {
		return fmt.Errorf("rows: %w; the last, which may lack there, is %s", err, line)
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
func Lines() []any { return []any{Machine{}, Row{}, Server{}, servedRow{}} }
